-- 0002: tokens, servers, settings, checkpoints, workers that are held back, and lists for people.
-- Old servers: go on working. They name the columns that they write, so a worker that they write is as held back as it
--     was; they leave the checkpoint of a run that they move to history, which nobody reads again.
-- Locks: nobody writes `runs`, `attempts` and `transitions` while their indexes are made, and nobody uses `workers`
--     meanwhile. Who waits for longer than a second is told that the store is not available, and comes back.
--
-- What the indexes cost the server, of 125 µs in the life of a run with one task: 9 µs for the one on `runs`, which is
-- written three times (3 µs each), and 5 µs for those on `transitions` and `attempts`. Lists of runs by `created_at`
-- instead of by id would need another one on `runs`.

CREATE TABLE tokens (
    id           text COLLATE "C" NOT NULL PRIMARY KEY,
    hash         text NOT NULL,
    tenant       text NOT NULL,
    roles        text NOT NULL,
    name         text NOT NULL,
    created_by   text NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    revoked_at   timestamptz,
    last_used_at timestamptz
);

CREATE TABLE servers (
    name       text COLLATE "C" NOT NULL PRIMARY KEY,
    address    text NOT NULL,
    version    text NOT NULL,
    started_at timestamptz NOT NULL,
    heard_at   timestamptz NOT NULL
);

CREATE TABLE settings (
    name  text COLLATE "C" NOT NULL PRIMARY KEY,
    value text NOT NULL
);

-- The latest of each task; gone when its run moves to history.
CREATE TABLE checkpoints (
    task_id    text COLLATE "C" NOT NULL PRIMARY KEY,
    run_id     text COLLATE "C" NOT NULL,
    attempt_id text NOT NULL,
    document   text NOT NULL,
    saved_at   timestamptz NOT NULL
);
-- load, load_run, archiving
CREATE INDEX checkpoints_of_run ON checkpoints (run_id);

ALTER TABLE workers ADD COLUMN hold text NOT NULL DEFAULT '', ADD COLUMN hold_why text NOT NULL DEFAULT '';

-- list_runs of a tenant; those of all tenants are a walk along the primary key. It is on one text, so that no plan can
-- mistake it for the primary key, or for the index of intake.
CREATE INDEX runs_of_tenant ON runs ((tenant || '/' || id));
-- attempts_of
CREATE INDEX attempts_of_task ON attempts (task_id COLLATE "C");
-- transitions_of
CREATE INDEX transitions_of_task ON transitions (task_id COLLATE "C");
