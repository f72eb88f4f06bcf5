"""Why something waits: diagnoses from facts, their messages, and what-if changes."""
