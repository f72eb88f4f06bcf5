"""Schedules: when they fire, and the outcome of each window.

Definition: `schedule_spec`, `schedule_json`. Windows: `triggers`, `cron/`, `time_zones`, `windows`. Decisions:
`start_policy` (may a window start), `evaluate` (time, run ends, events), `schedule_actions` (users), `backfill`,
`failure_streak`.
"""
