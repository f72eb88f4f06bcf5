"""The command line: one file per resource; results on stdout, everything else on stderr."""
