"""Files that people write: pipelines, jobs, schedules; read strictly into the forms that the server takes."""
