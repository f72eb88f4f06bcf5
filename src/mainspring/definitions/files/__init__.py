"""Reading of definition files: positions of values, drafts, and the fields of each kind of file."""
