"""Commands that need no server: version, commands, openapi, demo."""
