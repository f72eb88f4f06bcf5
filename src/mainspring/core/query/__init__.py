"""Filter grammar, shared by the API, the command line and the dashboard."""
