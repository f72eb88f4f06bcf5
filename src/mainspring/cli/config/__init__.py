"""Configuration of the command line: options, environment, contexts, project file."""
