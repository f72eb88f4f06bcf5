"""The pages: those that are made are what the tool makes, and no link leads nowhere."""
