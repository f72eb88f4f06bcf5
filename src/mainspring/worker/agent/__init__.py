"""The agent: the link to the server, the state machine of attempts, and the spool."""
