"""From rows to what the API shows."""
