"""Where the command line takes its configuration from: contexts, project file, environment, options."""
