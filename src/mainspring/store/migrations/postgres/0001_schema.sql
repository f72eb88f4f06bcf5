-- 0001: the schema; tidy: one concept because it is the whole schema.
-- Old servers: there are none.
-- Locks: nothing that is in use.
--
-- The columns of a table are the fields of its struct, in the same order, then the columns that only the store uses. The
-- comment of an index names the queries that use it. Text that is ordered or indexed has COLLATE "C": it compares by bytes,
-- as in SQLite and Python, and several times faster than by the rules of a language.
--
-- Tables that grow without bound are partitioned by day, so that old days can be dropped. `prepare_days` creates the
-- partitions; rows of a day without one go to the default partition, so that no commit fails.
--
-- Cost of the indexes: 3 µs per write of a run (three writes) for each of runs_of_tenant and runs_of_job, 5 µs per run for
-- those on `transitions` and `attempts`; runs_of_schedule costs runs of schedules the same, and others nothing.


-- Leadership and servers.

CREATE TABLE shards (
    id          text COLLATE "C" NOT NULL PRIMARY KEY,
    leader      text NOT NULL,
    epoch       bigint NOT NULL,
    lease_until timestamptz NOT NULL,
    batch_no    bigint NOT NULL,
    nonce       bigint NOT NULL,
    ttl         interval NOT NULL
);

-- One row per leadership. Rows are appended and never changed.
CREATE TABLE terms (
    shard      text COLLATE "C" NOT NULL,
    epoch      bigint NOT NULL,
    nonce      bigint NOT NULL,
    batch_no   bigint NOT NULL,
    granted_at timestamptz NOT NULL,
    holder     text NOT NULL,
    PRIMARY KEY (shard, epoch),
    UNIQUE (shard, nonce)
);

CREATE TABLE servers (
    name       text COLLATE "C" NOT NULL PRIMARY KEY,
    address    text NOT NULL,
    version    text NOT NULL,
    started_at timestamptz NOT NULL,
    last_heartbeat_at   timestamptz NOT NULL
);


-- Jobs, runs, tasks and attempts.

-- Versions of jobs. Deleting a name deletes all its versions.
CREATE TABLE jobs (
    id         text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    definition text NOT NULL,
    created_at timestamptz,
    created_by text NOT NULL DEFAULT '',
    deleted_at timestamptz,
    labels     text NOT NULL DEFAULT '{}',
    UNIQUE (tenant, name, version)
);

CREATE TABLE runs (
    id           text COLLATE "C" NOT NULL PRIMARY KEY,
    shard        text COLLATE "C" NOT NULL,
    tenant       text COLLATE "C" NOT NULL,
    job_id       text NOT NULL,
    priority     bigint NOT NULL,
    params       text NOT NULL,
    task_count   bigint NOT NULL,
    submitted_by text NOT NULL,
    linked_run   text,
    watched      boolean NOT NULL,
    created_at   timestamptz NOT NULL,
    start_at     timestamptz NOT NULL,
    state        text NOT NULL,
    generation   bigint NOT NULL,
    adopted_at   timestamptz,
    ended_at     timestamptz,
    paused       boolean NOT NULL,
    held         text,
    cancelled_by text,
    failed_task  text,
    timed_out    boolean NOT NULL,
    because      text NOT NULL,
    schedule_id  text,
    window_at    timestamptz,
    retries      bigint NOT NULL DEFAULT 0,
    started_at   timestamptz,
    finish_by    timestamptz,
    at_risk_at   timestamptz,
    stuck_at     timestamptz
);
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
-- list_runs of jobs. This index and those below have an expression instead of column `id`, so that the planner cannot
-- confuse them with the primary key
CREATE INDEX runs_of_job ON runs (job_id COLLATE "C", (id || ''));
-- list_runs of a schedule
CREATE INDEX runs_of_schedule ON runs (schedule_id COLLATE "C", (id || '')) WHERE schedule_id IS NOT NULL;
-- list_runs of unsuccessful runs, of all tenants and of one
CREATE INDEX runs_unsuccessful ON runs (state COLLATE "C", (id || ''))
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
CREATE INDEX runs_unsuccessful_of_tenant ON runs (tenant, state COLLATE "C", (id || ''))
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');

CREATE TABLE tasks (
    id          text COLLATE "C" NOT NULL PRIMARY KEY,
    run_id      text COLLATE "C" NOT NULL,
    shard       text NOT NULL,
    tenant      text NOT NULL,
    name        text NOT NULL,
    position    bigint NOT NULL,
    priority    bigint NOT NULL,
    state       text NOT NULL,
    generation  bigint NOT NULL,
    seq         bigint NOT NULL,
    attempt     bigint NOT NULL,
    tries       bigint NOT NULL,
    losses      bigint NOT NULL,
    attempt_id  text COLLATE "C",
    lease_id    text,
    worker_id   text,
    cause       text,
    because     text NOT NULL,
    since       timestamptz NOT NULL,
    due_at      timestamptz,
    assigned_at timestamptz,
    started_at  timestamptz,
    ended_at    timestamptz,
    stop        text,
    output      text,
    error       text,
    origin       text,
    trail       text,
    ran_on      text,
    reserved    text,
    -- load, load_run, tasks, archiving: the tasks of a run are a range of the primary key
    CHECK (substr(id, 1, length(run_id) + 2) = 'task_' || substr(run_id, 5) || '.')
);
-- find_attempts
CREATE INDEX tasks_attempt ON tasks (attempt_id) WHERE attempt_id IS NOT NULL;
-- list_dead_letters
CREATE INDEX tasks_dead ON tasks (ended_at, id) WHERE state IN ('FAILED', 'TIMED_OUT');

CREATE TABLE attempts (
    id          text COLLATE "C" NOT NULL,
    task_id     text NOT NULL,
    run_id      text NOT NULL,
    shard       text NOT NULL,
    tenant      text NOT NULL,
    generation  bigint NOT NULL,
    number      bigint NOT NULL,
    worker_id   text NOT NULL,
    lease_id    text NOT NULL,
    assigned_at timestamptz NOT NULL,
    started_at  timestamptz,
    ended_at    timestamptz NOT NULL,
    "end"       text NOT NULL,
    error       text,
    PRIMARY KEY (id, ended_at)  -- find_attempts
) PARTITION BY RANGE (ended_at);
CREATE TABLE attempts_default PARTITION OF attempts DEFAULT;
-- attempts_of
CREATE INDEX attempts_of_task ON attempts (task_id COLLATE "C");

-- Results that arrived after their attempt had ended. Recorded, never applied.
CREATE TABLE late_results (
    attempt_id text NOT NULL,
    outcome    text NOT NULL,
    output     text,
    error      text,
    at         timestamptz NOT NULL
) PARTITION BY RANGE (at);
CREATE TABLE late_results_default PARTITION OF late_results DEFAULT;

CREATE TABLE transitions (
    shard      text COLLATE "C" NOT NULL,
    batch_no   bigint NOT NULL,
    ordinal    bigint NOT NULL,
    task_id    text NOT NULL,
    run_id     text NOT NULL,
    tenant     text NOT NULL,
    generation bigint NOT NULL,
    seq        bigint NOT NULL,
    attempt    bigint NOT NULL,
    start      text,
    "end"      text NOT NULL,
    at         timestamptz NOT NULL,
    "by"       text NOT NULL,
    because    text NOT NULL,
    PRIMARY KEY (shard, batch_no, ordinal, at)
) PARTITION BY RANGE (at);
CREATE TABLE transitions_default PARTITION OF transitions DEFAULT;
-- transitions_of
CREATE INDEX transitions_of_task ON transitions (task_id COLLATE "C");

-- The latest checkpoint of each task; deleted when its run moves to history.
CREATE TABLE checkpoints (
    task_id    text COLLATE "C" NOT NULL PRIMARY KEY,
    run_id     text COLLATE "C" NOT NULL,
    attempt_id text NOT NULL,
    document   text NOT NULL,
    saved_at   timestamptz NOT NULL
);
-- load, load_run, archiving
CREATE INDEX checkpoints_of_run ON checkpoints (run_id);

-- list_artifacts: the artifacts of a run or task are a range of the primary key
CREATE TABLE artifacts (
    run_id       text COLLATE "C" NOT NULL,
    task_id      text COLLATE "C" NOT NULL,
    attempt_id   text COLLATE "C" NOT NULL,
    path         text COLLATE "C" NOT NULL,
    task         text NOT NULL,
    partition    bigint,
    tenant       text NOT NULL,
    size_bytes   bigint NOT NULL,
    sha256       text NOT NULL,
    location        text NOT NULL,
    keep_seconds bigint NOT NULL,
    succeeded    boolean NOT NULL,
    stored_at    timestamptz NOT NULL,
    PRIMARY KEY (run_id, task_id, attempt_id, path)
);
-- prune
CREATE INDEX artifacts_by_time ON artifacts (stored_at);

-- Bulk operations on the tasks of a run that take more than one batch.
CREATE TABLE bulk_operations (
    run_id     text COLLATE "C" NOT NULL,
    parent     text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    shard      text NOT NULL,
    total      bigint NOT NULL,
    done       bigint NOT NULL,
    "by"       text NOT NULL,
    why        text NOT NULL,
    PRIMARY KEY (run_id, parent, generation, kind)
);


-- History: runs that ended some time ago, with their tasks.

CREATE TABLE runs_history (LIKE runs INCLUDING DEFAULTS, PRIMARY KEY (id, ended_at)) PARTITION BY RANGE (ended_at);
CREATE TABLE runs_history_default PARTITION OF runs_history DEFAULT;
-- list_runs in history
CREATE INDEX runs_history_of_tenant ON runs_history ((tenant || '/' || id));
CREATE INDEX runs_history_of_schedule ON runs_history (schedule_id COLLATE "C", (id || '')) WHERE schedule_id IS NOT NULL;
CREATE INDEX runs_history_unsuccessful ON runs_history (state COLLATE "C", (id || ''))
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
CREATE INDEX runs_history_unsuccessful_of_tenant ON runs_history (tenant, state COLLATE "C", (id || ''))
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
-- list_runs of jobs in history, job_days
CREATE INDEX runs_history_of_job ON runs_history (job_id COLLATE "C", (id || ''))
    INCLUDE (state, start_at, window_at, started_at, ended_at, retries);

-- Partitioned by the end of the run, so that a run and its tasks are dropped together.
CREATE TABLE tasks_history (LIKE tasks, run_ended_at timestamptz NOT NULL) PARTITION BY RANGE (run_ended_at);
CREATE TABLE tasks_history_default PARTITION OF tasks_history DEFAULT;
-- tasks
CREATE INDEX tasks_history_of_run ON tasks_history (run_id, position);
CREATE INDEX tasks_history_dead ON tasks_history (ended_at, id) WHERE state IN ('FAILED', 'TIMED_OUT');


-- Workers.

CREATE TABLE workers (
    id            text COLLATE "C" NOT NULL PRIMARY KEY,
    shard         text NOT NULL,
    offer         text NOT NULL,
    labels        text NOT NULL,
    zone          text NOT NULL,
    version       text NOT NULL,
    status        text NOT NULL,
    since         timestamptz NOT NULL,
    last_heartbeat_at timestamptz NOT NULL,
    hold          text NOT NULL DEFAULT '',
    hold_why      text NOT NULL DEFAULT ''
);

-- Tokens with which a machine registers as a worker (SEC-3).
CREATE TABLE join_tokens (
    id         text COLLATE "C" NOT NULL PRIMARY KEY,
    hash       text NOT NULL,
    name       text NOT NULL,
    pools      text NOT NULL,
    uses_left  bigint NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);

-- Registered workers (SEC-3).
CREATE TABLE worker_identities (
    name        text COLLATE "C" NOT NULL PRIMARY KEY,
    key         text NOT NULL,
    pools       text NOT NULL,
    serial      text NOT NULL,
    join_token  text NOT NULL,
    enrolled_at timestamptz NOT NULL,
    renewed_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    revoked_at  timestamptz
);


-- Schedules.

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
    planned_through      timestamptz NOT NULL,
    next_at         timestamptz,
    has_waiting_windows     boolean NOT NULL,
    evaluated_at       timestamptz,
    latest_event_at timestamptz,
    created_at      timestamptz NOT NULL,
    created_by      text NOT NULL,
    updated_at      timestamptz NOT NULL,
    updated_by      text NOT NULL,
    deleted_at      timestamptz
);
-- insert_schedule, find_schedule: names are unique
CREATE UNIQUE INDEX schedules_name ON schedules (tenant, name) WHERE deleted_at IS NULL;
-- evaluate_due, next_due, next_schedules
CREATE INDEX schedules_due ON schedules (next_at, id) WHERE next_at IS NOT NULL AND deleted_at IS NULL;
-- evaluate_waiting
CREATE INDEX schedules_waiting ON schedules (coalesce(evaluated_at, 'epoch'::timestamptz)) WHERE has_waiting_windows AND deleted_at IS NULL;
-- receive_events
CREATE INDEX schedules_event ON schedules (tenant, event_type) WHERE event_type <> '' AND deleted_at IS NULL;
-- schedules_after
CREATE INDEX schedules_after ON schedules (id) WHERE after_job <> '' AND has_waiting_windows AND deleted_at IS NULL;
-- evaluation: the other schedule of a job
CREATE INDEX schedules_job ON schedules (tenant, job) WHERE deleted_at IS NULL;

CREATE TABLE schedule_changes (
    seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id text COLLATE "C" NOT NULL,
    at          timestamptz NOT NULL,
    action         text NOT NULL,
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


-- Sharing rules: who may use what.

-- One row. Every change of a rule adds 1, so that servers detect changes by reading one number.
CREATE TABLE rules_version (
    id      bigint NOT NULL PRIMARY KEY CHECK (id = 1),
    version bigint NOT NULL
);
INSERT INTO rules_version (id, version) VALUES (1, 0);

CREATE TABLE pools (
    name          text COLLATE "C" NOT NULL PRIMARY KEY,
    labels        text NOT NULL,
    zones         text NOT NULL,
    max_resources text,
    note          text NOT NULL,
    version       bigint NOT NULL,
    updated_at    timestamptz NOT NULL,
    updated_by    text NOT NULL
);

CREATE TABLE policies (
    name       text COLLATE "C" NOT NULL PRIMARY KEY,
    label      text NOT NULL,
    value      text NOT NULL,
    requires   text NOT NULL,
    note       text NOT NULL,
    version    bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text NOT NULL
);

CREATE TABLE quotas (
    tenant     text COLLATE "C" NOT NULL,
    pool       text COLLATE "C" NOT NULL,
    quota      text NOT NULL,
    raised     text,
    version    bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text NOT NULL,
    bookings   text NOT NULL DEFAULT '[]',
    PRIMARY KEY (tenant, pool)
);

CREATE TABLE p0_grants (
    tenant  text COLLATE "C" NOT NULL PRIMARY KEY,
    "by"    text NOT NULL,
    why     text NOT NULL,
    since   timestamptz NOT NULL,
    "until" timestamptz
);

CREATE TABLE limit_groups (
    tenant      text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    most        bigint NOT NULL,
    per_seconds double precision,
    note        text NOT NULL,
    version     bigint NOT NULL,
    updated_at  timestamptz NOT NULL,
    updated_by  text NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE freezes (
    kind    text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    "by"    text NOT NULL,
    why     text NOT NULL,
    since   timestamptz NOT NULL,
    "until" timestamptz,
    PRIMARY KEY (kind, subject)
);


-- Limits of the whole cluster, and counters.

-- Limits that are divided among pools: what each pool may use, and what it needs.
CREATE TABLE limit_shares (
    "limit" text COLLATE "C" NOT NULL,
    holder  text COLLATE "C" NOT NULL,
    granted bigint NOT NULL CHECK (granted >= 0),
    needed  bigint NOT NULL,
    PRIMARY KEY ("limit", holder)
);
-- load
CREATE INDEX shares_of_holder ON limit_shares (holder);

-- What was taken from each rate group. A writer locks the row and updates it in location; only the key is indexed, so that
-- an update writes no index.
CREATE TABLE rate_usage (
    "limit"      text COLLATE "C" NOT NULL PRIMARY KEY,
    takes        text NOT NULL,
    counts_until timestamptz NOT NULL
);

-- Failures per tenant in buckets of five minutes, for the failure budget of an hour. Old buckets are at one end of the key.
CREATE TABLE failure_counts (
    shard    text COLLATE "C" NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    since    timestamptz NOT NULL,
    failures bigint NOT NULL,
    PRIMARY KEY (shard, since, tenant)
);

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


-- Scheduling decisions.

-- A sample of the placements, every preemption, and task shapes that could not be placed.
CREATE TABLE decisions (
    id           text COLLATE "C" NOT NULL,
    at           timestamptz NOT NULL,
    kind         text NOT NULL,
    shard        text NOT NULL,
    tenant       text COLLATE "C" NOT NULL,
    task_id      text COLLATE "C" NOT NULL,
    run_id       text COLLATE "C" NOT NULL,
    name         text NOT NULL,
    attempt      bigint NOT NULL,
    priority     bigint NOT NULL,
    request      text NOT NULL,
    worker_id    text COLLATE "C",
    free         text,
    score        double precision,
    workers_examined bigint,
    victims      text NOT NULL,
    victim_count bigint NOT NULL,
    why          text NOT NULL,
    version      text NOT NULL,
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE TABLE decisions_default PARTITION OF decisions DEFAULT;
-- list_decisions, prune
CREATE INDEX decisions_by_time ON decisions (at, id);
-- list_decisions of a task, a run, a worker, a tenant
CREATE INDEX decisions_of_task ON decisions (task_id, at, id);
CREATE INDEX decisions_of_run ON decisions (run_id, at, id);
CREATE INDEX decisions_of_worker ON decisions (worker_id, at, id);
CREATE INDEX decisions_of_tenant ON decisions (tenant, at, id);


-- Messages to the outside.

CREATE TABLE outbox (
    seq          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           text COLLATE "C" NOT NULL UNIQUE,
    "key"        text COLLATE "C" NOT NULL,
    kind         text NOT NULL,
    payload      text NOT NULL,
    created_at   timestamptz NOT NULL,
    due_at       timestamptz NOT NULL,
    holder       text,
    held_until   timestamptz,
    delivered_at timestamptz,
    tries        bigint NOT NULL DEFAULT 0,
    fault        text
);
-- claim_outbox: due rows
CREATE INDEX outbox_due ON outbox (due_at, seq) WHERE delivered_at IS NULL;
-- claim_outbox: the oldest row of each key
CREATE INDEX outbox_key ON outbox ("key", seq) WHERE delivered_at IS NULL;
-- prune
CREATE INDEX outbox_delivered ON outbox (delivered_at) WHERE delivered_at IS NOT NULL;

CREATE TABLE rejected_events (
    id      text COLLATE "C" NOT NULL PRIMARY KEY,
    shard   text NOT NULL,
    kind    text NOT NULL,
    subject text NOT NULL,
    event   text NOT NULL,
    fault   text NOT NULL,
    at      timestamptz NOT NULL
);
-- prune
CREATE INDEX rejected_events_by_day ON rejected_events (at);

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
-- open_alert, resolve_alert: one open episode per key
CREATE UNIQUE INDEX alerts_open ON alerts ("key") WHERE resolved_at IS NULL;
-- prune
CREATE INDEX alerts_resolved ON alerts (resolved_at) WHERE resolved_at IS NOT NULL;

CREATE TABLE webhooks (
    id         text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    url        text NOT NULL,
    events     text NOT NULL,
    job        text NOT NULL,
    enabled    boolean NOT NULL,
    note       text NOT NULL,
    version    bigint NOT NULL,
    created_at timestamptz NOT NULL,
    created_by text NOT NULL
);
-- list_webhooks
CREATE INDEX webhooks_of_tenant ON webhooks (tenant, id);

CREATE TABLE webhook_deliveries (
    id         text COLLATE "C" NOT NULL PRIMARY KEY,
    webhook_id text COLLATE "C" NOT NULL,
    tenant     text NOT NULL,
    type       text NOT NULL,
    subject    text NOT NULL,
    body       text NOT NULL,
    created_at timestamptz NOT NULL,
    state      text NOT NULL,
    tries      bigint NOT NULL,
    status     bigint,
    fault      text NOT NULL,
    last_at    timestamptz
);
-- list_deliveries
CREATE INDEX webhook_deliveries_of ON webhook_deliveries (webhook_id, id);
-- prune
CREATE INDEX webhook_deliveries_by_day ON webhook_deliveries (created_at);


-- Administration.

CREATE TABLE tenants (
    name       text COLLATE "C" NOT NULL PRIMARY KEY,
    title      text NOT NULL,
    contact    text NOT NULL,
    note       text NOT NULL,
    version    bigint NOT NULL,
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text NOT NULL
);

CREATE TABLE tokens (
    id           text COLLATE "C" NOT NULL PRIMARY KEY,
    hash         text NOT NULL,
    tenant       text COLLATE "C" NOT NULL,
    roles        text NOT NULL,
    name         text NOT NULL,
    created_by   text NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    revoked_at   timestamptz,
    last_used_at timestamptz
);
-- list_tenants
CREATE INDEX tokens_of_tenant ON tokens (tenant);

-- Settings that were changed at run time.
CREATE TABLE setting_overrides (
    name       text COLLATE "C" NOT NULL PRIMARY KEY,
    value      text NOT NULL,
    version    bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text NOT NULL,
    why        text NOT NULL
);

-- Values that all servers of a cluster share, such as its secret.
CREATE TABLE settings (
    name  text COLLATE "C" NOT NULL PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE idempotency (
    tenant    text COLLATE "C" NOT NULL,
    "key"     text COLLATE "C" NOT NULL,
    body_hash text NOT NULL,
    run_ids   text[] NOT NULL,
    at        timestamptz NOT NULL,
    PRIMARY KEY (tenant, "key")
);
-- prune
CREATE INDEX idempotency_by_day ON idempotency (at);

-- New entries of the audit log. A sealer moves them to `audit` within about a second. Writers and the check for duplicates
-- use this small table only; `audit` is append-only.
CREATE TABLE audit_unsealed (
    id     text COLLATE "C" NOT NULL PRIMARY KEY,
    at     timestamptz NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    actor  text NOT NULL,
    source text NOT NULL,
    action    text NOT NULL,
    object text COLLATE "C" NOT NULL,
    why    text NOT NULL,
    before text,
    after  text
);
-- seal_audit, list_audit
CREATE INDEX audit_unsealed_by_time ON audit_unsealed (at, id);

CREATE TABLE audit (
    id     text COLLATE "C" NOT NULL,
    at     timestamptz NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    actor  text NOT NULL,
    source text NOT NULL,
    action    text NOT NULL,
    object text COLLATE "C" NOT NULL,
    why    text NOT NULL,
    before text,
    after  text,
    seq    bigint NOT NULL CHECK (seq > 0),
    hash   text NOT NULL,
    -- seal_audit: has it been sealed before?
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE TABLE audit_default PARTITION OF audit DEFAULT;
-- list_audit, prune
CREATE INDEX audit_by_time ON audit (at, id);
-- list_audit of a tenant
CREATE INDEX audit_of_tenant ON audit (tenant, at, id);
-- list_audit of one object
CREATE INDEX audit_of_object ON audit (object, at, id);
-- audit_chain
CREATE INDEX audit_chain ON audit (tenant, seq, id);

CREATE TABLE audit_heads (
    tenant text COLLATE "C" NOT NULL PRIMARY KEY,
    seq    bigint NOT NULL,
    hash   text NOT NULL
);
