"""Worker: an agent that talks to the server, and a supervisor that is the parent of every task process."""
