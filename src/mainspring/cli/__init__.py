"""The command line: one file per noun, results on stdout, everything else on stderr."""
