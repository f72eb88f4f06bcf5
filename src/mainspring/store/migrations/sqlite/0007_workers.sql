-- 0007: files that attempts leave; who workers are.
-- Old servers: none, because one process at a time has the file.
-- Locks: the file, which nobody else has.

-- list_artifacts: those of a run or a task are a range of the primary key
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
    place        TEXT NOT NULL,
    keep_seconds INTEGER NOT NULL,
    succeeded    INTEGER NOT NULL,
    stored_at    INTEGER NOT NULL,
    PRIMARY KEY (run_id, task_id, attempt_id, path)
) STRICT, WITHOUT ROWID;
-- prune
CREATE INDEX artifacts_by_time ON artifacts (stored_at);

-- Tokens with which a machine becomes a worker, and who the workers are that have joined (SEC-3).
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
