"""What the project makes its own files with."""
