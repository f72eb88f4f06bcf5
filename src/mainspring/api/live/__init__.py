"""The live stream of transitions, and requests that wait for the end of a run."""
