-- 0002: tokens, servers, settings, checkpoints, workers that are held back, and lists for people.
-- Old servers: none, because one process at a time has the file.
-- Locks: the file, which nobody else has.

CREATE TABLE tokens (
    id           TEXT NOT NULL PRIMARY KEY,
    hash         TEXT NOT NULL,
    tenant       TEXT NOT NULL,
    roles        TEXT NOT NULL,
    name         TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT;

CREATE TABLE servers (
    name       TEXT NOT NULL PRIMARY KEY,
    address    TEXT NOT NULL,
    version    TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    heard_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- The latest of each task; gone when its run moves to history.
CREATE TABLE checkpoints (
    task_id    TEXT NOT NULL PRIMARY KEY,
    run_id     TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    document   TEXT NOT NULL,
    saved_at   INTEGER NOT NULL
) STRICT;
-- load, load_run, archiving
CREATE INDEX checkpoints_of_run ON checkpoints (run_id);

ALTER TABLE workers ADD COLUMN hold TEXT NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN hold_why TEXT NOT NULL DEFAULT '';

-- list_runs of a tenant; those of all tenants are a walk along the primary key. It is on one text, so that no plan can
-- mistake it for the primary key, or for the index of intake.
CREATE INDEX runs_of_tenant ON runs ((tenant || '/' || id));
-- attempts_of
CREATE INDEX attempts_of_task ON attempts (task_id);
-- transitions_of
CREATE INDEX transitions_of_task ON transitions (task_id);
