"""Why a task waits, when it will start, and what would change that."""
