"""What users import: the client, `@task`, `serve`, and what a task sees of itself."""
