"""Commands that need no server of yours: version, list of commands, OpenAPI, demo."""
