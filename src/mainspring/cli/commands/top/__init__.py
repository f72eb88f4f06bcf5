"""`mainspring top`: a full-screen view of a server."""
