"""`@task` and `@job`: jobs written in Python."""
