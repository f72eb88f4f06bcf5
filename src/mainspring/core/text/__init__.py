"""Small text formats: quantities, durations, URLs, strict JSON, suggestions."""
