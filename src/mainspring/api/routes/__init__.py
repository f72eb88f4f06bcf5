"""One module per resource; each declares its routes as typed functions."""
