"""Reading and writing small texts: quantities, durations, URLs, strict JSON, suggestions."""
