"""Commands on schedules, backfills, and events."""
