-- 0006: what the scheduler decided, and why; by when runs are to be over, and what is booked for that.
-- Old servers: go on working. What they decide is not in the log of decisions. In a pool that one of them leads no run
--     has a deadline, and nothing is booked.
-- Locks: nobody uses `runs`, `runs_history` and `quotas` while columns are added, which takes no longer than their
--     catalogue rows. Who waits for longer than a second is told that the store is not available, and comes back.

-- Some of the placements, every preemption, and shapes that found no room.
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
    looked_at    bigint,
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

ALTER TABLE runs ADD COLUMN finish_by timestamptz, ADD COLUMN at_risk_at timestamptz, ADD COLUMN stuck_at timestamptz;
ALTER TABLE runs_history
    ADD COLUMN finish_by timestamptz, ADD COLUMN at_risk_at timestamptz, ADD COLUMN stuck_at timestamptz;
ALTER TABLE quotas ADD COLUMN bookings text NOT NULL DEFAULT '[]';
