"""The rules: pure functions and the plain types they speak of. No I/O, clock, randomness, logging or await."""
