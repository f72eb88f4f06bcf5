"""The demo: its words and numbers by themselves, and all of it as a process."""
