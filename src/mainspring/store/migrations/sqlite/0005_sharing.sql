-- 0005: who may use what: pools, policies, quotas, grants, groups, freezes, and limits that hold for the whole cluster.
-- Old servers: none, because one process at a time has the file.
-- Locks: the file, which nobody else has.

ALTER TABLE tasks ADD COLUMN ran_on TEXT;
ALTER TABLE tasks ADD COLUMN reserved TEXT;
ALTER TABLE tasks_history ADD COLUMN ran_on TEXT;
ALTER TABLE tasks_history ADD COLUMN reserved TEXT;

-- One row. Whoever changes a rule adds 1, so that those who follow read a number to know that nothing is new.
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
    PRIMARY KEY (tenant, pool)
) STRICT;

CREATE TABLE p0_grants (
    tenant  TEXT NOT NULL PRIMARY KEY,
    "by"    TEXT NOT NULL,
    why     TEXT NOT NULL,
    since   INTEGER NOT NULL,
    "until" INTEGER
) STRICT;

CREATE TABLE work_groups (
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

-- A limit that is divided among pools: what each may use, and what each would like to have.
CREATE TABLE shares (
    "limit" TEXT NOT NULL,
    holder  TEXT NOT NULL,
    granted INTEGER NOT NULL CHECK (granted >= 0),
    needed  INTEGER NOT NULL,
    PRIMARY KEY ("limit", holder)
) STRICT;
-- load
CREATE INDEX shares_of_holder ON shares (holder);

-- What was taken from a rate.
CREATE TABLE limits (
    "limit"      TEXT NOT NULL PRIMARY KEY,
    takes        TEXT NOT NULL,
    counts_until INTEGER NOT NULL
) STRICT;

-- Failures of a tenant in each five minutes, for the budget of an hour. What is old is at one end of the key.
CREATE TABLE tallies (
    shard    TEXT NOT NULL,
    tenant   TEXT NOT NULL,
    since    INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    PRIMARY KEY (shard, since, tenant)
) STRICT;
