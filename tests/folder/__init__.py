"""Folders: what is found in them, what is kept in them, and who has them."""
