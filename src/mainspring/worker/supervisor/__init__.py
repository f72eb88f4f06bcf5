"""The supervisor: parent of every task process; it outlives the agent."""
