"""Workers: what they decide, what they keep, and how they run things."""
