"""Alert channels, against real servers on this machine."""
