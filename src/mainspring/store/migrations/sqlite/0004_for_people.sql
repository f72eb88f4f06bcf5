-- 0004: the audit log, tenants, settings at run time, webhooks, jobs that are deleted, and lists that stay fast.
-- Old servers: none, because one process at a time has the file.
-- Locks: the file, which nobody else has.

-- An entry is here until it is sealed, which takes a second, and then in `audit`: so whoever writes one writes a small
-- table, finds by its key one that came before, and the large table is only ever added to.
CREATE TABLE audit_unsealed (
    id     TEXT NOT NULL PRIMARY KEY,
    at     INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    actor  TEXT NOT NULL,
    source TEXT NOT NULL,
    act    TEXT NOT NULL,
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
    act    TEXT NOT NULL,
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
-- list_audit of one thing
CREATE INDEX audit_of_object ON audit (object, at, id);
-- audit_chain
CREATE INDEX audit_chain ON audit (tenant, seq, id);

CREATE TABLE audit_heads (
    tenant TEXT NOT NULL PRIMARY KEY,
    seq    INTEGER NOT NULL,
    hash   TEXT NOT NULL
) STRICT;

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

CREATE TABLE measures (
    name       TEXT NOT NULL PRIMARY KEY,
    value      TEXT NOT NULL,
    version    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    why        TEXT NOT NULL
) STRICT;

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

-- Since when a version of a job is there, by whom, and with which labels; jobs of before have none of it. A name that is
-- deleted is so for all its versions.
ALTER TABLE jobs ADD COLUMN created_at INTEGER;
ALTER TABLE jobs ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN deleted_at INTEGER;
ALTER TABLE jobs ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';

-- list_tenants
CREATE INDEX tokens_of_tenant ON tokens (tenant);

ALTER TABLE runs ADD COLUMN started_at INTEGER;
ALTER TABLE runs_history ADD COLUMN started_at INTEGER;

-- list_runs of jobs
CREATE INDEX runs_of_job ON runs (job_id, id);
-- list_runs of a schedule
CREATE INDEX runs_of_schedule ON runs (schedule_id, id) WHERE schedule_id IS NOT NULL;
-- list_runs of those that did not succeed, of all tenants and of one
CREATE INDEX runs_unsuccessful ON runs (state, id)
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
CREATE INDEX runs_unsuccessful_of_tenant ON runs (tenant, state, id)
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
-- list_runs, those in history
CREATE INDEX runs_history_of_tenant ON runs_history ((tenant || '/' || id));
CREATE INDEX runs_history_of_schedule ON runs_history (schedule_id, id) WHERE schedule_id IS NOT NULL;
CREATE INDEX runs_history_unsuccessful ON runs_history (state, id)
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
CREATE INDEX runs_history_unsuccessful_of_tenant ON runs_history (tenant, state, id)
    WHERE state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT');
-- list_runs of jobs in history, job_days
CREATE INDEX runs_history_of_job ON runs_history (job_id, id, state, start_at, window_at, started_at, ended_at, retries);
