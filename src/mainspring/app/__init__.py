"""The programs: all wiring, and the processes built from it."""
