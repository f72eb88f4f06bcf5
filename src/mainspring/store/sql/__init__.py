"""SQL and row mapping shared by both stores."""
