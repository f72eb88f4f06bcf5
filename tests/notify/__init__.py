"""Channels of alerts, against real servers on this machine."""
