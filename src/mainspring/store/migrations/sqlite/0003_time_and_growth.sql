-- 0003: schedules, their fires, events, backfills, alerts, breakers, usual durations; tasks that grow; dead letters.
-- Old servers: none, because one process at a time has the file.
-- Locks: the file, which nobody else has.

CREATE TABLE schedules (
    id              TEXT NOT NULL PRIMARY KEY,
    tenant          TEXT NOT NULL,
    name            TEXT NOT NULL,
    job             TEXT NOT NULL,
    version         INTEGER NOT NULL,
    spec            TEXT NOT NULL,
    event_type      TEXT NOT NULL,
    after_job       TEXT NOT NULL,
    pool            TEXT NOT NULL,
    enabled         INTEGER NOT NULL,
    paused          INTEGER NOT NULL,
    because         TEXT NOT NULL,
    enabled_since   INTEGER NOT NULL,
    through_at      INTEGER NOT NULL,
    next_at         INTEGER,
    has_waiting     INTEGER NOT NULL,
    looked_at       INTEGER,
    latest_event_at INTEGER,
    created_at      INTEGER NOT NULL,
    created_by      TEXT NOT NULL,
    updated_at      INTEGER NOT NULL,
    updated_by      TEXT NOT NULL,
    deleted_at      INTEGER
) STRICT;
-- insert_schedule, find_schedule: a name is used once
CREATE UNIQUE INDEX schedules_name ON schedules (tenant, name) WHERE deleted_at IS NULL;
-- settle_due, next_due, next_schedules
CREATE INDEX schedules_due ON schedules (next_at, id) WHERE next_at IS NOT NULL AND deleted_at IS NULL;
-- settle_waiting
CREATE INDEX schedules_waiting ON schedules (coalesce(looked_at, 0)) WHERE has_waiting AND deleted_at IS NULL;
-- receive_events
CREATE INDEX schedules_event ON schedules (tenant, event_type) WHERE event_type <> '' AND deleted_at IS NULL;
-- schedules_after
CREATE INDEX schedules_after ON schedules (id) WHERE after_job <> '' AND has_waiting AND deleted_at IS NULL;
-- the other schedule of a case
CREATE INDEX schedules_job ON schedules (tenant, job) WHERE deleted_at IS NULL;

CREATE TABLE schedule_changes (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    schedule_id TEXT NOT NULL,
    at          INTEGER NOT NULL,
    act         TEXT NOT NULL,
    "by"        TEXT NOT NULL,
    why         TEXT NOT NULL,
    version     INTEGER NOT NULL,
    before      TEXT,
    after       TEXT
) STRICT;
-- schedule_changes
CREATE INDEX schedule_changes_of ON schedule_changes (schedule_id, seq);
-- prune
CREATE INDEX schedule_changes_by_day ON schedule_changes (at);

CREATE TABLE fires (
    schedule_id    TEXT NOT NULL,
    window_at      INTEGER NOT NULL,
    generation     INTEGER NOT NULL,
    last_window_at INTEGER NOT NULL,
    count          INTEGER NOT NULL,
    outcome        TEXT NOT NULL,
    because        TEXT NOT NULL,
    is_catch_up    INTEGER NOT NULL,
    flagged        INTEGER NOT NULL,
    start_at       INTEGER,
    run_id         TEXT,
    run_state      TEXT,
    run_ended_at   INTEGER,
    stopping       INTEGER NOT NULL,
    asked_at       INTEGER,
    repeats        TEXT,
    backfill_id    TEXT,
    event          TEXT,
    params         TEXT,
    "by"           TEXT NOT NULL,
    decided_at     INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, window_at, generation)
) STRICT;
-- the open fires of a case
CREATE INDEX fires_open ON fires (schedule_id, window_at, generation)
    WHERE outcome = 'waiting' OR (outcome = 'ran' AND run_ended_at IS NULL);
-- fire_of_run
CREATE INDEX fires_run ON fires (run_id) WHERE run_id IS NOT NULL;
-- the latest ends of a case
CREATE INDEX fires_ended ON fires (schedule_id, run_ended_at) WHERE run_ended_at IS NOT NULL;
-- prune
CREATE INDEX fires_by_day ON fires (decided_at);

CREATE TABLE backfills (
    id           TEXT NOT NULL PRIMARY KEY,
    schedule_id  TEXT NOT NULL,
    tenant       TEXT NOT NULL,
    since        INTEGER NOT NULL,
    before       INTEGER NOT NULL,
    max_parallel INTEGER NOT NULL,
    again        INTEGER NOT NULL,
    windows      INTEGER NOT NULL,
    "by"         TEXT NOT NULL,
    why          TEXT NOT NULL,
    created_at   INTEGER NOT NULL
) STRICT;
-- backfills
CREATE INDEX backfills_of ON backfills (schedule_id, id);

CREATE TABLE events (
    tenant      TEXT NOT NULL,
    source      TEXT NOT NULL,
    id          TEXT NOT NULL,
    type        TEXT NOT NULL,
    subject     TEXT NOT NULL,
    at          INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    document    TEXT NOT NULL,
    fires       INTEGER NOT NULL,
    PRIMARY KEY (tenant, source, id)
) STRICT;
-- list_events, prune
CREATE INDEX events_received ON events (received_at);

CREATE TABLE alerts (
    id          TEXT NOT NULL PRIMARY KEY,
    "key"       TEXT NOT NULL,
    kind        TEXT NOT NULL,
    severity    TEXT NOT NULL,
    tenant      TEXT NOT NULL,
    summary     TEXT NOT NULL,
    details     TEXT NOT NULL,
    opened_at   INTEGER NOT NULL,
    last_at     INTEGER NOT NULL,
    count       INTEGER NOT NULL,
    resolved_at INTEGER
) STRICT;
-- open_alert, resolve_alert: one open episode for a key
CREATE UNIQUE INDEX alerts_open ON alerts ("key") WHERE resolved_at IS NULL;
-- prune
CREATE INDEX alerts_resolved ON alerts (resolved_at) WHERE resolved_at IS NOT NULL;

CREATE TABLE breakers (
    shard     TEXT NOT NULL,
    kind      TEXT NOT NULL,
    subject   TEXT NOT NULL,
    because   TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    probed_at INTEGER,
    closed_at INTEGER,
    PRIMARY KEY (shard, kind, subject)
) STRICT, WITHOUT ROWID;

CREATE TABLE durations (
    shard       TEXT NOT NULL,
    tenant      TEXT NOT NULL,
    job         TEXT NOT NULL,
    task        TEXT NOT NULL,
    count       INTEGER NOT NULL,
    p50_seconds REAL NOT NULL,
    p90_seconds REAL NOT NULL,
    p99_seconds REAL NOT NULL,
    samples     TEXT NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, job, task, shard)
) STRICT;

ALTER TABLE runs ADD COLUMN schedule_id TEXT;
ALTER TABLE runs ADD COLUMN window_at INTEGER;
ALTER TABLE runs ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs_history ADD COLUMN schedule_id TEXT;
ALTER TABLE runs_history ADD COLUMN window_at INTEGER;
ALTER TABLE runs_history ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN birth TEXT;
ALTER TABLE tasks ADD COLUMN trail TEXT;
ALTER TABLE tasks_history ADD COLUMN birth TEXT;
ALTER TABLE tasks_history ADD COLUMN trail TEXT;

-- list_dead
CREATE INDEX tasks_dead ON tasks (ended_at, id) WHERE state IN ('FAILED', 'TIMED_OUT');
CREATE INDEX tasks_history_dead ON tasks_history (ended_at, id) WHERE state IN ('FAILED', 'TIMED_OUT');
