"""Who is asking, and what a role may do: authentication, tokens, permissions, audit context."""
