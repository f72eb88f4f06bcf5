"""The supervisor: parent of every task's process; it outlives the agent."""
