-- 0001: shards and their terms, jobs, runs, tasks and what is remembered of them.
-- Old servers: there are none.
-- Locks: nothing that anybody uses.
--
-- The columns of a table are the fields of its struct, in the same order; what the store adds comes after them (or
-- before, where it is the key). An index says which query it is for. Texts that are ordered or indexed compare by bytes
-- (COLLATE "C"): that is how SQLite and Python order them, and it is several times faster than a language's rules.
--
-- Tables that grow for ever are by day, so that old days can be dropped whole. The days themselves are made by
-- `prepare_days`; rows of a day that was not made in time go to the default partition, so that no commit fails for it.

CREATE TABLE shards (
    id          text COLLATE "C" NOT NULL PRIMARY KEY,
    leader      text NOT NULL,
    epoch       bigint NOT NULL,
    lease_until timestamptz NOT NULL,
    batch_no    bigint NOT NULL,
    nonce       bigint NOT NULL,
    ttl         interval NOT NULL
);

-- Appended to and never changed: who led, since when.
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

CREATE TABLE jobs (
    id         text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    definition text NOT NULL,
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
    because      text NOT NULL
);
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
    -- load, load_run, tasks, archiving: the tasks of a run are a range of the primary key
    CHECK (substr(id, 1, length(run_id) + 2) = 'task_' || substr(run_id, 5) || '.')
);
-- find_attempts
CREATE INDEX tasks_attempt ON tasks (attempt_id) WHERE attempt_id IS NOT NULL;

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

-- Results that came for attempts already over: kept beside them, never applied.
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

CREATE TABLE runs_history (LIKE runs, PRIMARY KEY (id, ended_at)) PARTITION BY RANGE (ended_at);
CREATE TABLE runs_history_default PARTITION OF runs_history DEFAULT;

-- By the day on which the run ended, so that a run and its tasks go together.
CREATE TABLE tasks_history (LIKE tasks, run_ended_at timestamptz NOT NULL) PARTITION BY RANGE (run_ended_at);
CREATE TABLE tasks_history_default PARTITION OF tasks_history DEFAULT;
-- tasks
CREATE INDEX tasks_history_of_run ON tasks_history (run_id, position);

CREATE TABLE spreads (
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
-- take_outgoing: what is due
CREATE INDEX outbox_due ON outbox (due_at, seq) WHERE delivered_at IS NULL;
-- take_outgoing: the oldest of each key
CREATE INDEX outbox_key ON outbox ("key", seq) WHERE delivered_at IS NULL;
-- prune
CREATE INDEX outbox_delivered ON outbox (delivered_at) WHERE delivered_at IS NOT NULL;

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

CREATE TABLE workers (
    id            text COLLATE "C" NOT NULL PRIMARY KEY,
    shard         text NOT NULL,
    offer         text NOT NULL,
    labels        text NOT NULL,
    zone          text NOT NULL,
    version       text NOT NULL,
    status        text NOT NULL,
    since         timestamptz NOT NULL,
    last_heard_at timestamptz NOT NULL
);
