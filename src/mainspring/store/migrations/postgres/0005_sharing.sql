-- 0005: who may use what: pools, policies, quotas, grants, groups, freezes, and limits that hold for the whole cluster.
-- Old servers: go on working. They name the columns that they write, and the new ones have defaults. They go by none of
--     these rules: no quota, group, freeze or policy holds in a pool that one of them leads.
-- Locks: nobody uses `tasks` and `tasks_history` while columns are added, which takes no longer than their catalogue
--     rows. Who waits for longer than a second is told that the store is not available, and comes back.

ALTER TABLE tasks ADD COLUMN ran_on text, ADD COLUMN reserved text;
ALTER TABLE tasks_history ADD COLUMN ran_on text, ADD COLUMN reserved text;

-- One row. Whoever changes a rule adds 1, so that those who follow read a number to know that nothing is new.
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
    PRIMARY KEY (tenant, pool)
);

CREATE TABLE p0_grants (
    tenant  text COLLATE "C" NOT NULL PRIMARY KEY,
    "by"    text NOT NULL,
    why     text NOT NULL,
    since   timestamptz NOT NULL,
    "until" timestamptz
);

CREATE TABLE work_groups (
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

-- A limit that is divided among pools: what each may use, and what each would like to have.
CREATE TABLE shares (
    "limit" text COLLATE "C" NOT NULL,
    holder  text COLLATE "C" NOT NULL,
    granted bigint NOT NULL CHECK (granted >= 0),
    needed  bigint NOT NULL,
    PRIMARY KEY ("limit", holder)
);
-- load
CREATE INDEX shares_of_holder ON shares (holder);

-- The row that whoever takes from a limit locks. Of a rate it has what was taken, inside: who waited for the lock gets
-- the row as it is by then, and no other statement has to look. Nothing of it is in an index but its key, so that a
-- change writes no index.
CREATE TABLE limits (
    "limit"      text COLLATE "C" NOT NULL PRIMARY KEY,
    takes        text NOT NULL,
    counts_until timestamptz NOT NULL
);

-- Failures of a tenant in each five minutes, for the budget of an hour. What is old is at one end of the key.
CREATE TABLE tallies (
    shard    text COLLATE "C" NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    since    timestamptz NOT NULL,
    failures bigint NOT NULL,
    PRIMARY KEY (shard, since, tenant)
);
