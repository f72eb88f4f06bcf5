"""One module per command, in a folder per kind of resource."""
