"""Definition files: YAML jobs, schedules and pipelines, crontabs, and the JSON Schema."""
