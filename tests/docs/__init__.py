"""The docs: generated pages are current, and links resolve."""
