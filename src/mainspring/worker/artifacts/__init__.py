"""Files that attempts leave: collected, stored, fetched, removed when they are old."""
