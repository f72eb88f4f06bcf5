"""The files that a folder keeps: state files, results, and the index."""
