"""The life of a task: states, readiness, failures, retries, timeouts, circuit breakers, deadlines."""
