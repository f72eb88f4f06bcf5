"""Tests of the demo: messages and measures as units, and the whole demo as a process."""
