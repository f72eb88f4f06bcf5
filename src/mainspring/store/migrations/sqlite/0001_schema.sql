-- 0001: the schema; tidy: one concept because it is the whole schema.
-- Old servers: none, because one process at a time has the file.
-- Locks: the file, which no other process has.
--
-- The columns of a table are the fields of its struct, in the same order, then the columns that only the store uses.
-- Instants are microseconds since 1970 UTC. The comment of an index names the queries that use it.


-- Leadership and servers.

CREATE TABLE shards (
    id          TEXT NOT NULL PRIMARY KEY,
    leader      TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    batch_no    INTEGER NOT NULL,
    nonce       INTEGER NOT NULL,
    ttl         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per leadership. Rows are appended and never changed.
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

CREATE TABLE servers (
    name       TEXT NOT NULL PRIMARY KEY,
    address    TEXT NOT NULL,
    version    TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    last_heartbeat_at   INTEGER NOT NULL
) STRICT;


-- Jobs, runs, tasks and attempts.

-- Versions of jobs. Deleting a name deletes all its versions.
CREATE TABLE jobs (
    id         TEXT NOT NULL PRIMARY KEY,
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    definition TEXT NOT NULL,
    created_at INTEGER,
    created_by TEXT NOT NULL DEFAULT '',
    deleted_at INTEGER,
    labels     TEXT NOT NULL DEFAULT '{}',
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
    because      TEXT NOT NULL,
    schedule_id  TEXT,
    window_at    INTEGER,
    retries      INTEGER NOT NULL DEFAULT 0,
    started_at   INTEGER,
    finish_by    INTEGER,
    at_risk_at   INTEGER,
    stuck_at     INTEGER
) STRICT;
-- waiting, intake
CREATE INDEX runs_intake ON runs (shard, priority, tenant, start_at, id) WHERE adopted_at IS NULL AND held IS NULL;
-- next_start: only runs with a delayed start, so that it costs other runs nothing and the planner cannot confuse it with
-- runs_intake
CREATE INDEX runs_delayed ON runs (shard, start_at) WHERE adopted_at IS NULL AND held IS NULL AND start_at > created_at;
-- load
CREATE INDEX runs_active ON runs (shard)
    WHERE adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT');
-- ended_runs
CREATE INDEX runs_ended ON runs (shard, ended_at) WHERE ended_at IS NOT NULL;
-- list_runs of a tenant (list_runs of all tenants walks the primary key). An expression, so that the planner cannot
-- confuse it with the primary key or runs_intake
CREATE INDEX runs_of_tenant ON runs ((tenant || '/' || id));
-- list_runs of jobs
CREATE INDEX runs_of_job ON runs (job_id, id);
-- list_runs of a schedule
CREATE INDEX runs_of_schedule ON runs (schedule_id, id) WHERE schedule_id IS NOT NULL;
-- list_runs of unsuccessful runs, of all tenants and of one
CREATE INDEX runs_unsuccessful ON runs (state, id)
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
CREATE INDEX runs_unsuccessful_of_tenant ON runs (tenant, state, id)
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');

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
    origin       TEXT,
    trail       TEXT,
    ran_on      TEXT,
    reserved    TEXT,
    -- load, load_run, tasks, archiving: the tasks of a run are a range of the primary key
    CHECK (substr(id, 1, length(run_id) + 2) = 'task_' || substr(run_id, 5) || '.')
) STRICT;
-- find_attempts
CREATE INDEX tasks_attempt ON tasks (attempt_id) WHERE attempt_id IS NOT NULL;
-- list_dead_letters
CREATE INDEX tasks_dead ON tasks (ended_at, id) WHERE state IN ('FAILED', 'TIMED_OUT');

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
-- attempts_of
CREATE INDEX attempts_of_task ON attempts (task_id);

-- Results that arrived after their attempt had ended. Recorded, never applied.
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
-- transitions_of
CREATE INDEX transitions_of_task ON transitions (task_id);

-- The latest checkpoint of each task; deleted when its run moves to history.
CREATE TABLE checkpoints (
    task_id    TEXT NOT NULL PRIMARY KEY,
    run_id     TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    document   TEXT NOT NULL,
    saved_at   INTEGER NOT NULL
) STRICT;
-- load, load_run, archiving
CREATE INDEX checkpoints_of_run ON checkpoints (run_id);

-- list_artifacts: the artifacts of a run or task are a range of the primary key
CREATE TABLE artifacts (
    run_id       TEXT NOT NULL,
    task_id      TEXT NOT NULL,
    attempt_id   TEXT NOT NULL,
    path         TEXT NOT NULL,
    task         TEXT NOT NULL,
    partition    INTEGER,
    tenant       TEXT NOT NULL,
    size_bytes   INTEGER NOT NULL,
    sha256       TEXT NOT NULL,
    location        TEXT NOT NULL,
    keep_seconds INTEGER NOT NULL,
    succeeded    INTEGER NOT NULL,
    stored_at    INTEGER NOT NULL,
    PRIMARY KEY (run_id, task_id, attempt_id, path)
) STRICT, WITHOUT ROWID;
-- prune
CREATE INDEX artifacts_by_time ON artifacts (stored_at);

-- Bulk operations on the tasks of a run that take more than one batch.
CREATE TABLE bulk_operations (
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


-- History: runs that ended some time ago, with their tasks.

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
    because      TEXT NOT NULL,
    schedule_id  TEXT,
    window_at    INTEGER,
    retries      INTEGER NOT NULL DEFAULT 0,
    started_at   INTEGER,
    finish_by    INTEGER,
    at_risk_at   INTEGER,
    stuck_at     INTEGER
) STRICT;
-- prune
CREATE INDEX runs_history_by_day ON runs_history (ended_at);
-- list_runs in history
CREATE INDEX runs_history_of_tenant ON runs_history ((tenant || '/' || id));
CREATE INDEX runs_history_of_schedule ON runs_history (schedule_id, id) WHERE schedule_id IS NOT NULL;
CREATE INDEX runs_history_unsuccessful ON runs_history (state, id)
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
CREATE INDEX runs_history_unsuccessful_of_tenant ON runs_history (tenant, state, id)
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
-- list_runs of jobs in history, job_days
CREATE INDEX runs_history_of_job ON runs_history (job_id, id, state, start_at, window_at, started_at, ended_at, retries);

-- Partitioned by the end of the run, so that a run and its tasks are dropped together.
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
    origin        TEXT,
    trail        TEXT,
    ran_on       TEXT,
    reserved     TEXT,
    run_ended_at INTEGER NOT NULL
) STRICT;
-- tasks
CREATE INDEX tasks_history_of_run ON tasks_history (run_id, position);
-- prune
CREATE INDEX tasks_history_by_day ON tasks_history (run_ended_at);
CREATE INDEX tasks_history_dead ON tasks_history (ended_at, id) WHERE state IN ('FAILED', 'TIMED_OUT');


-- Workers.

CREATE TABLE workers (
    id            TEXT NOT NULL PRIMARY KEY,
    shard         TEXT NOT NULL,
    offer         TEXT NOT NULL,
    labels        TEXT NOT NULL,
    zone          TEXT NOT NULL,
    version       TEXT NOT NULL,
    status        TEXT NOT NULL,
    since         INTEGER NOT NULL,
    last_heartbeat_at INTEGER NOT NULL,
    hold          TEXT NOT NULL DEFAULT '',
    hold_why      TEXT NOT NULL DEFAULT ''
) STRICT;

-- Tokens with which a machine registers as a worker (SEC-3).
CREATE TABLE join_tokens (
    id         TEXT NOT NULL PRIMARY KEY,
    hash       TEXT NOT NULL,
    name       TEXT NOT NULL,
    pools      TEXT NOT NULL,
    uses_left  INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

-- Registered workers (SEC-3).
CREATE TABLE worker_identities (
    name        TEXT NOT NULL PRIMARY KEY,
    key         TEXT NOT NULL,
    pools       TEXT NOT NULL,
    serial      TEXT NOT NULL,
    join_token  TEXT NOT NULL,
    enrolled_at INTEGER NOT NULL,
    renewed_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    revoked_at  INTEGER
) STRICT;


-- Schedules.

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
    planned_through      INTEGER NOT NULL,
    next_at         INTEGER,
    has_waiting_windows     INTEGER NOT NULL,
    evaluated_at       INTEGER,
    latest_event_at INTEGER,
    created_at      INTEGER NOT NULL,
    created_by      TEXT NOT NULL,
    updated_at      INTEGER NOT NULL,
    updated_by      TEXT NOT NULL,
    deleted_at      INTEGER
) STRICT;
-- insert_schedule, find_schedule: names are unique
CREATE UNIQUE INDEX schedules_name ON schedules (tenant, name) WHERE deleted_at IS NULL;
-- evaluate_due, next_due, next_schedules
CREATE INDEX schedules_due ON schedules (next_at, id) WHERE next_at IS NOT NULL AND deleted_at IS NULL;
-- evaluate_waiting
CREATE INDEX schedules_waiting ON schedules (coalesce(evaluated_at, 0)) WHERE has_waiting_windows AND deleted_at IS NULL;
-- receive_events
CREATE INDEX schedules_event ON schedules (tenant, event_type) WHERE event_type <> '' AND deleted_at IS NULL;
-- schedules_after
CREATE INDEX schedules_after ON schedules (id) WHERE after_job <> '' AND has_waiting_windows AND deleted_at IS NULL;
-- evaluation: the other schedule of a job
CREATE INDEX schedules_job ON schedules (tenant, job) WHERE deleted_at IS NULL;

CREATE TABLE schedule_changes (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    schedule_id TEXT NOT NULL,
    at          INTEGER NOT NULL,
    action         TEXT NOT NULL,
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
-- evaluation: open fires of a schedule
CREATE INDEX fires_open ON fires (schedule_id, window_at, generation)
    WHERE outcome = 'waiting' OR (outcome = 'ran' AND run_ended_at IS NULL);
-- fires_of_runs
CREATE INDEX fires_run ON fires (run_id) WHERE run_id IS NOT NULL;
-- evaluation: latest ends of a schedule
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


-- Sharing rules: who may use what.

-- One row. Every change of a rule adds 1, so that servers detect changes by reading one number.
CREATE TABLE rules_version (
    id      INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL
) STRICT;
INSERT INTO rules_version (id, version) VALUES (1, 0);

CREATE TABLE pools (
    name          TEXT NOT NULL PRIMARY KEY,
    labels        TEXT NOT NULL,
    zones         TEXT NOT NULL,
    max_resources TEXT,
    note          TEXT NOT NULL,
    version       INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    updated_by    TEXT NOT NULL
) STRICT;

CREATE TABLE policies (
    name       TEXT NOT NULL PRIMARY KEY,
    label      TEXT NOT NULL,
    value      TEXT NOT NULL,
    requires   TEXT NOT NULL,
    note       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL
) STRICT;

CREATE TABLE quotas (
    tenant     TEXT NOT NULL,
    pool       TEXT NOT NULL,
    quota      TEXT NOT NULL,
    raised     TEXT,
    version    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    bookings   TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (tenant, pool)
) STRICT;

CREATE TABLE p0_grants (
    tenant  TEXT NOT NULL PRIMARY KEY,
    "by"    TEXT NOT NULL,
    why     TEXT NOT NULL,
    since   INTEGER NOT NULL,
    "until" INTEGER
) STRICT;

CREATE TABLE limit_groups (
    tenant      TEXT NOT NULL,
    name        TEXT NOT NULL,
    most        INTEGER NOT NULL,
    per_seconds REAL,
    note        TEXT NOT NULL,
    version     INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    updated_by  TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT;

CREATE TABLE freezes (
    kind    TEXT NOT NULL,
    subject TEXT NOT NULL,
    "by"    TEXT NOT NULL,
    why     TEXT NOT NULL,
    since   INTEGER NOT NULL,
    "until" INTEGER,
    PRIMARY KEY (kind, subject)
) STRICT;


-- Limits of the whole cluster, and counters.

-- Limits that are divided among pools: what each pool may use, and what it needs.
CREATE TABLE limit_shares (
    "limit" TEXT NOT NULL,
    holder  TEXT NOT NULL,
    granted INTEGER NOT NULL CHECK (granted >= 0),
    needed  INTEGER NOT NULL,
    PRIMARY KEY ("limit", holder)
) STRICT;
-- load
CREATE INDEX shares_of_holder ON limit_shares (holder);

-- What was taken from each rate group.
CREATE TABLE rate_usage (
    "limit"      TEXT NOT NULL PRIMARY KEY,
    takes        TEXT NOT NULL,
    counts_until INTEGER NOT NULL
) STRICT;

-- Failures per tenant in buckets of five minutes, for the failure budget of an hour. Old buckets are at one end of the key.
CREATE TABLE failure_counts (
    shard    TEXT NOT NULL,
    tenant   TEXT NOT NULL,
    since    INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    PRIMARY KEY (shard, since, tenant)
) STRICT;

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


-- Scheduling decisions.

-- A sample of the placements, every preemption, and task shapes that could not be placed.
CREATE TABLE decisions (
    id           TEXT NOT NULL PRIMARY KEY,
    at           INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    shard        TEXT NOT NULL,
    tenant       TEXT NOT NULL,
    task_id      TEXT NOT NULL,
    run_id       TEXT NOT NULL,
    name         TEXT NOT NULL,
    attempt      INTEGER NOT NULL,
    priority     INTEGER NOT NULL,
    request      TEXT NOT NULL,
    worker_id    TEXT,
    free         TEXT,
    score        REAL,
    workers_examined INTEGER,
    victims      TEXT NOT NULL,
    victim_count INTEGER NOT NULL,
    why          TEXT NOT NULL,
    version      TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- list_decisions, prune
CREATE INDEX decisions_by_time ON decisions (at, id);
-- list_decisions of a task, a run, a worker, a tenant
CREATE INDEX decisions_of_task ON decisions (task_id, at, id);
CREATE INDEX decisions_of_run ON decisions (run_id, at, id);
CREATE INDEX decisions_of_worker ON decisions (worker_id, at, id);
CREATE INDEX decisions_of_tenant ON decisions (tenant, at, id);


-- Messages to the outside.

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
-- claim_outbox: due rows
CREATE INDEX outbox_due ON outbox (due_at, seq) WHERE delivered_at IS NULL;
-- claim_outbox: the oldest row of each key
CREATE INDEX outbox_key ON outbox ("key", seq) WHERE delivered_at IS NULL;
-- prune
CREATE INDEX outbox_delivered ON outbox (delivered_at) WHERE delivered_at IS NOT NULL;

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
-- open_alert, resolve_alert: one open episode per key
CREATE UNIQUE INDEX alerts_open ON alerts ("key") WHERE resolved_at IS NULL;
-- prune
CREATE INDEX alerts_resolved ON alerts (resolved_at) WHERE resolved_at IS NOT NULL;

CREATE TABLE webhooks (
    id         TEXT NOT NULL PRIMARY KEY,
    tenant     TEXT NOT NULL,
    url        TEXT NOT NULL,
    events     TEXT NOT NULL,
    job        TEXT NOT NULL,
    enabled    INTEGER NOT NULL,
    note       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL
) STRICT;
-- list_webhooks
CREATE INDEX webhooks_of_tenant ON webhooks (tenant, id);

CREATE TABLE webhook_deliveries (
    id         TEXT NOT NULL PRIMARY KEY,
    webhook_id TEXT NOT NULL,
    tenant     TEXT NOT NULL,
    type       TEXT NOT NULL,
    subject    TEXT NOT NULL,
    body       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    state      TEXT NOT NULL,
    tries      INTEGER NOT NULL,
    status     INTEGER,
    fault      TEXT NOT NULL,
    last_at    INTEGER
) STRICT;
-- list_deliveries
CREATE INDEX webhook_deliveries_of ON webhook_deliveries (webhook_id, id);
-- prune
CREATE INDEX webhook_deliveries_by_day ON webhook_deliveries (created_at);


-- Administration.

CREATE TABLE tenants (
    name       TEXT NOT NULL PRIMARY KEY,
    title      TEXT NOT NULL,
    contact    TEXT NOT NULL,
    note       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL
) STRICT;

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
-- list_tenants
CREATE INDEX tokens_of_tenant ON tokens (tenant);

-- Settings that were changed at run time.
CREATE TABLE setting_overrides (
    name       TEXT NOT NULL PRIMARY KEY,
    value      TEXT NOT NULL,
    version    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    why        TEXT NOT NULL
) STRICT;

-- Values that all servers of a cluster share, such as its secret.
CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

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

-- New entries of the audit log. A sealer moves them to `audit` within about a second. Writers and the check for duplicates
-- use this small table only; `audit` is append-only.
CREATE TABLE audit_unsealed (
    id     TEXT NOT NULL PRIMARY KEY,
    at     INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    actor  TEXT NOT NULL,
    source TEXT NOT NULL,
    action    TEXT NOT NULL,
    object TEXT NOT NULL,
    why    TEXT NOT NULL,
    before TEXT,
    after  TEXT
) STRICT;
-- seal_audit, list_audit
CREATE INDEX audit_unsealed_by_time ON audit_unsealed (at, id);

CREATE TABLE audit (
    id     TEXT NOT NULL,
    at     INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    actor  TEXT NOT NULL,
    source TEXT NOT NULL,
    action    TEXT NOT NULL,
    object TEXT NOT NULL,
    why    TEXT NOT NULL,
    before TEXT,
    after  TEXT,
    seq    INTEGER NOT NULL CHECK (seq > 0),
    hash   TEXT NOT NULL,
    -- seal_audit: has it been sealed before?
    PRIMARY KEY (id, at)
) STRICT;
-- list_audit, prune
CREATE INDEX audit_by_time ON audit (at, id);
-- list_audit of a tenant
CREATE INDEX audit_of_tenant ON audit (tenant, at, id);
-- list_audit of one object
CREATE INDEX audit_of_object ON audit (object, at, id);
-- audit_chain
CREATE INDEX audit_chain ON audit (tenant, seq, id);

CREATE TABLE audit_heads (
    tenant TEXT NOT NULL PRIMARY KEY,
    seq    INTEGER NOT NULL,
    hash   TEXT NOT NULL
) STRICT;
