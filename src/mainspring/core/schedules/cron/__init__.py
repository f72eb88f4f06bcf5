"""Cron expressions: parsing, occurrences in a time zone, and a description in words."""
