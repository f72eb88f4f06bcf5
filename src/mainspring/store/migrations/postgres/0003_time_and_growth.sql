-- 0003: schedules, their fires, events, backfills, alerts, breakers, usual durations; tasks that grow; dead letters.
-- Old servers: go on working. They name the columns that they write, and the new ones have defaults. They don't fire
--     schedules, and can't load a run that a newer server has grown: a mixed fleet is for the length of an upgrade.
--     Those of schema 0001 don't: they move tasks to history without naming columns.
-- Locks: nobody uses `runs` and `tasks` while columns are added, which takes no longer than their catalogue rows, and
--     nobody writes `tasks` while the index of dead letters is made. Who waits for longer than a second is told that the
--     store is not available, and comes back.

CREATE TABLE schedules (
    id              text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant          text COLLATE "C" NOT NULL,
    name            text COLLATE "C" NOT NULL,
    job             text COLLATE "C" NOT NULL,
    version         bigint NOT NULL,
    spec            text NOT NULL,
    event_type      text COLLATE "C" NOT NULL,
    after_job       text COLLATE "C" NOT NULL,
    pool            text NOT NULL,
    enabled         boolean NOT NULL,
    paused          boolean NOT NULL,
    because         text NOT NULL,
    enabled_since   timestamptz NOT NULL,
    through_at      timestamptz NOT NULL,
    next_at         timestamptz,
    has_waiting     boolean NOT NULL,
    looked_at       timestamptz,
    latest_event_at timestamptz,
    created_at      timestamptz NOT NULL,
    created_by      text NOT NULL,
    updated_at      timestamptz NOT NULL,
    updated_by      text NOT NULL,
    deleted_at      timestamptz
);
-- insert_schedule, find_schedule: a name is used once
CREATE UNIQUE INDEX schedules_name ON schedules (tenant, name) WHERE deleted_at IS NULL;
-- settle_due, next_due, next_schedules
CREATE INDEX schedules_due ON schedules (next_at, id) WHERE next_at IS NOT NULL AND deleted_at IS NULL;
-- settle_waiting
CREATE INDEX schedules_waiting ON schedules (coalesce(looked_at, 'epoch'::timestamptz)) WHERE has_waiting AND deleted_at IS NULL;
-- receive_events
CREATE INDEX schedules_event ON schedules (tenant, event_type) WHERE event_type <> '' AND deleted_at IS NULL;
-- schedules_after
CREATE INDEX schedules_after ON schedules (id) WHERE after_job <> '' AND has_waiting AND deleted_at IS NULL;
-- the other schedule of a case
CREATE INDEX schedules_job ON schedules (tenant, job) WHERE deleted_at IS NULL;

CREATE TABLE schedule_changes (
    seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id text COLLATE "C" NOT NULL,
    at          timestamptz NOT NULL,
    act         text NOT NULL,
    "by"        text NOT NULL,
    why         text NOT NULL,
    version     bigint NOT NULL,
    before      text,
    after       text
);
-- schedule_changes
CREATE INDEX schedule_changes_of ON schedule_changes (schedule_id, seq);
-- prune
CREATE INDEX schedule_changes_by_day ON schedule_changes (at);

CREATE TABLE fires (
    schedule_id    text COLLATE "C" NOT NULL,
    window_at      timestamptz NOT NULL,
    generation     bigint NOT NULL,
    last_window_at timestamptz NOT NULL,
    count          bigint NOT NULL,
    outcome        text NOT NULL,
    because        text NOT NULL,
    is_catch_up    boolean NOT NULL,
    flagged        boolean NOT NULL,
    start_at       timestamptz,
    run_id         text COLLATE "C",
    run_state      text,
    run_ended_at   timestamptz,
    stopping       boolean NOT NULL,
    asked_at       timestamptz,
    repeats        text,
    backfill_id    text,
    event          text,
    params         text,
    "by"           text NOT NULL,
    decided_at     timestamptz NOT NULL,
    PRIMARY KEY (schedule_id, window_at, generation)
);
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
    id           text COLLATE "C" NOT NULL PRIMARY KEY,
    schedule_id  text COLLATE "C" NOT NULL,
    tenant       text NOT NULL,
    since        timestamptz NOT NULL,
    before       timestamptz NOT NULL,
    max_parallel bigint NOT NULL,
    again        boolean NOT NULL,
    windows      bigint NOT NULL,
    "by"         text NOT NULL,
    why          text NOT NULL,
    created_at   timestamptz NOT NULL
);
-- backfills
CREATE INDEX backfills_of ON backfills (schedule_id, id);

CREATE TABLE events (
    tenant      text COLLATE "C" NOT NULL,
    source      text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    type        text COLLATE "C" NOT NULL,
    subject     text NOT NULL,
    at          timestamptz NOT NULL,
    received_at timestamptz NOT NULL,
    document    text NOT NULL,
    fires       bigint NOT NULL,
    PRIMARY KEY (tenant, source, id)
);
-- list_events, prune
CREATE INDEX events_received ON events (received_at);

CREATE TABLE alerts (
    id          text COLLATE "C" NOT NULL PRIMARY KEY,
    "key"       text COLLATE "C" NOT NULL,
    kind        text NOT NULL,
    severity    text NOT NULL,
    tenant      text NOT NULL,
    summary     text NOT NULL,
    details     text NOT NULL,
    opened_at   timestamptz NOT NULL,
    last_at     timestamptz NOT NULL,
    count       bigint NOT NULL,
    resolved_at timestamptz
);
-- open_alert, resolve_alert: one open episode for a key
CREATE UNIQUE INDEX alerts_open ON alerts ("key") WHERE resolved_at IS NULL;
-- prune
CREATE INDEX alerts_resolved ON alerts (resolved_at) WHERE resolved_at IS NOT NULL;

CREATE TABLE breakers (
    shard     text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    subject   text COLLATE "C" NOT NULL,
    because   text NOT NULL,
    opened_at timestamptz NOT NULL,
    probed_at timestamptz,
    closed_at timestamptz,
    PRIMARY KEY (shard, kind, subject)
);

CREATE TABLE durations (
    shard       text COLLATE "C" NOT NULL,
    tenant      text COLLATE "C" NOT NULL,
    job         text COLLATE "C" NOT NULL,
    task        text COLLATE "C" NOT NULL,
    count       bigint NOT NULL,
    p50_seconds double precision NOT NULL,
    p90_seconds double precision NOT NULL,
    p99_seconds double precision NOT NULL,
    samples     text NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, job, task, shard)
);

ALTER TABLE runs ADD COLUMN schedule_id text, ADD COLUMN window_at timestamptz,
    ADD COLUMN retries bigint NOT NULL DEFAULT 0;
ALTER TABLE runs_history ADD COLUMN schedule_id text, ADD COLUMN window_at timestamptz,
    ADD COLUMN retries bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN birth text, ADD COLUMN trail text;
ALTER TABLE tasks_history ADD COLUMN birth text, ADD COLUMN trail text;

-- list_dead
CREATE INDEX tasks_dead ON tasks (ended_at, id) WHERE state IN ('FAILED', 'TIMED_OUT');
CREATE INDEX tasks_history_dead ON tasks_history (ended_at, id) WHERE state IN ('FAILED', 'TIMED_OUT');
