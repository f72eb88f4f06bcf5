-- A server of schema 0002 says to PostgreSQL; tidy: one concept because it is one session.
INSERT INTO shards (id, leader, epoch, lease_until, batch_no, nonce, ttl) VALUES ('main'::text, '', 0, 'epoch', 0, 0, '0') ON CONFLICT (id) DO NOTHING;
-- 1 changed
BEGIN;
-- done
SELECT pg_advisory_xact_lock(hashtextextended('builders'::text || ' ' || 'any'::text, 0));
-- 1 changed
SELECT "id", "tenant", "name", "version", "definition" FROM jobs WHERE id = 'job_0'::text;
-- 0 rows
SELECT "id", "tenant", "name", "version", "definition" FROM jobs WHERE tenant = 'builders'::text AND name = 'any'::text ORDER BY version DESC LIMIT 1;
-- 0 rows
INSERT INTO jobs VALUES ('job_0'::text, 'builders'::text, 'any'::text, '1'::int8, '{}'::text);
-- 1 changed
COMMIT;
-- done
WITH taken AS ( UPDATE shards SET leader = 'host-1'::text, epoch = epoch + 1, nonce = '1'::int8, ttl = '01:00:00'::interval, lease_until = clock_timestamp() + '01:00:00'::interval WHERE id = 'main'::text AND lease_until <= clock_timestamp() AND nonce <> '1'::int8 AND NOT EXISTS (SELECT 1 FROM terms WHERE shard = 'main'::text AND nonce = '1'::int8) RETURNING id, epoch, nonce, batch_no, leader ) INSERT INTO terms (shard, epoch, nonce, batch_no, granted_at, holder) SELECT id, epoch, nonce, batch_no, clock_timestamp(), leader FROM taken RETURNING shard, epoch, nonce, batch_no, granted_at;
-- 1 rows
SELECT clock_timestamp();
-- 1 rows
SELECT id, leader, epoch, lease_until, batch_no FROM shards ORDER BY id;
-- 1 rows
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'transitions'::text::text::regclass ORDER BY c.relname;
-- 1 rows
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'attempts'::text::text::regclass ORDER BY c.relname;
-- 1 rows
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'late_results'::text::text::regclass ORDER BY c.relname;
-- 1 rows
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'tasks_history'::text::text::regclass ORDER BY c.relname;
-- 1 rows
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'runs_history'::text::text::regclass ORDER BY c.relname;
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'transitions'::text::text::regclass ORDER BY c.relname;
-- 1 rows
LOCK TABLE transitions_default IN ACCESS EXCLUSIVE MODE;
-- done
SELECT count(*) FROM (SELECT 1 FROM transitions_default WHERE at >= '2026-11-16T00:00:00+00:00' AND at < '2026-11-17T00:00:00+00:00' LIMIT '100001'::int8) AS rows;
-- 1 rows
CREATE TABLE transitions_20261116 (LIKE transitions INCLUDING ALL); WITH astray AS (DELETE FROM transitions_default WHERE at >= '2026-11-16T00:00:00+00:00' AND at < '2026-11-17T00:00:00+00:00' RETURNING *) INSERT INTO transitions_20261116 SELECT * FROM astray; ALTER TABLE transitions ATTACH PARTITION transitions_20261116 FOR VALUES FROM ('2026-11-16T00:00:00+00:00') TO ('2026-11-17T00:00:00+00:00');
-- done
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'attempts'::text::text::regclass ORDER BY c.relname;
-- 1 rows
LOCK TABLE attempts_default IN ACCESS EXCLUSIVE MODE;
-- done
SELECT count(*) FROM (SELECT 1 FROM attempts_default WHERE ended_at >= '2026-11-16T00:00:00+00:00' AND ended_at < '2026-11-17T00:00:00+00:00' LIMIT '100001'::int8) AS rows;
-- 1 rows
CREATE TABLE attempts_20261116 (LIKE attempts INCLUDING ALL); WITH astray AS (DELETE FROM attempts_default WHERE ended_at >= '2026-11-16T00:00:00+00:00' AND ended_at < '2026-11-17T00:00:00+00:00' RETURNING *) INSERT INTO attempts_20261116 SELECT * FROM astray; ALTER TABLE attempts ATTACH PARTITION attempts_20261116 FOR VALUES FROM ('2026-11-16T00:00:00+00:00') TO ('2026-11-17T00:00:00+00:00');
-- done
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'late_results'::text::text::regclass ORDER BY c.relname;
-- 1 rows
LOCK TABLE late_results_default IN ACCESS EXCLUSIVE MODE;
-- done
SELECT count(*) FROM (SELECT 1 FROM late_results_default WHERE at >= '2026-11-16T00:00:00+00:00' AND at < '2026-11-17T00:00:00+00:00' LIMIT '100001'::int8) AS rows;
-- 1 rows
CREATE TABLE late_results_20261116 (LIKE late_results INCLUDING ALL); WITH astray AS (DELETE FROM late_results_default WHERE at >= '2026-11-16T00:00:00+00:00' AND at < '2026-11-17T00:00:00+00:00' RETURNING *) INSERT INTO late_results_20261116 SELECT * FROM astray; ALTER TABLE late_results ATTACH PARTITION late_results_20261116 FOR VALUES FROM ('2026-11-16T00:00:00+00:00') TO ('2026-11-17T00:00:00+00:00');
-- done
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'tasks_history'::text::text::regclass ORDER BY c.relname;
-- 1 rows
LOCK TABLE tasks_history_default IN ACCESS EXCLUSIVE MODE;
-- done
SELECT count(*) FROM (SELECT 1 FROM tasks_history_default WHERE run_ended_at >= '2026-11-16T00:00:00+00:00' AND run_ended_at < '2026-11-17T00:00:00+00:00' LIMIT '100001'::int8) AS rows;
-- 1 rows
CREATE TABLE tasks_history_20261116 (LIKE tasks_history INCLUDING ALL); WITH astray AS (DELETE FROM tasks_history_default WHERE run_ended_at >= '2026-11-16T00:00:00+00:00' AND run_ended_at < '2026-11-17T00:00:00+00:00' RETURNING *) INSERT INTO tasks_history_20261116 SELECT * FROM astray; ALTER TABLE tasks_history ATTACH PARTITION tasks_history_20261116 FOR VALUES FROM ('2026-11-16T00:00:00+00:00') TO ('2026-11-17T00:00:00+00:00');
-- done
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'runs_history'::text::text::regclass ORDER BY c.relname;
-- 1 rows
LOCK TABLE runs_history_default IN ACCESS EXCLUSIVE MODE;
-- done
SELECT count(*) FROM (SELECT 1 FROM runs_history_default WHERE ended_at >= '2026-11-16T00:00:00+00:00' AND ended_at < '2026-11-17T00:00:00+00:00' LIMIT '100001'::int8) AS rows;
-- 1 rows
CREATE TABLE runs_history_20261116 (LIKE runs_history INCLUDING ALL); WITH astray AS (DELETE FROM runs_history_default WHERE ended_at >= '2026-11-16T00:00:00+00:00' AND ended_at < '2026-11-17T00:00:00+00:00' RETURNING *) INSERT INTO runs_history_20261116 SELECT * FROM astray; ALTER TABLE runs_history ATTACH PARTITION runs_history_20261116 FOR VALUES FROM ('2026-11-16T00:00:00+00:00') TO ('2026-11-17T00:00:00+00:00');
-- done
COMMIT;
-- done
BEGIN;
-- done
SELECT pg_advisory_xact_lock(hashtextextended('acme'::text || ' ' || 'report'::text, 0));
-- 1 changed
SELECT "id", "tenant", "name", "version", "definition" FROM jobs WHERE id = 'job_2'::text;
-- 0 rows
SELECT "id", "tenant", "name", "version", "definition" FROM jobs WHERE tenant = 'acme'::text AND name = 'report'::text ORDER BY version DESC LIMIT 1;
-- 0 rows
INSERT INTO jobs VALUES ('job_2'::text, 'acme'::text, 'report'::text, '1'::int8, '{"a": 1}'::text);
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO idempotency (tenant, key, body_hash, run_ids, at) VALUES ('acme'::text, 'k'::text, 'h'::text, '{run_000000000005-0000000000000006}'::text[], clock_timestamp()) ON CONFLICT (tenant, key) DO NOTHING RETURNING key;
-- 1 rows
WITH missing AS MATERIALIZED ( SELECT wanted.id FROM unnest('{job_2}'::text[]::text[]) AS wanted (id) WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = wanted.id) ), made AS ( INSERT INTO runs ("id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because") SELECT * FROM json_to_recordset(E'[{"id":"run_000000000005-0000000000000006","shard":"main","tenant":"acme","job_id":"job_2","priority":1,"params":"{\\"day\\":\\"2026-11-15\\"}","task_count":1,"submitted_by":"ann","linked_run":null,"watched":false,"created_at":"2025-03-01T12:00:00.123456Z","start_at":"2025-03-01T12:00:00.123456Z","state":"PENDING","generation":1,"adopted_at":null,"ended_at":null,"paused":false,"held":null,"cancelled_by":null,"failed_task":null,"timed_out":false,"because":""}]'::json::json) AS ("id" text, "shard" text, "tenant" text, "job_id" text, "priority" bigint, "params" text, "task_count" bigint, "submitted_by" text, "linked_run" text, "watched" boolean, "created_at" timestamptz, "start_at" timestamptz, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text) WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ) SELECT id FROM missing;
-- 0 rows
COMMIT;
-- done
BEGIN;
-- done
SELECT pg_notify('mainspring_work'::text, 'a6dfd475b29adc44 main'::text);
-- 1 changed
INSERT INTO idempotency (tenant, key, body_hash, run_ids, at) VALUES ('acme'::text, 'k'::text, 'h'::text, '{run_000000000005-0000000000000006}'::text[], clock_timestamp()) ON CONFLICT (tenant, key) DO NOTHING RETURNING key;
-- 0 rows
SELECT used.tenant, used.key, used.body_hash, used.run_ids FROM unnest('{acme}'::text[]::text[], '{k}'::text[]::text[]) AS given (tenant, key) JOIN idempotency AS used ON used.tenant = given.tenant AND used.key = given.key;
-- 1 rows
COMMIT;
-- done
SELECT p.priority, found.tenant FROM unnest('{0,1,2}'::int8[]::bigint[]) AS p (priority) CROSS JOIN LATERAL ( WITH RECURSIVE tenants(tenant) AS ( SELECT (SELECT min(runs.tenant) FROM runs WHERE shard = 'main'::text AND priority = p.priority AND adopted_at IS NULL AND held IS NULL AND runs.tenant > ''::text) UNION ALL SELECT (SELECT min(runs.tenant) FROM runs WHERE shard = 'main'::text AND priority = p.priority AND adopted_at IS NULL AND held IS NULL AND runs.tenant > tenants.tenant) FROM tenants WHERE tenants.tenant IS NOT NULL ) SELECT tenant FROM tenants WHERE tenant IS NOT NULL AND statement_timestamp() >= ( SELECT min(start_at) FROM runs WHERE shard = 'main'::text AND priority = p.priority AND runs.tenant = tenants.tenant AND adopted_at IS NULL AND held IS NULL) LIMIT '10'::int8 ) AS found ORDER BY p.priority, found.tenant COLLATE "C";
-- 1 rows
SELECT found."id", found."shard", found."tenant", found."job_id", found."priority", found."params", found."task_count", found."submitted_by", found."linked_run", found."watched", found."created_at", found."start_at", found."state", found."generation", found."adopted_at", found."ended_at", found."paused", found."held", found."cancelled_by", found."failed_task", found."timed_out", found."because" FROM unnest('{1}'::int8[]::bigint[], '{acme}'::text[]::text[], '{10}'::int8[]::bigint[]) WITH ORDINALITY AS want (priority, tenant, runs, place) CROSS JOIN LATERAL ( SELECT * FROM runs WHERE shard = 'main'::text AND priority = want.priority AND tenant = want.tenant AND adopted_at IS NULL AND held IS NULL AND start_at <= statement_timestamp() ORDER BY start_at, id LIMIT want.runs ) AS found ORDER BY want.place, found.start_at, found.id;
-- 1 rows
SELECT min(start_at) FROM runs WHERE shard = 'main'::text AND adopted_at IS NULL AND held IS NULL AND start_at > created_at AND start_at > statement_timestamp();
-- 1 rows
WITH missing AS MATERIALIZED ( SELECT wanted.id FROM unnest('{job_2}'::text[]::text[]) AS wanted (id) WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = wanted.id) ), made AS ( INSERT INTO runs ("id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because") SELECT * FROM json_to_recordset(E'[{"id":"run_000000000003-0000000000000004","shard":"main","tenant":"acme","job_id":"job_2","priority":1,"params":"{\\"day\\":\\"2026-11-15\\"}","task_count":1,"submitted_by":"ann","linked_run":null,"watched":false,"created_at":"2025-03-01T12:00:00.123456Z","start_at":"2025-03-01T12:00:00.123456Z","state":"PENDING","generation":1,"adopted_at":null,"ended_at":null,"paused":false,"held":null,"cancelled_by":null,"failed_task":null,"timed_out":false,"because":""}]'::json::json) AS ("id" text, "shard" text, "tenant" text, "job_id" text, "priority" bigint, "params" text, "task_count" bigint, "submitted_by" text, "linked_run" text, "watched" boolean, "created_at" timestamptz, "start_at" timestamptz, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text) WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ) SELECT id FROM missing;
-- 0 rows
BEGIN;
-- done
UPDATE shards SET lease_until = clock_timestamp() + ttl, batch_no = '1'::int4 WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8 AND batch_no = '1'::int4 - 1 RETURNING clock_timestamp();
-- 1 rows
WITH changed_runs AS ( UPDATE runs SET "state" = u."state", "generation" = u."generation", "adopted_at" = u."adopted_at", "ended_at" = u."ended_at", "paused" = u."paused", "held" = u."held", "cancelled_by" = u."cancelled_by", "failed_task" = u."failed_task", "timed_out" = u."timed_out", "because" = u."because" FROM ROWS FROM (json_to_recordset('[{"id":"run_000000000003-0000000000000004","state":"RUNNING","generation":1,"adopted_at":"2025-03-01T12:00:00.123456Z","ended_at":null,"paused":false,"held":null,"cancelled_by":null,"failed_task":null,"timed_out":false,"because":""}]'::json::json) AS ("id" text, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text)) AS u WHERE runs.id = u.id AND runs.shard = 'main'::text RETURNING 1), new_tasks AS ( INSERT INTO tasks ("id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error") SELECT * FROM json_to_recordset('[{"id":"task_000000000003-0000000000000004.0","run_id":"run_000000000003-0000000000000004","shard":"main","tenant":"acme","name":"step-0","position":0,"priority":1,"state":"PENDING","generation":1,"seq":1,"attempt":0,"tries":0,"losses":0,"attempt_id":null,"lease_id":null,"worker_id":null,"cause":null,"because":"","since":"2025-03-01T12:00:00.123456Z","due_at":null,"assigned_at":null,"started_at":null,"ended_at":null,"stop":null,"output":null,"error":null}]'::json::json) AS ("id" text, "run_id" text, "shard" text, "tenant" text, "name" text, "position" bigint, "priority" bigint, "state" text, "generation" bigint, "seq" bigint, "attempt" bigint, "tries" bigint, "losses" bigint, "attempt_id" text, "lease_id" text, "worker_id" text, "cause" text, "because" text, "since" timestamptz, "due_at" timestamptz, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "stop" text, "output" text, "error" text) ), changed_tasks AS ( UPDATE tasks SET "priority" = u."priority", "state" = u."state", "generation" = u."generation", "seq" = u."seq", "attempt" = u."attempt", "tries" = u."tries", "losses" = u."losses", "attempt_id" = u."attempt_id", "lease_id" = u."lease_id", "worker_id" = u."worker_id", "cause" = u."cause", "because" = u."because", "since" = u."since", "due_at" = u."due_at", "assigned_at" = u."assigned_at", "started_at" = u."started_at", "ended_at" = u."ended_at", "stop" = u."stop", "output" = u."output", "error" = u."error" FROM ROWS FROM (json_to_recordset('[]'::json::json) AS ("id" text, "priority" bigint, "state" text, "generation" bigint, "seq" bigint, "attempt" bigint, "tries" bigint, "losses" bigint, "attempt_id" text, "lease_id" text, "worker_id" text, "cause" text, "because" text, "since" timestamptz, "due_at" timestamptz, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "stop" text, "output" text, "error" text), unnest('{}'::text[]::text[]), unnest('{}'::int8[]::bigint[])) AS u (id, priority, state, generation, seq, attempt, tries, losses, attempt_id, lease_id, worker_id, cause, because, since, due_at, assigned_at, started_at, ended_at, stop, output, error, was, was_seq) WHERE tasks.id = u.id AND tasks.state = u.was AND tasks.seq = u.was_seq AND tasks.shard = 'main'::text RETURNING 1), told AS ( INSERT INTO transitions ("task_id", "run_id", "tenant", "generation", "seq", "attempt", "start", "end", "at", "by", "because", shard, batch_no, ordinal) SELECT u."task_id", u."run_id", u."tenant", u."generation", u."seq", u."attempt", u."start", u."end", u."at", u."by", u."because", 'main'::text, '1'::int8, u.ordinality - 1 FROM ROWS FROM (json_to_recordset('[{"task_id":"task_000000000003-0000000000000004.0","run_id":"run_000000000003-0000000000000004","tenant":"acme","generation":1,"seq":1,"attempt":0,"start":null,"end":"PENDING","at":"2025-03-01T12:00:00.123456Z","by":"shard","because":"it is new"}]'::json::json) AS ("task_id" text, "run_id" text, "tenant" text, "generation" bigint, "seq" bigint, "attempt" bigint, "start" text, "end" text, "at" timestamptz, "by" text, "because" text)) WITH ORDINALITY AS u ), ended AS ( INSERT INTO attempts ("id", "task_id", "run_id", "shard", "tenant", "generation", "number", "worker_id", "lease_id", "assigned_at", "started_at", "ended_at", "end", "error") SELECT * FROM json_to_recordset('[]'::json::json) AS ("id" text, "task_id" text, "run_id" text, "shard" text, "tenant" text, "generation" bigint, "number" bigint, "worker_id" text, "lease_id" text, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "end" text, "error" text) ) SELECT (SELECT count(*) FROM changed_runs), (SELECT count(*) FROM changed_tasks);
-- 1 rows
COMMIT;
-- done
BEGIN;
-- done
UPDATE shards SET lease_until = clock_timestamp() + ttl, batch_no = '2'::int4 WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8 AND batch_no = '2'::int4 - 1 RETURNING clock_timestamp();
-- 1 rows
WITH changed_runs AS ( UPDATE runs SET "state" = u."state", "generation" = u."generation", "adopted_at" = u."adopted_at", "ended_at" = u."ended_at", "paused" = u."paused", "held" = u."held", "cancelled_by" = u."cancelled_by", "failed_task" = u."failed_task", "timed_out" = u."timed_out", "because" = u."because" FROM ROWS FROM (json_to_recordset('[]'::json::json) AS ("id" text, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text)) AS u WHERE runs.id = u.id AND runs.shard = 'main'::text RETURNING 1), new_tasks AS ( INSERT INTO tasks ("id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error") SELECT * FROM json_to_recordset('[]'::json::json) AS ("id" text, "run_id" text, "shard" text, "tenant" text, "name" text, "position" bigint, "priority" bigint, "state" text, "generation" bigint, "seq" bigint, "attempt" bigint, "tries" bigint, "losses" bigint, "attempt_id" text, "lease_id" text, "worker_id" text, "cause" text, "because" text, "since" timestamptz, "due_at" timestamptz, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "stop" text, "output" text, "error" text) ), changed_tasks AS ( UPDATE tasks SET "priority" = u."priority", "state" = u."state", "generation" = u."generation", "seq" = u."seq", "attempt" = u."attempt", "tries" = u."tries", "losses" = u."losses", "attempt_id" = u."attempt_id", "lease_id" = u."lease_id", "worker_id" = u."worker_id", "cause" = u."cause", "because" = u."because", "since" = u."since", "due_at" = u."due_at", "assigned_at" = u."assigned_at", "started_at" = u."started_at", "ended_at" = u."ended_at", "stop" = u."stop", "output" = u."output", "error" = u."error" FROM ROWS FROM (json_to_recordset('[{"id":"task_000000000003-0000000000000004.0","run_id":"run_000000000003-0000000000000004","shard":"main","tenant":"acme","name":"step-0","position":0,"priority":1,"state":"RUNNING","generation":1,"seq":2,"attempt":0,"tries":0,"losses":0,"attempt_id":"att_1","lease_id":null,"worker_id":"w1","cause":null,"because":"","since":"2025-03-01T12:00:00.123456Z","due_at":null,"assigned_at":null,"started_at":null,"ended_at":null,"stop":null,"output":null,"error":null}]'::json::json) AS ("id" text, "priority" bigint, "state" text, "generation" bigint, "seq" bigint, "attempt" bigint, "tries" bigint, "losses" bigint, "attempt_id" text, "lease_id" text, "worker_id" text, "cause" text, "because" text, "since" timestamptz, "due_at" timestamptz, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "stop" text, "output" text, "error" text), unnest('{PENDING}'::text[]::text[]), unnest('{1}'::int8[]::bigint[])) AS u (id, priority, state, generation, seq, attempt, tries, losses, attempt_id, lease_id, worker_id, cause, because, since, due_at, assigned_at, started_at, ended_at, stop, output, error, was, was_seq) WHERE tasks.id = u.id AND tasks.state = u.was AND tasks.seq = u.was_seq AND tasks.shard = 'main'::text RETURNING 1), told AS ( INSERT INTO transitions ("task_id", "run_id", "tenant", "generation", "seq", "attempt", "start", "end", "at", "by", "because", shard, batch_no, ordinal) SELECT u."task_id", u."run_id", u."tenant", u."generation", u."seq", u."attempt", u."start", u."end", u."at", u."by", u."because", 'main'::text, '2'::int8, u.ordinality - 1 FROM ROWS FROM (json_to_recordset('[{"task_id":"task_000000000003-0000000000000004.0","run_id":"run_000000000003-0000000000000004","tenant":"acme","generation":1,"seq":2,"attempt":0,"start":null,"end":"RUNNING","at":"2025-03-01T12:00:00.123456Z","by":"shard","because":"it is new"}]'::json::json) AS ("task_id" text, "run_id" text, "tenant" text, "generation" bigint, "seq" bigint, "attempt" bigint, "start" text, "end" text, "at" timestamptz, "by" text, "because" text)) WITH ORDINALITY AS u ), ended AS ( INSERT INTO attempts ("id", "task_id", "run_id", "shard", "tenant", "generation", "number", "worker_id", "lease_id", "assigned_at", "started_at", "ended_at", "end", "error") SELECT * FROM json_to_recordset('[{"id":"att_000000000007-0000000000000008","task_id":"task_000000000003-0000000000000004.0","run_id":"run_000000000003-0000000000000004","shard":"main","tenant":"acme","generation":1,"number":1,"worker_id":"w1","lease_id":"lease_1","assigned_at":"2025-03-01T12:00:00.123456Z","started_at":"2025-03-01T12:00:00.123456Z","ended_at":"2025-03-01T12:00:00.123456Z","end":"succeeded","error":null}]'::json::json) AS ("id" text, "task_id" text, "run_id" text, "shard" text, "tenant" text, "generation" bigint, "number" bigint, "worker_id" text, "lease_id" text, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "end" text, "error" text) ) SELECT (SELECT count(*) FROM changed_runs), (SELECT count(*) FROM changed_tasks);
-- 1 rows
INSERT INTO spreads ("run_id", "parent", "generation", "kind", "shard", "total", "done", "by", "why") SELECT * FROM json_to_recordset('[{"run_id":"run_000000000003-0000000000000004","parent":"","generation":1,"kind":"cancel","shard":"main","total":2,"done":1,"by":"ann","why":"asked to"}]'::json::json) AS ("run_id" text, "parent" text, "generation" bigint, "kind" text, "shard" text, "total" bigint, "done" bigint, "by" text, "why" text) ON CONFLICT (run_id, parent, generation, kind) DO UPDATE SET total = excluded.total, done = excluded.done;
-- 1 changed
INSERT INTO late_results ("attempt_id", "outcome", "output", "error", "at") VALUES ('att_000000000007-0000000000000008'::text, 'failed'::text, NULL::text, 'e'::text, '2025-03-01 12:00:00.123456+00'::timestamptz);
-- 1 changed
INSERT INTO outbox ("id", "key", "kind", "payload", "created_at", due_at) SELECT u."id", u."key", u."kind", u."payload", u."created_at", u.created_at FROM ROWS FROM (json_to_recordset('[{"id":"out_9","key":"key_9","kind":"run.ended","payload":"{}","created_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("id" text, "key" text, "kind" text, "payload" text, "created_at" timestamptz)) WITH ORDINALITY AS u ORDER BY u.ordinality ON CONFLICT (id) DO NOTHING;
-- 1 changed
INSERT INTO rejected_events ("id", "shard", "kind", "subject", "event", "fault", "at") SELECT * FROM json_to_recordset('[{"id":"r1","shard":"main","kind":"k","subject":"task_000000000003-0000000000000004.0","event":"{}","fault":"f","at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("id" text, "shard" text, "kind" text, "subject" text, "event" text, "fault" text, "at" timestamptz) ON CONFLICT (id) DO NOTHING;
-- 1 changed
INSERT INTO workers ("id", "shard", "offer", "labels", "zone", "version", "status", "since", "last_heard_at", "hold", "hold_why") SELECT * FROM json_to_recordset('[{"id":"w1","shard":"main","offer":"{}","labels":"{}","zone":"","version":"1","status":"ready","since":"2025-03-01T12:00:00.123456Z","last_heard_at":"2025-03-01T12:00:00.123456Z","hold":"cordoned","hold_why":"ann: new disk"}]'::json::json) AS ("id" text, "shard" text, "offer" text, "labels" text, "zone" text, "version" text, "status" text, "since" timestamptz, "last_heard_at" timestamptz, "hold" text, "hold_why" text) ON CONFLICT (id) DO UPDATE SET shard = excluded.shard, offer = excluded.offer, labels = excluded.labels, zone = excluded.zone, version = excluded.version, status = excluded.status, since = excluded.since, last_heard_at = excluded.last_heard_at, hold = excluded.hold, hold_why = excluded.hold_why;
-- 1 changed
INSERT INTO checkpoints ("task_id", "run_id", "attempt_id", "document", "saved_at") SELECT * FROM json_to_recordset('[{"task_id":"task_000000000003-0000000000000004.0","run_id":"run_000000000003-0000000000000004","attempt_id":"att_1","document":"{}","saved_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("task_id" text, "run_id" text, "attempt_id" text, "document" text, "saved_at" timestamptz) ON CONFLICT (task_id) DO UPDATE SET run_id = excluded.run_id, attempt_id = excluded.attempt_id, document = excluded.document, saved_at = excluded.saved_at;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
UPDATE shards SET lease_until = clock_timestamp() + ttl, batch_no = '3'::int4 WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8 AND batch_no = '3'::int4 - 1 RETURNING clock_timestamp();
-- 1 rows
DELETE FROM spreads USING ROWS FROM (json_to_recordset('[{"run_id":"run_000000000003-0000000000000004","parent":"","generation":1,"kind":"cancel","shard":"main","total":2,"done":2,"by":"ann","why":"asked to"}]'::json::json) AS ("run_id" text, "parent" text, "generation" bigint, "kind" text)) AS u WHERE spreads.run_id = u.run_id AND spreads.parent = u.parent AND spreads.generation = u.generation AND spreads.kind = u.kind;
-- 1 changed
INSERT INTO workers ("id", "shard", "offer", "labels", "zone", "version", "status", "since", "last_heard_at", "hold", "hold_why") SELECT * FROM json_to_recordset('[{"id":"w1","shard":"main","offer":"{}","labels":"{}","zone":"","version":"1","status":"ready","since":"2025-03-01T12:00:00.123456Z","last_heard_at":"2025-03-01T12:00:00.123456Z","hold":"cordoned","hold_why":"ann: new disk"}]'::json::json) AS ("id" text, "shard" text, "offer" text, "labels" text, "zone" text, "version" text, "status" text, "since" timestamptz, "last_heard_at" timestamptz, "hold" text, "hold_why" text) ON CONFLICT (id) DO UPDATE SET shard = excluded.shard, offer = excluded.offer, labels = excluded.labels, zone = excluded.zone, version = excluded.version, status = excluded.status, since = excluded.since, last_heard_at = excluded.last_heard_at, hold = excluded.hold, hold_why = excluded.hold_why;
-- 1 changed
COMMIT;
-- done
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
-- done
SELECT "id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because" FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT') ORDER BY id;
-- 1 rows
SELECT found."id", found."run_id", found."shard", found."tenant", found."name", found."position", found."priority", found."state", found."generation", found."seq", found."attempt", found."tries", found."losses", found."attempt_id", found."lease_id", found."worker_id", found."cause", found."because", found."since", found."due_at", found."assigned_at", found."started_at", found."ended_at", found."stop", found."output", found."error" FROM (SELECT id FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) AS active CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.id > 'task_' || substr(active.id, 5) || '.' AND tasks.id < 'task_' || substr(active.id, 5) || '/' AND tasks.run_id = active.id OFFSET 0) AS found ORDER BY found.run_id, found.position;
-- 1 rows
SELECT "id", "tenant", "name", "version", "definition" FROM jobs WHERE id IN (SELECT job_id FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY id;
-- 1 rows
SELECT "run_id", "parent", "generation", "kind", "shard", "total", "done", "by", "why" FROM spreads WHERE run_id IN (SELECT id FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY run_id, parent, generation, kind;
-- 0 rows
SELECT "task_id", "run_id", "attempt_id", "document", "saved_at" FROM checkpoints WHERE run_id IN (SELECT id FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY task_id;
-- 1 rows
SELECT "id", "shard", "offer", "labels", "zone", "version", "status", "since", "last_heard_at", "hold", "hold_why" FROM workers WHERE shard = 'main'::text AND hold <> '' ORDER BY id;
-- 1 rows
COMMIT;
-- done
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", coalesce(jobs.name, ''), coalesce(jobs.version, 0) FROM runs LEFT JOIN jobs ON jobs.id = runs.job_id WHERE true ORDER BY runs.id DESC LIMIT '10'::int8;
-- 2 rows
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", coalesce(jobs.name, ''), coalesce(jobs.version, 0) FROM (SELECT * FROM runs WHERE shard > '' AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT') LIMIT 9223372036854775807) AS runs LEFT JOIN jobs ON jobs.id = runs.job_id WHERE runs.tenant = 'acme'::text AND runs.tenant || '/' || runs.id > 'acme/'::text AND runs.tenant || '/' || runs.id < 'acme0'::text AND jobs.name = 'report'::text AND runs.state IN ('RUNNING'::text) ORDER BY runs.tenant || '/' || runs.id DESC LIMIT '10'::int8;
-- 1 rows
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", coalesce(jobs.name, ''), coalesce(jobs.version, 0) FROM runs AS runs LEFT JOIN jobs ON jobs.id = runs.job_id WHERE runs.id = 'run_000000000003-0000000000000004'::text;
-- 1 rows
SELECT tasks."id", tasks."run_id", tasks."shard", tasks."tenant", tasks."name", tasks."position", tasks."priority", tasks."state", tasks."generation", tasks."seq", tasks."attempt", tasks."tries", tasks."losses", tasks."attempt_id", tasks."lease_id", tasks."worker_id", tasks."cause", tasks."because", tasks."since", tasks."due_at", tasks."assigned_at", tasks."started_at", tasks."ended_at", tasks."stop", tasks."output", tasks."error" FROM tasks WHERE tasks.id > ''::text AND tasks.id > 'task_' || substr('run_000000000003-0000000000000004'::text, 5) || '.' AND tasks.id < 'task_' || substr('run_000000000003-0000000000000004'::text, 5) || '/' AND tasks.run_id = 'run_000000000003-0000000000000004'::text ORDER BY tasks.id LIMIT '10'::int8;
-- 1 rows
SELECT tasks."id", tasks."run_id", tasks."shard", tasks."tenant", tasks."name", tasks."position", tasks."priority", tasks."state", tasks."generation", tasks."seq", tasks."attempt", tasks."tries", tasks."losses", tasks."attempt_id", tasks."lease_id", tasks."worker_id", tasks."cause", tasks."because", tasks."since", tasks."due_at", tasks."assigned_at", tasks."started_at", tasks."ended_at", tasks."stop", tasks."output", tasks."error" FROM (SELECT * FROM tasks WHERE attempt_id > '' LIMIT 9223372036854775807) AS tasks WHERE tasks.id > ''::text AND tasks.tenant = 'acme'::text AND tasks.state IN ('RUNNING'::text) ORDER BY tasks.id LIMIT '10'::int8;
-- 1 rows
SELECT tasks."id", tasks."run_id", tasks."shard", tasks."tenant", tasks."name", tasks."position", tasks."priority", tasks."state", tasks."generation", tasks."seq", tasks."attempt", tasks."tries", tasks."losses", tasks."attempt_id", tasks."lease_id", tasks."worker_id", tasks."cause", tasks."because", tasks."since", tasks."due_at", tasks."assigned_at", tasks."started_at", tasks."ended_at", tasks."stop", tasks."output", tasks."error" FROM ( SELECT 'task_' || substr(id, 5) || '.' AS first, 'task_' || substr(id, 5) || '/' AS last FROM runs WHERE shard > '' AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT') AND 'task_' || substr(id, 5) || '/' > ''::text ORDER BY first LIMIT 9223372036854775807) AS active CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.id > active.first AND tasks.id < active.last OFFSET 0) AS tasks WHERE tasks.id > ''::text AND tasks.id > active.first AND tasks.id < active.last AND tasks.state IN ('QUEUED'::text) ORDER BY active.first, tasks.id LIMIT '10'::int8;
-- 0 rows
SELECT "id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error" FROM tasks WHERE id = 'task_000000000003-0000000000000004.0'::text;
-- 1 rows
SELECT "id", "task_id", "run_id", "shard", "tenant", "generation", "number", "worker_id", "lease_id", "assigned_at", "started_at", "ended_at", "end", "error" FROM attempts WHERE task_id COLLATE "C" = 'task_000000000003-0000000000000004.0'::text ORDER BY ended_at DESC, id DESC LIMIT 1000;
-- 1 rows
SELECT "task_id", "run_id", "tenant", "generation", "seq", "attempt", "start", "end", "at", "by", "because" FROM transitions WHERE task_id COLLATE "C" = 'task_000000000003-0000000000000004.0'::text ORDER BY seq DESC LIMIT 1000;
-- 2 rows
SELECT shard, batch_no, ordinal, "task_id", "run_id", "tenant", "generation", "seq", "attempt", "start", "end", "at", "by", "because" FROM transitions WHERE shard = 'main'::text AND (batch_no, ordinal) > ('0'::int8, '0'::int8) ORDER BY batch_no, ordinal LIMIT '10'::int8;
-- 2 rows
SELECT pg_notify('mainspring_work'::text, 'a6dfd475b29adc44 main'::text);
-- 1 changed
SELECT j."id", j."tenant", j."name", j."version", j."definition" FROM jobs j WHERE (j.tenant, j.name) > (''::text, ''::text) AND j.tenant = 'acme'::text AND version = (SELECT max(l.version) FROM jobs l WHERE l.tenant = j.tenant AND l.name = j.name) ORDER BY j.tenant, j.name LIMIT '10'::int8;
-- 1 rows
SELECT "id", "tenant", "name", "version", "definition" FROM jobs WHERE tenant = 'acme'::text AND name = 'report'::text ORDER BY version DESC LIMIT 1;
-- 1 rows
SELECT "id", "shard", "offer", "labels", "zone", "version", "status", "since", "last_heard_at", "hold", "hold_why" FROM workers WHERE id > ''::text AND shard = 'main'::text ORDER BY id LIMIT '10'::int8;
-- 1 rows
SELECT "task_id", "run_id", "attempt_id", "document", "saved_at" FROM checkpoints WHERE task_id = 'task_000000000003-0000000000000004.0'::text;
-- 1 rows
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
-- done
SELECT "id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because" FROM runs WHERE id = 'run_000000000003-0000000000000004'::text;
-- 1 rows
SELECT "id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error" FROM tasks WHERE tasks.id > 'task_' || substr('run_000000000003-0000000000000004'::text, 5) || '.' AND tasks.id < 'task_' || substr('run_000000000003-0000000000000004'::text, 5) || '/' AND tasks.run_id = 'run_000000000003-0000000000000004'::text ORDER BY position;
-- 1 rows
SELECT "id", "tenant", "name", "version", "definition" FROM jobs WHERE id = (SELECT job_id FROM runs WHERE id = 'run_000000000003-0000000000000004'::text);
-- 1 rows
SELECT "run_id", "parent", "generation", "kind", "shard", "total", "done", "by", "why" FROM spreads WHERE run_id = 'run_000000000003-0000000000000004'::text ORDER BY parent, generation, kind;
-- 0 rows
SELECT "task_id", "run_id", "attempt_id", "document", "saved_at" FROM checkpoints WHERE run_id = 'run_000000000003-0000000000000004'::text ORDER BY task_id;
-- 1 rows
COMMIT;
-- done
SELECT "id", "tenant", "name", "version", "definition" FROM jobs WHERE id = ANY('{job_2}'::text[]::text[]) ORDER BY id;
-- 1 rows
WITH ended AS MATERIALIZED (SELECT id, task_id, worker_id, "end" FROM attempts WHERE id = ANY('{att_1}'::text[]::text[])) SELECT id, task_id, worker_id, "end" FROM ended UNION ALL SELECT attempt_id, id, worker_id, NULL FROM tasks WHERE attempt_id = ANY('{att_1}'::text[]::text[]) AND attempt_id NOT IN (SELECT id FROM ended);
-- 1 rows
WITH due AS ( SELECT seq FROM outbox o WHERE delivered_at IS NULL AND due_at <= statement_timestamp() AND (held_until IS NULL OR held_until <= statement_timestamp() OR holder = 'host-1'::text) AND NOT EXISTS (SELECT 1 FROM outbox p WHERE p.key = o.key AND p.delivered_at IS NULL AND p.seq < o.seq) ORDER BY due_at, seq LIMIT '1'::int8 FOR UPDATE SKIP LOCKED ), taken AS ( UPDATE outbox SET holder = 'host-1'::text, held_until = clock_timestamp() + '01:00:00'::interval FROM due WHERE outbox.seq = due.seq RETURNING outbox.* ) SELECT "id", "key", "kind", "payload", "created_at" FROM taken ORDER BY due_at, seq;
-- 1 rows
WITH late AS ( UPDATE outbox SET due_at = clock_timestamp() + '-1 days +23:00:00'::interval, holder = NULL, held_until = NULL, tries = tries + 1, fault = 'no answer'::text WHERE id = 'out_9'::text AND delivered_at IS NULL RETURNING seq, key, due_at ) UPDATE outbox SET due_at = late.due_at FROM late WHERE outbox.key = late.key AND outbox.seq <> late.seq AND outbox.delivered_at IS NULL AND outbox.due_at < late.due_at;
-- 0 changed
UPDATE outbox SET delivered_at = clock_timestamp(), holder = NULL WHERE id = ANY('{out_9}'::text[]::text[]) AND delivered_at IS NULL;
-- 1 changed
BEGIN;
-- done
UPDATE shards SET lease_until = clock_timestamp() + ttl, batch_no = '4'::int4 WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8 AND batch_no = '4'::int4 - 1 RETURNING clock_timestamp();
-- 1 rows
WITH changed_runs AS ( UPDATE runs SET "state" = u."state", "generation" = u."generation", "adopted_at" = u."adopted_at", "ended_at" = u."ended_at", "paused" = u."paused", "held" = u."held", "cancelled_by" = u."cancelled_by", "failed_task" = u."failed_task", "timed_out" = u."timed_out", "because" = u."because" FROM ROWS FROM (json_to_recordset('[{"id":"run_000000000003-0000000000000004","state":"SUCCEEDED","generation":1,"adopted_at":"2025-03-01T12:00:00.123456Z","ended_at":"2025-03-01T12:00:00.123456Z","paused":false,"held":null,"cancelled_by":null,"failed_task":null,"timed_out":false,"because":""}]'::json::json) AS ("id" text, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text)) AS u WHERE runs.id = u.id AND runs.shard = 'main'::text RETURNING 1), new_tasks AS ( INSERT INTO tasks ("id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error") SELECT * FROM json_to_recordset('[]'::json::json) AS ("id" text, "run_id" text, "shard" text, "tenant" text, "name" text, "position" bigint, "priority" bigint, "state" text, "generation" bigint, "seq" bigint, "attempt" bigint, "tries" bigint, "losses" bigint, "attempt_id" text, "lease_id" text, "worker_id" text, "cause" text, "because" text, "since" timestamptz, "due_at" timestamptz, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "stop" text, "output" text, "error" text) ), changed_tasks AS ( UPDATE tasks SET "priority" = u."priority", "state" = u."state", "generation" = u."generation", "seq" = u."seq", "attempt" = u."attempt", "tries" = u."tries", "losses" = u."losses", "attempt_id" = u."attempt_id", "lease_id" = u."lease_id", "worker_id" = u."worker_id", "cause" = u."cause", "because" = u."because", "since" = u."since", "due_at" = u."due_at", "assigned_at" = u."assigned_at", "started_at" = u."started_at", "ended_at" = u."ended_at", "stop" = u."stop", "output" = u."output", "error" = u."error" FROM ROWS FROM (json_to_recordset('[]'::json::json) AS ("id" text, "priority" bigint, "state" text, "generation" bigint, "seq" bigint, "attempt" bigint, "tries" bigint, "losses" bigint, "attempt_id" text, "lease_id" text, "worker_id" text, "cause" text, "because" text, "since" timestamptz, "due_at" timestamptz, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "stop" text, "output" text, "error" text), unnest('{}'::text[]::text[]), unnest('{}'::int8[]::bigint[])) AS u (id, priority, state, generation, seq, attempt, tries, losses, attempt_id, lease_id, worker_id, cause, because, since, due_at, assigned_at, started_at, ended_at, stop, output, error, was, was_seq) WHERE tasks.id = u.id AND tasks.state = u.was AND tasks.seq = u.was_seq AND tasks.shard = 'main'::text RETURNING 1), told AS ( INSERT INTO transitions ("task_id", "run_id", "tenant", "generation", "seq", "attempt", "start", "end", "at", "by", "because", shard, batch_no, ordinal) SELECT u."task_id", u."run_id", u."tenant", u."generation", u."seq", u."attempt", u."start", u."end", u."at", u."by", u."because", 'main'::text, '4'::int8, u.ordinality - 1 FROM ROWS FROM (json_to_recordset('[]'::json::json) AS ("task_id" text, "run_id" text, "tenant" text, "generation" bigint, "seq" bigint, "attempt" bigint, "start" text, "end" text, "at" timestamptz, "by" text, "because" text)) WITH ORDINALITY AS u ), ended AS ( INSERT INTO attempts ("id", "task_id", "run_id", "shard", "tenant", "generation", "number", "worker_id", "lease_id", "assigned_at", "started_at", "ended_at", "end", "error") SELECT * FROM json_to_recordset('[]'::json::json) AS ("id" text, "task_id" text, "run_id" text, "shard" text, "tenant" text, "generation" bigint, "number" bigint, "worker_id" text, "lease_id" text, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "end" text, "error" text) ) SELECT (SELECT count(*) FROM changed_runs), (SELECT count(*) FROM changed_tasks);
-- 1 rows
COMMIT;
-- done
SELECT id FROM runs WHERE shard = 'main'::text AND ended_at <= statement_timestamp() - '1 day'::interval::interval AND state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT') ORDER BY ended_at, id LIMIT '10'::int8;
-- 1 rows
BEGIN;
-- done
UPDATE shards SET lease_until = clock_timestamp() + ttl, batch_no = '5'::int4 WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8 AND batch_no = '5'::int4 - 1 RETURNING clock_timestamp();
-- 1 rows
SELECT count(*) FROM runs WHERE id = ANY('{run_000000000003-0000000000000004}'::text[]::text[]) AND (shard <> 'main'::text OR state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT') OR ended_at IS NULL);
-- 1 rows
WITH chosen AS ( SELECT tasks.id, runs.ended_at FROM runs JOIN tasks ON tasks.id > 'task_' || substr(runs.id, 5) || '.' AND tasks.id < 'task_' || substr(runs.id, 5) || '/' AND tasks.run_id = runs.id WHERE runs.id = ANY('{run_000000000003-0000000000000004}'::text[]::text[]) LIMIT 5000 ), gone AS ( DELETE FROM tasks USING chosen WHERE tasks.id = chosen.id RETURNING tasks."id", tasks."run_id", tasks."shard", tasks."tenant", tasks."name", tasks."position", tasks."priority", tasks."state", tasks."generation", tasks."seq", tasks."attempt", tasks."tries", tasks."losses", tasks."attempt_id", tasks."lease_id", tasks."worker_id", tasks."cause", tasks."because", tasks."since", tasks."due_at", tasks."assigned_at", tasks."started_at", tasks."ended_at", tasks."stop", tasks."output", tasks."error", chosen.ended_at ) INSERT INTO tasks_history ("id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error", run_ended_at) SELECT * FROM gone;
-- 1 changed
WITH gone AS ( DELETE FROM runs WHERE id = ANY('{run_000000000003-0000000000000004}'::text[]::text[]) AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id > 'task_' || substr(runs.id, 5) || '.' AND tasks.id < 'task_' || substr(runs.id, 5) || '/' AND tasks.run_id = runs.id) RETURNING "id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because" ) INSERT INTO runs_history ("id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because") SELECT * FROM gone;
-- 1 changed
DELETE FROM checkpoints WHERE run_id = ANY('{run_000000000003-0000000000000004}'::text[]::text[]);
-- 1 changed
COMMIT;
-- done
SELECT "id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because" FROM runs WHERE id = 'run_000000000003-0000000000000004'::text;
-- 0 rows
SELECT "id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because" FROM runs_history WHERE id = 'run_000000000003-0000000000000004'::text;
-- 1 rows
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
-- done
SELECT "id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error" FROM tasks_history WHERE run_id = 'run_000000000003-0000000000000004'::text ORDER BY position;
-- 1 rows
SELECT "id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error" FROM tasks WHERE tasks.id > 'task_' || substr('run_000000000003-0000000000000004'::text, 5) || '.' AND tasks.id < 'task_' || substr('run_000000000003-0000000000000004'::text, 5) || '/' AND tasks.run_id = 'run_000000000003-0000000000000004'::text ORDER BY position;
-- 0 rows
COMMIT;
-- done
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", coalesce(jobs.name, ''), coalesce(jobs.version, 0) FROM runs AS runs LEFT JOIN jobs ON jobs.id = runs.job_id WHERE runs.id = 'run_000000000003-0000000000000004'::text;
-- 0 rows
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", coalesce(jobs.name, ''), coalesce(jobs.version, 0) FROM runs_history AS runs LEFT JOIN jobs ON jobs.id = runs.job_id WHERE runs.id = 'run_000000000003-0000000000000004'::text;
-- 1 rows
SELECT "id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error" FROM tasks WHERE id = 'task_000000000003-0000000000000004.0'::text;
-- 0 rows
SELECT "id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error" FROM tasks_history WHERE run_id = 'run_000000000003-0000000000000004'::text AND id = 'task_000000000003-0000000000000004.0'::text;
-- 1 rows
BEGIN;
-- done
INSERT INTO idempotency (tenant, key, body_hash, run_ids, at) SELECT tenant, key, body_hash, ARRAY[run_id], clock_timestamp() FROM unnest('{acme}'::text[]::text[], '{other}'::text[]::text[], '{h}'::text[]::text[], '{run_00000000000a-000000000000000b}'::text[]::text[]) AS given (tenant, key, body_hash, run_id) ON CONFLICT (tenant, key) DO NOTHING RETURNING tenant, key;
-- 1 rows
WITH missing AS MATERIALIZED ( SELECT wanted.id FROM unnest('{job_0}'::text[]::text[]) AS wanted (id) WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = wanted.id) ), made AS ( INSERT INTO runs ("id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because") SELECT * FROM json_to_recordset(E'[{"id":"run_00000000000a-000000000000000b","shard":"main","tenant":"acme","job_id":"job_0","priority":1,"params":"{\\"day\\":\\"2026-11-15\\"}","task_count":1,"submitted_by":"ann","linked_run":null,"watched":false,"created_at":"2025-03-01T12:00:00.123456Z","start_at":"2025-03-01T12:00:00.123456Z","state":"PENDING","generation":1,"adopted_at":null,"ended_at":null,"paused":false,"held":null,"cancelled_by":null,"failed_task":null,"timed_out":false,"because":""}]'::json::json) AS ("id" text, "shard" text, "tenant" text, "job_id" text, "priority" bigint, "params" text, "task_count" bigint, "submitted_by" text, "linked_run" text, "watched" boolean, "created_at" timestamptz, "start_at" timestamptz, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text) WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ) SELECT id FROM missing;
-- 0 rows
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO idempotency (tenant, key, body_hash, run_ids, at) SELECT tenant, key, body_hash, ARRAY[run_id], clock_timestamp() FROM unnest('{acme}'::text[]::text[], '{other}'::text[]::text[], '{h}'::text[]::text[], '{run_00000000000c-000000000000000d}'::text[]::text[]) AS given (tenant, key, body_hash, run_id) ON CONFLICT (tenant, key) DO NOTHING RETURNING tenant, key;
-- 0 rows
SELECT used.tenant, used.key, used.body_hash, used.run_ids FROM unnest('{acme}'::text[]::text[], '{other}'::text[]::text[]) AS given (tenant, key) JOIN idempotency AS used ON used.tenant = given.tenant AND used.key = given.key;
-- 1 rows
COMMIT;
-- done
WITH free AS ( SELECT id FROM workers WHERE id = ANY('{w1}'::text[]::text[]) AND shard = 'main'::text FOR UPDATE SKIP LOCKED ), heard AS ( UPDATE workers SET last_heard_at = statement_timestamp() FROM free WHERE workers.id = free.id ) SELECT statement_timestamp();
-- 1 rows
SELECT "id", "shard", "offer", "labels", "zone", "version", "status", "since", "last_heard_at", "hold", "hold_why" FROM workers WHERE shard = 'main'::text AND status NOT IN ('gone', 'lost') AND last_heard_at <= statement_timestamp() - '1 day'::interval::interval ORDER BY last_heard_at, id LIMIT '10'::int8;
-- 0 rows
INSERT INTO servers (name, address, version, started_at, heard_at) VALUES ('a'::text, 'http://a'::text, '1'::text, '2025-03-01 12:00:00.123456+00'::timestamptz, statement_timestamp()) ON CONFLICT (name) DO UPDATE SET address = excluded.address, version = excluded.version, started_at = excluded.started_at, heard_at = excluded.heard_at;
-- 1 changed
SELECT "name", "address", "version", "started_at", "heard_at" FROM servers WHERE heard_at >= statement_timestamp() - '01:00:00'::interval::interval ORDER BY name LIMIT 1000;
-- 1 rows
DELETE FROM servers WHERE name = 'a'::text;
-- 1 changed
BEGIN;
-- done
INSERT INTO settings (name, value) VALUES ('jitter'::text, '1'::text) ON CONFLICT DO NOTHING;
-- 1 changed
SELECT value FROM settings WHERE name = 'jitter'::text;
-- 1 rows
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO tokens ("id", "hash", "tenant", "roles", "name", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at") VALUES ('tok14'::text, 'ab12'::text, 'acme'::text, '["submitter","viewer"]'::text, 'nightly'::text, 'ann'::text, '2025-03-01 12:00:00.123456+00'::timestamptz, '2025-03-02 12:00:00.123456+00'::timestamptz, NULL::timestamptz, NULL::timestamptz) ON CONFLICT (id) DO NOTHING RETURNING id;
-- 1 rows
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO tokens ("id", "hash", "tenant", "roles", "name", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at") VALUES ('tok14'::text, 'ab12'::text, 'acme'::text, '["submitter","viewer"]'::text, 'nightly'::text, 'ann'::text, '2025-03-01 12:00:00.123456+00'::timestamptz, '2025-03-02 12:00:00.123456+00'::timestamptz, NULL::timestamptz, NULL::timestamptz) ON CONFLICT (id) DO NOTHING RETURNING id;
-- 0 rows
SELECT "id", "hash", "tenant", "roles", "name", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at" FROM tokens WHERE id = 'tok14'::text;
-- 1 rows
COMMIT;
-- done
SELECT "id", "hash", "tenant", "roles", "name", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at" FROM tokens WHERE id = 'tok14'::text;
-- 1 rows
UPDATE tokens SET last_used_at = statement_timestamp() FROM (SELECT id FROM tokens WHERE id = ANY('{tok14}'::text[]::text[]) FOR UPDATE SKIP LOCKED) AS free WHERE tokens.id = free.id;
-- 1 changed
SELECT "id", "hash", "tenant", "roles", "name", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at" FROM tokens WHERE tenant = 'acme'::text ORDER BY created_at, id LIMIT 1000;
-- 1 rows
UPDATE tokens SET revoked_at = statement_timestamp() WHERE id = 'tok14'::text AND revoked_at IS NULL RETURNING id;
-- 1 rows
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'transitions'::text::text::regclass ORDER BY c.relname;
-- 2 rows
DELETE FROM transitions_default WHERE ctid = ANY(ARRAY( SELECT ctid FROM transitions_default x WHERE x.at < '2026-10-17 03:25:14.580751+00'::timestamptz AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = x.run_id AND r.state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY x.at LIMIT '1000'::int8));
-- 2 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'attempts'::text::text::regclass ORDER BY c.relname;
-- 2 rows
DELETE FROM attempts_default WHERE ctid = ANY(ARRAY( SELECT ctid FROM attempts_default x WHERE x.ended_at < '2026-10-17 03:25:14.589135+00'::timestamptz AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = x.run_id AND r.state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY x.ended_at LIMIT '1000'::int8));
-- 1 changed
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'late_results'::text::text::regclass ORDER BY c.relname;
-- 2 rows
DELETE FROM late_results_default WHERE ctid = ANY(ARRAY( SELECT ctid FROM late_results_default x WHERE x.at < '2026-10-17 03:25:14.589135+00'::timestamptz AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.id = x.attempt_id) ORDER BY x.at LIMIT '999'::int8));
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'tasks_history'::text::text::regclass ORDER BY c.relname;
-- 2 rows
DELETE FROM tasks_history_default WHERE ctid = ANY(ARRAY( SELECT ctid FROM tasks_history_default x WHERE x.run_ended_at < '2026-10-17 03:25:14.611651+00'::timestamptz ORDER BY x.run_ended_at LIMIT '1000'::int8));
-- 1 changed
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'runs_history'::text::text::regclass ORDER BY c.relname;
-- 2 rows
DELETE FROM runs_history_default WHERE ctid = ANY(ARRAY( SELECT ctid FROM runs_history_default x WHERE x.ended_at < '2026-10-17 03:25:14.611651+00'::timestamptz ORDER BY x.ended_at LIMIT '999'::int8));
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
DELETE FROM idempotency WHERE ctid = ANY(ARRAY( SELECT ctid FROM idempotency x WHERE x.at < '2026-10-17 03:25:14.620686+00'::timestamptz AND NOT EXISTS ( SELECT 1 FROM (SELECT unnest(x.run_ids) AS id) AS given JOIN runs r ON r.id = given.id WHERE r.state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY x.at LIMIT '1000'::int8));
-- 0 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
DELETE FROM outbox WHERE ctid = ANY(ARRAY( SELECT ctid FROM outbox x WHERE x.delivered_at < '2026-10-17 03:25:14.630588+00'::timestamptz ORDER BY x.delivered_at LIMIT '1000'::int8));
-- 0 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
DELETE FROM rejected_events WHERE ctid = ANY(ARRAY( SELECT ctid FROM rejected_events x WHERE x.at < '2026-10-17 03:25:14.6361+00'::timestamptz AND NOT (EXISTS (SELECT 1 FROM runs r WHERE r.id = x.subject AND r.state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) OR EXISTS ( SELECT 1 FROM tasks t JOIN runs r ON r.id = t.run_id WHERE t.id = x.subject AND r.state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT'))) ORDER BY x.at LIMIT '1000'::int8));
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
DELETE FROM workers WHERE ctid = ANY(ARRAY( SELECT ctid FROM workers x WHERE x.since < '2026-10-17 03:25:14.64409+00'::timestamptz AND NOT x.status NOT IN ('gone', 'lost') ORDER BY x.since LIMIT '1000'::int8));
-- 0 changed
COMMIT;
-- done
UPDATE shards SET leader = '', nonce = 0, lease_until = clock_timestamp() WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8;
-- 1 changed
SELECT pg_notify('mainspring_work'::text, 'a6dfd475b29adc44 main'::text);
-- 1 changed
