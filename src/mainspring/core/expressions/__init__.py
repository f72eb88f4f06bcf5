"""Expression engine: conditions and templates."""
