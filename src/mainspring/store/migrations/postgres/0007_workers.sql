-- 0007: files that attempts leave; who workers are.
-- Old servers: go on working. What attempts leave as files is not listed if one of them leads the pool. They let nobody
--     join, and know workers by their tokens only.
-- Locks: nothing that anybody uses.

-- list_artifacts: those of a run or a task are a range of the primary key
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
    place        text NOT NULL,
    keep_seconds bigint NOT NULL,
    succeeded    boolean NOT NULL,
    stored_at    timestamptz NOT NULL,
    PRIMARY KEY (run_id, task_id, attempt_id, path)
);
-- prune
CREATE INDEX artifacts_by_time ON artifacts (stored_at);

-- Tokens with which a machine becomes a worker, and who the workers are that have joined (SEC-3).
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
