-- 0006: what the scheduler decided, and why; by when runs are to be over, and what is booked for that.
-- Old servers: none, because one process at a time has the file.
-- Locks: the file, which nobody else has.

-- Some of the placements, every preemption, and shapes that found no room.
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
    looked_at    INTEGER,
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

ALTER TABLE runs ADD COLUMN finish_by INTEGER;
ALTER TABLE runs ADD COLUMN at_risk_at INTEGER;
ALTER TABLE runs ADD COLUMN stuck_at INTEGER;
ALTER TABLE runs_history ADD COLUMN finish_by INTEGER;
ALTER TABLE runs_history ADD COLUMN at_risk_at INTEGER;
ALTER TABLE runs_history ADD COLUMN stuck_at INTEGER;
ALTER TABLE quotas ADD COLUMN bookings TEXT NOT NULL DEFAULT '[]';
