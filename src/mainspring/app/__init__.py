"""The programs: all wiring, and the processes that are built from it."""
