"""The store's contract, in parts by consumer."""
