-- 0001: shards and their terms, jobs, runs, tasks and what is remembered of them.
-- Old servers: there are none.
-- Locks: nothing that anybody uses.
--
-- The columns of a table are the fields of its struct, in the same order; what the store adds comes after them (or
-- before, where it is the key). Instants are microseconds since 1970 UTC. An index says which query it is for.

CREATE TABLE shards (
    id          TEXT NOT NULL PRIMARY KEY,
    leader      TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    batch_no    INTEGER NOT NULL,
    nonce       INTEGER NOT NULL,
    ttl         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Appended to and never changed: who led, since when.
CREATE TABLE terms (
    shard      TEXT NOT NULL,
    epoch      INTEGER NOT NULL,
    nonce      INTEGER NOT NULL,
    batch_no   INTEGER NOT NULL,
    granted_at INTEGER NOT NULL,
    holder     TEXT NOT NULL,
    PRIMARY KEY (shard, epoch),
    UNIQUE (shard, nonce)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    id         TEXT NOT NULL PRIMARY KEY,
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    definition TEXT NOT NULL,
    UNIQUE (tenant, name, version)
) STRICT;

CREATE TABLE runs (
    id           TEXT NOT NULL PRIMARY KEY,
    shard        TEXT NOT NULL,
    tenant       TEXT NOT NULL,
    job_id       TEXT NOT NULL,
    priority     INTEGER NOT NULL,
    params       TEXT NOT NULL,
    task_count   INTEGER NOT NULL,
    submitted_by TEXT NOT NULL,
    linked_run   TEXT,
    watched      INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    start_at     INTEGER NOT NULL,
    state        TEXT NOT NULL,
    generation   INTEGER NOT NULL,
    adopted_at   INTEGER,
    ended_at     INTEGER,
    paused       INTEGER NOT NULL,
    held         TEXT,
    cancelled_by TEXT,
    failed_task  TEXT,
    timed_out    INTEGER NOT NULL,
    because      TEXT NOT NULL
) STRICT;
-- waiting, intake
CREATE INDEX runs_intake ON runs (shard, priority, tenant, start_at, id) WHERE adopted_at IS NULL AND held IS NULL;
-- next_start: only runs that were delayed when they were made, so that it costs the others nothing, and can't be
-- mistaken for the index of intake
CREATE INDEX runs_delayed ON runs (shard, start_at) WHERE adopted_at IS NULL AND held IS NULL AND start_at > created_at;
-- load
CREATE INDEX runs_active ON runs (shard)
    WHERE adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT');
-- ended_runs
CREATE INDEX runs_ended ON runs (shard, ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE tasks (
    id          TEXT NOT NULL PRIMARY KEY,
    run_id      TEXT NOT NULL,
    shard       TEXT NOT NULL,
    tenant      TEXT NOT NULL,
    name        TEXT NOT NULL,
    position    INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    state       TEXT NOT NULL,
    generation  INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    tries       INTEGER NOT NULL,
    losses      INTEGER NOT NULL,
    attempt_id  TEXT,
    lease_id    TEXT,
    worker_id   TEXT,
    cause       TEXT,
    because     TEXT NOT NULL,
    since       INTEGER NOT NULL,
    due_at      INTEGER,
    assigned_at INTEGER,
    started_at  INTEGER,
    ended_at    INTEGER,
    stop        TEXT,
    output      TEXT,
    error       TEXT,
    -- load, load_run, tasks, archiving: the tasks of a run are a range of the primary key
    CHECK (substr(id, 1, length(run_id) + 2) = 'task_' || substr(run_id, 5) || '.')
) STRICT;
-- find_attempts
CREATE INDEX tasks_attempt ON tasks (attempt_id) WHERE attempt_id IS NOT NULL;

CREATE TABLE attempts (
    id          TEXT NOT NULL PRIMARY KEY,
    task_id     TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    shard       TEXT NOT NULL,
    tenant      TEXT NOT NULL,
    generation  INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    worker_id   TEXT NOT NULL,
    lease_id    TEXT NOT NULL,
    assigned_at INTEGER NOT NULL,
    started_at  INTEGER,
    ended_at    INTEGER NOT NULL,
    "end"       TEXT NOT NULL,
    error       TEXT
) STRICT;
-- prune
CREATE INDEX attempts_by_day ON attempts (ended_at);

-- Results that came for attempts already over: kept beside them, never applied.
CREATE TABLE late_results (
    attempt_id TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    output     TEXT,
    error      TEXT,
    at         INTEGER NOT NULL
) STRICT;
-- prune
CREATE INDEX late_results_by_day ON late_results (at);

CREATE TABLE transitions (
    shard      TEXT NOT NULL,
    batch_no   INTEGER NOT NULL,
    ordinal    INTEGER NOT NULL,
    task_id    TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    tenant     TEXT NOT NULL,
    generation INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    start      TEXT,
    "end"      TEXT NOT NULL,
    at         INTEGER NOT NULL,
    "by"       TEXT NOT NULL,
    because    TEXT NOT NULL,
    PRIMARY KEY (shard, batch_no, ordinal)
) STRICT, WITHOUT ROWID;
-- prune
CREATE INDEX transitions_by_day ON transitions (at);

CREATE TABLE runs_history (
    id           TEXT NOT NULL PRIMARY KEY,
    shard        TEXT NOT NULL,
    tenant       TEXT NOT NULL,
    job_id       TEXT NOT NULL,
    priority     INTEGER NOT NULL,
    params       TEXT NOT NULL,
    task_count   INTEGER NOT NULL,
    submitted_by TEXT NOT NULL,
    linked_run   TEXT,
    watched      INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    start_at     INTEGER NOT NULL,
    state        TEXT NOT NULL,
    generation   INTEGER NOT NULL,
    adopted_at   INTEGER,
    ended_at     INTEGER NOT NULL,
    paused       INTEGER NOT NULL,
    held         TEXT,
    cancelled_by TEXT,
    failed_task  TEXT,
    timed_out    INTEGER NOT NULL,
    because      TEXT NOT NULL
) STRICT;
-- prune
CREATE INDEX runs_history_by_day ON runs_history (ended_at);

CREATE TABLE tasks_history (
    id           TEXT NOT NULL PRIMARY KEY,
    run_id       TEXT NOT NULL,
    shard        TEXT NOT NULL,
    tenant       TEXT NOT NULL,
    name         TEXT NOT NULL,
    position     INTEGER NOT NULL,
    priority     INTEGER NOT NULL,
    state        TEXT NOT NULL,
    generation   INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    tries        INTEGER NOT NULL,
    losses       INTEGER NOT NULL,
    attempt_id   TEXT,
    lease_id     TEXT,
    worker_id    TEXT,
    cause        TEXT,
    because      TEXT NOT NULL,
    since        INTEGER NOT NULL,
    due_at       INTEGER,
    assigned_at  INTEGER,
    started_at   INTEGER,
    ended_at     INTEGER,
    stop         TEXT,
    output       TEXT,
    error        TEXT,
    run_ended_at INTEGER NOT NULL
) STRICT;
-- tasks
CREATE INDEX tasks_history_of_run ON tasks_history (run_id, position);
-- prune
CREATE INDEX tasks_history_by_day ON tasks_history (run_ended_at);

CREATE TABLE spreads (
    run_id     TEXT NOT NULL,
    parent     TEXT NOT NULL,
    generation INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    shard      TEXT NOT NULL,
    total      INTEGER NOT NULL,
    done       INTEGER NOT NULL,
    "by"       TEXT NOT NULL,
    why        TEXT NOT NULL,
    PRIMARY KEY (run_id, parent, generation, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE,
    "key"        TEXT NOT NULL,
    kind         TEXT NOT NULL,
    payload      TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    holder       TEXT,
    held_until   INTEGER,
    delivered_at INTEGER,
    tries        INTEGER NOT NULL DEFAULT 0,
    fault        TEXT
) STRICT;
-- take_outgoing: what is due
CREATE INDEX outbox_due ON outbox (due_at, seq) WHERE delivered_at IS NULL;
-- take_outgoing: the oldest of each key
CREATE INDEX outbox_key ON outbox ("key", seq) WHERE delivered_at IS NULL;
-- prune
CREATE INDEX outbox_delivered ON outbox (delivered_at) WHERE delivered_at IS NOT NULL;

CREATE TABLE idempotency (
    tenant    TEXT NOT NULL,
    "key"     TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    run_ids   TEXT NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (tenant, "key")
) STRICT, WITHOUT ROWID;
-- prune
CREATE INDEX idempotency_by_day ON idempotency (at);

CREATE TABLE rejected_events (
    id      TEXT NOT NULL PRIMARY KEY,
    shard   TEXT NOT NULL,
    kind    TEXT NOT NULL,
    subject TEXT NOT NULL,
    event   TEXT NOT NULL,
    fault   TEXT NOT NULL,
    at      INTEGER NOT NULL
) STRICT;
-- prune
CREATE INDEX rejected_events_by_day ON rejected_events (at);

CREATE TABLE workers (
    id            TEXT NOT NULL PRIMARY KEY,
    shard         TEXT NOT NULL,
    offer         TEXT NOT NULL,
    labels        TEXT NOT NULL,
    zone          TEXT NOT NULL,
    version       TEXT NOT NULL,
    status        TEXT NOT NULL,
    since         INTEGER NOT NULL,
    last_heard_at INTEGER NOT NULL
) STRICT;
