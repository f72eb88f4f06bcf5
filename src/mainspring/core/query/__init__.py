"""The grammar of filters: one for the API, the command line and the pages."""
