-- 0004: the audit log, tenants, settings at run time, webhooks, jobs that are deleted, and lists that stay fast.
-- Old servers: go on working. They name the columns that they write, and the new ones have defaults. What people ask of
--     them is not in the audit log, runs that they end have no `started_at`, and they still find jobs that were deleted.
-- Locks: nobody uses `runs`, `jobs` and `tokens` while columns are added or changed, which takes no longer than their
--     catalogue rows, and nobody writes `runs` and `runs_history` while indexes are made. Who waits for longer than a
--     second is told that the store is not available, and comes back.
--
-- What the index of jobs on `runs` costs: 3 µs each of the three times that a run is written, as that of tenants does. That
-- of schedules costs as much for a run of a schedule, and nothing for others; those of runs that did not succeed cost
-- nothing as long as a run does.

-- An entry is here until it is sealed, which takes a second, and then in `audit`: so whoever writes one writes a small
-- table, finds by its key one that came before, and the large table is only ever added to.
CREATE TABLE audit_unsealed (
    id     text COLLATE "C" NOT NULL PRIMARY KEY,
    at     timestamptz NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    actor  text NOT NULL,
    source text NOT NULL,
    act    text NOT NULL,
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
    act    text NOT NULL,
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
-- list_audit of one thing
CREATE INDEX audit_of_object ON audit (object, at, id);
-- audit_chain
CREATE INDEX audit_chain ON audit (tenant, seq, id);

CREATE TABLE audit_heads (
    tenant text COLLATE "C" NOT NULL PRIMARY KEY,
    seq    bigint NOT NULL,
    hash   text NOT NULL
);

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

CREATE TABLE measures (
    name       text COLLATE "C" NOT NULL PRIMARY KEY,
    value      text NOT NULL,
    version    bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text NOT NULL,
    why        text NOT NULL
);

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

-- Since when a version of a job is there, by whom, and with which labels; jobs of before have none of it. A name that is
-- deleted is so for all its versions.
ALTER TABLE jobs ADD COLUMN created_at timestamptz, ADD COLUMN created_by text NOT NULL DEFAULT '',
    ADD COLUMN deleted_at timestamptz, ADD COLUMN labels text NOT NULL DEFAULT '{}';

-- list_tenants
ALTER TABLE tokens ALTER COLUMN tenant TYPE text COLLATE "C";
CREATE INDEX tokens_of_tenant ON tokens (tenant);

ALTER TABLE runs ADD COLUMN started_at timestamptz;
ALTER TABLE runs_history ADD COLUMN started_at timestamptz;

-- list_runs of jobs. It is on no column `id`, nor are those below, so that no plan can mistake it for the primary key.
CREATE INDEX runs_of_job ON runs (job_id COLLATE "C", (id || ''));
-- list_runs of a schedule
CREATE INDEX runs_of_schedule ON runs (schedule_id COLLATE "C", (id || '')) WHERE schedule_id IS NOT NULL;
-- list_runs of those that did not succeed, of all tenants and of one
CREATE INDEX runs_unsuccessful ON runs (state COLLATE "C", (id || ''))
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
CREATE INDEX runs_unsuccessful_of_tenant ON runs (tenant, state COLLATE "C", (id || ''))
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
-- list_runs, those in history
CREATE INDEX runs_history_of_tenant ON runs_history ((tenant || '/' || id));
CREATE INDEX runs_history_of_schedule ON runs_history (schedule_id COLLATE "C", (id || '')) WHERE schedule_id IS NOT NULL;
CREATE INDEX runs_history_unsuccessful ON runs_history (state COLLATE "C", (id || ''))
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
CREATE INDEX runs_history_unsuccessful_of_tenant ON runs_history (tenant, state COLLATE "C", (id || ''))
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
-- list_runs of jobs in history, job_days
CREATE INDEX runs_history_of_job ON runs_history (job_id COLLATE "C", (id || ''))
    INCLUDE (state, start_at, window_at, started_at, ended_at, retries);
