"""The client for programs with an event loop. The one for all others, in the folder above, is made from it."""
