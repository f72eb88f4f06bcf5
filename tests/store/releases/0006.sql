-- A server of schema 0006 says to PostgreSQL; tidy: one concept because it is one session.
INSERT INTO shards (id, leader, epoch, lease_until, batch_no, nonce, ttl) VALUES ('main'::text, '', 0, 'epoch', 0, 0, '0') ON CONFLICT (id) DO NOTHING;
-- 1 changed
BEGIN;
-- done
SELECT pg_advisory_xact_lock(hashtextextended('builders'::text || ' ' || 'any'::text, 0));
-- 1 changed
SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE tenant = 'builders'::text AND name = 'any'::text ORDER BY version DESC LIMIT 1;
-- 0 rows
SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE id = 'job_0'::text;
-- 0 rows
INSERT INTO jobs ("id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels") VALUES ('job_0'::text, 'builders'::text, 'any'::text, '1'::int8, '{}'::text, clock_timestamp(), ''::text, NULL, '{}'::text) RETURNING "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels";
-- 1 rows
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
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'decisions'::text::text::regclass ORDER BY c.relname;
-- 1 rows
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'attempts'::text::text::regclass ORDER BY c.relname;
-- 1 rows
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'late_results'::text::text::regclass ORDER BY c.relname;
-- 1 rows
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'tasks_history'::text::text::regclass ORDER BY c.relname;
-- 1 rows
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'runs_history'::text::text::regclass ORDER BY c.relname;
-- 1 rows
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'audit'::text::text::regclass ORDER BY c.relname;
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
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'decisions'::text::text::regclass ORDER BY c.relname;
-- 1 rows
LOCK TABLE decisions_default IN ACCESS EXCLUSIVE MODE;
-- done
SELECT count(*) FROM (SELECT 1 FROM decisions_default WHERE at >= '2026-11-16T00:00:00+00:00' AND at < '2026-11-17T00:00:00+00:00' LIMIT '100001'::int8) AS rows;
-- 1 rows
CREATE TABLE decisions_20261116 (LIKE decisions INCLUDING ALL); WITH astray AS (DELETE FROM decisions_default WHERE at >= '2026-11-16T00:00:00+00:00' AND at < '2026-11-17T00:00:00+00:00' RETURNING *) INSERT INTO decisions_20261116 SELECT * FROM astray; ALTER TABLE decisions ATTACH PARTITION decisions_20261116 FOR VALUES FROM ('2026-11-16T00:00:00+00:00') TO ('2026-11-17T00:00:00+00:00');
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
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'audit'::text::text::regclass ORDER BY c.relname;
-- 1 rows
LOCK TABLE audit_default IN ACCESS EXCLUSIVE MODE;
-- done
SELECT count(*) FROM (SELECT 1 FROM audit_default WHERE at >= '2026-11-16T00:00:00+00:00' AND at < '2026-11-17T00:00:00+00:00' LIMIT '100001'::int8) AS rows;
-- 1 rows
CREATE TABLE audit_20261116 (LIKE audit INCLUDING ALL); WITH astray AS (DELETE FROM audit_default WHERE at >= '2026-11-16T00:00:00+00:00' AND at < '2026-11-17T00:00:00+00:00' RETURNING *) INSERT INTO audit_20261116 SELECT * FROM astray; ALTER TABLE audit ATTACH PARTITION audit_20261116 FOR VALUES FROM ('2026-11-16T00:00:00+00:00') TO ('2026-11-17T00:00:00+00:00');
-- done
COMMIT;
-- done
BEGIN;
-- done
SELECT pg_advisory_xact_lock(hashtextextended('acme'::text || ' ' || 'report'::text, 0));
-- 1 changed
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000003","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE tenant = 'acme'::text AND name = 'report'::text ORDER BY version DESC LIMIT 1;
-- 0 rows
SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE id = 'job_2'::text;
-- 0 rows
INSERT INTO jobs ("id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels") VALUES ('job_2'::text, 'acme'::text, 'report'::text, '1'::int8, '{"a": 1}'::text, clock_timestamp(), ''::text, NULL, '{}'::text) RETURNING "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels";
-- 1 rows
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO idempotency (tenant, key, body_hash, run_ids, at) VALUES ('acme'::text, 'k'::text, 'h'::text, '{run_000000000006-0000000000000007}'::text[], clock_timestamp()) ON CONFLICT (tenant, key) DO NOTHING RETURNING key;
-- 1 rows
WITH missing AS MATERIALIZED ( SELECT wanted.id FROM unnest('{job_2}'::text[]::text[]) AS wanted (id) WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = wanted.id) ), made AS ( INSERT INTO runs ("id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because", "schedule_id", "window_at", "retries", "started_at", "finish_by", "at_risk_at") SELECT * FROM json_to_recordset(E'[{"id":"run_000000000006-0000000000000007","shard":"main","tenant":"acme","job_id":"job_2","priority":1,"params":"{\\"day\\":\\"2026-11-15\\"}","task_count":1,"submitted_by":"ann","linked_run":null,"watched":false,"created_at":"2025-03-01T12:00:00.123456Z","start_at":"2025-03-01T12:00:00.123456Z","state":"PENDING","generation":1,"adopted_at":null,"ended_at":null,"paused":false,"held":null,"cancelled_by":null,"failed_task":null,"timed_out":false,"because":"","schedule_id":null,"window_at":null,"retries":0,"started_at":null,"finish_by":null,"at_risk_at":null}]'::json::json) AS ("id" text, "shard" text, "tenant" text, "job_id" text, "priority" bigint, "params" text, "task_count" bigint, "submitted_by" text, "linked_run" text, "watched" boolean, "created_at" timestamptz, "start_at" timestamptz, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text, "schedule_id" text, "window_at" timestamptz, "retries" bigint, "started_at" timestamptz, "finish_by" timestamptz, "at_risk_at" timestamptz) WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ), told AS ( INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset('[]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ) SELECT id FROM missing;
-- 0 rows
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO idempotency (tenant, key, body_hash, run_ids, at) VALUES ('acme'::text, 'k'::text, 'h'::text, '{run_000000000006-0000000000000007}'::text[], clock_timestamp()) ON CONFLICT (tenant, key) DO NOTHING RETURNING key;
-- 0 rows
SELECT pg_notify('mainspring_work'::text, '2d2e2d0662c4c0e2 main'::text);
-- 1 changed
SELECT used.tenant, used.key, used.body_hash, used.run_ids FROM unnest('{acme}'::text[]::text[], '{k}'::text[]::text[]) AS given (tenant, key) JOIN idempotency AS used ON used.tenant = given.tenant AND used.key = given.key;
-- 1 rows
COMMIT;
-- done
SELECT p.priority, found.tenant FROM unnest('{0,1,2}'::int8[]::bigint[]) AS p (priority) CROSS JOIN LATERAL ( WITH RECURSIVE tenants(tenant) AS ( SELECT (SELECT min(runs.tenant) FROM runs WHERE shard = 'main'::text AND priority = p.priority AND adopted_at IS NULL AND held IS NULL AND runs.tenant > ''::text) UNION ALL SELECT (SELECT min(runs.tenant) FROM runs WHERE shard = 'main'::text AND priority = p.priority AND adopted_at IS NULL AND held IS NULL AND runs.tenant > tenants.tenant) FROM tenants WHERE tenants.tenant IS NOT NULL ) SELECT tenant FROM tenants WHERE tenant IS NOT NULL AND statement_timestamp() >= ( SELECT min(start_at) FROM runs WHERE shard = 'main'::text AND priority = p.priority AND runs.tenant = tenants.tenant AND adopted_at IS NULL AND held IS NULL) LIMIT '10'::int8 ) AS found ORDER BY p.priority, found.tenant COLLATE "C";
-- 1 rows
SELECT found."id", found."shard", found."tenant", found."job_id", found."priority", found."params", found."task_count", found."submitted_by", found."linked_run", found."watched", found."created_at", found."start_at", found."state", found."generation", found."adopted_at", found."ended_at", found."paused", found."held", found."cancelled_by", found."failed_task", found."timed_out", found."because", found."schedule_id", found."window_at", found."retries", found."started_at", found."finish_by", found."at_risk_at" FROM unnest('{1}'::int8[]::bigint[], '{acme}'::text[]::text[], '{10}'::int8[]::bigint[]) WITH ORDINALITY AS want (priority, tenant, runs, place) CROSS JOIN LATERAL ( SELECT * FROM runs WHERE shard = 'main'::text AND priority = want.priority AND tenant = want.tenant AND adopted_at IS NULL AND held IS NULL AND start_at <= statement_timestamp() ORDER BY start_at, id LIMIT want.runs ) AS found ORDER BY want.place, found.start_at, found.id;
-- 1 rows
SELECT min(start_at) FROM runs WHERE shard = 'main'::text AND adopted_at IS NULL AND held IS NULL AND start_at > created_at AND start_at > statement_timestamp();
-- 1 rows
WITH missing AS MATERIALIZED ( SELECT wanted.id FROM unnest('{job_2}'::text[]::text[]) AS wanted (id) WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = wanted.id) ), made AS ( INSERT INTO runs ("id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because", "schedule_id", "window_at", "retries", "started_at", "finish_by", "at_risk_at") SELECT * FROM json_to_recordset(E'[{"id":"run_000000000004-0000000000000005","shard":"main","tenant":"acme","job_id":"job_2","priority":1,"params":"{\\"day\\":\\"2026-11-15\\"}","task_count":1,"submitted_by":"ann","linked_run":null,"watched":false,"created_at":"2025-03-01T12:00:00.123456Z","start_at":"2025-03-01T12:00:00.123456Z","state":"PENDING","generation":1,"adopted_at":null,"ended_at":null,"paused":false,"held":null,"cancelled_by":null,"failed_task":null,"timed_out":false,"because":"","schedule_id":null,"window_at":null,"retries":0,"started_at":null,"finish_by":null,"at_risk_at":null}]'::json::json) AS ("id" text, "shard" text, "tenant" text, "job_id" text, "priority" bigint, "params" text, "task_count" bigint, "submitted_by" text, "linked_run" text, "watched" boolean, "created_at" timestamptz, "start_at" timestamptz, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text, "schedule_id" text, "window_at" timestamptz, "retries" bigint, "started_at" timestamptz, "finish_by" timestamptz, "at_risk_at" timestamptz) WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ), told AS ( INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset('[]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ) SELECT id FROM missing;
-- 0 rows
BEGIN;
-- done
UPDATE shards SET lease_until = clock_timestamp() + ttl, batch_no = '1'::int4 WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8 AND batch_no = '1'::int4 - 1 RETURNING clock_timestamp();
-- 1 rows
WITH changed_runs AS ( UPDATE runs SET "task_count" = u."task_count", "state" = u."state", "generation" = u."generation", "adopted_at" = u."adopted_at", "ended_at" = u."ended_at", "paused" = u."paused", "held" = u."held", "cancelled_by" = u."cancelled_by", "failed_task" = u."failed_task", "timed_out" = u."timed_out", "because" = u."because", "retries" = u."retries", "started_at" = u."started_at", "priority" = u."priority", "finish_by" = u."finish_by", "at_risk_at" = u."at_risk_at" FROM ROWS FROM (json_to_recordset('[{"id":"run_000000000004-0000000000000005","task_count":1,"state":"RUNNING","generation":1,"adopted_at":"2025-03-01T12:00:00.123456Z","ended_at":null,"paused":false,"held":null,"cancelled_by":null,"failed_task":null,"timed_out":false,"because":"","retries":0,"started_at":null,"priority":1,"finish_by":null,"at_risk_at":null}]'::json::json) AS ("id" text, "task_count" bigint, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text, "retries" bigint, "started_at" timestamptz, "priority" bigint, "finish_by" timestamptz, "at_risk_at" timestamptz)) AS u WHERE runs.id = u.id AND runs.shard = 'main'::text RETURNING 1), new_tasks AS ( INSERT INTO tasks ("id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error", "birth", "trail", "ran_on", "reserved") SELECT * FROM json_to_recordset('[{"id":"task_000000000004-0000000000000005.0","run_id":"run_000000000004-0000000000000005","shard":"main","tenant":"acme","name":"step-0","position":0,"priority":1,"state":"PENDING","generation":1,"seq":1,"attempt":0,"tries":0,"losses":0,"attempt_id":null,"lease_id":null,"worker_id":null,"cause":null,"because":"","since":"2025-03-01T12:00:00.123456Z","due_at":null,"assigned_at":null,"started_at":null,"ended_at":null,"stop":null,"output":null,"error":null,"birth":null,"trail":null,"ran_on":null,"reserved":null}]'::json::json) AS ("id" text, "run_id" text, "shard" text, "tenant" text, "name" text, "position" bigint, "priority" bigint, "state" text, "generation" bigint, "seq" bigint, "attempt" bigint, "tries" bigint, "losses" bigint, "attempt_id" text, "lease_id" text, "worker_id" text, "cause" text, "because" text, "since" timestamptz, "due_at" timestamptz, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "stop" text, "output" text, "error" text, "birth" text, "trail" text, "ran_on" text, "reserved" text) ), changed_tasks AS ( UPDATE tasks SET "priority" = u."priority", "state" = u."state", "generation" = u."generation", "seq" = u."seq", "attempt" = u."attempt", "tries" = u."tries", "losses" = u."losses", "attempt_id" = u."attempt_id", "lease_id" = u."lease_id", "worker_id" = u."worker_id", "cause" = u."cause", "because" = u."because", "since" = u."since", "due_at" = u."due_at", "assigned_at" = u."assigned_at", "started_at" = u."started_at", "ended_at" = u."ended_at", "stop" = u."stop", "output" = u."output", "error" = u."error", "birth" = u."birth", "trail" = u."trail", "ran_on" = u."ran_on", "reserved" = u."reserved" FROM ROWS FROM (json_to_recordset('[]'::json::json) AS ("id" text, "priority" bigint, "state" text, "generation" bigint, "seq" bigint, "attempt" bigint, "tries" bigint, "losses" bigint, "attempt_id" text, "lease_id" text, "worker_id" text, "cause" text, "because" text, "since" timestamptz, "due_at" timestamptz, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "stop" text, "output" text, "error" text, "birth" text, "trail" text, "ran_on" text, "reserved" text), unnest('{}'::text[]::text[]), unnest('{}'::int8[]::bigint[])) AS u (id, priority, state, generation, seq, attempt, tries, losses, attempt_id, lease_id, worker_id, cause, because, since, due_at, assigned_at, started_at, ended_at, stop, output, error, birth, trail, ran_on, reserved, was, was_seq) WHERE tasks.id = u.id AND tasks.state = u.was AND tasks.seq = u.was_seq AND tasks.shard = 'main'::text RETURNING 1), told AS ( INSERT INTO transitions ("task_id", "run_id", "tenant", "generation", "seq", "attempt", "start", "end", "at", "by", "because", shard, batch_no, ordinal) SELECT u."task_id", u."run_id", u."tenant", u."generation", u."seq", u."attempt", u."start", u."end", u."at", u."by", u."because", 'main'::text, '1'::int8, u.ordinality - 1 FROM ROWS FROM (json_to_recordset('[{"task_id":"task_000000000004-0000000000000005.0","run_id":"run_000000000004-0000000000000005","tenant":"acme","generation":1,"seq":1,"attempt":0,"start":null,"end":"PENDING","at":"2025-03-01T12:00:00.123456Z","by":"shard","because":"it is new"}]'::json::json) AS ("task_id" text, "run_id" text, "tenant" text, "generation" bigint, "seq" bigint, "attempt" bigint, "start" text, "end" text, "at" timestamptz, "by" text, "because" text)) WITH ORDINALITY AS u ), ended AS ( INSERT INTO attempts ("id", "task_id", "run_id", "shard", "tenant", "generation", "number", "worker_id", "lease_id", "assigned_at", "started_at", "ended_at", "end", "error") SELECT * FROM json_to_recordset('[]'::json::json) AS ("id" text, "task_id" text, "run_id" text, "shard" text, "tenant" text, "generation" bigint, "number" bigint, "worker_id" text, "lease_id" text, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "end" text, "error" text) ) SELECT (SELECT count(*) FROM changed_runs), (SELECT count(*) FROM changed_tasks);
-- 1 rows
COMMIT;
-- done
BEGIN;
-- done
UPDATE shards SET lease_until = clock_timestamp() + ttl, batch_no = '2'::int4 WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8 AND batch_no = '2'::int4 - 1 RETURNING clock_timestamp();
-- 1 rows
WITH changed_runs AS ( UPDATE runs SET "task_count" = u."task_count", "state" = u."state", "generation" = u."generation", "adopted_at" = u."adopted_at", "ended_at" = u."ended_at", "paused" = u."paused", "held" = u."held", "cancelled_by" = u."cancelled_by", "failed_task" = u."failed_task", "timed_out" = u."timed_out", "because" = u."because", "retries" = u."retries", "started_at" = u."started_at", "priority" = u."priority", "finish_by" = u."finish_by", "at_risk_at" = u."at_risk_at" FROM ROWS FROM (json_to_recordset('[]'::json::json) AS ("id" text, "task_count" bigint, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text, "retries" bigint, "started_at" timestamptz, "priority" bigint, "finish_by" timestamptz, "at_risk_at" timestamptz)) AS u WHERE runs.id = u.id AND runs.shard = 'main'::text RETURNING 1), new_tasks AS ( INSERT INTO tasks ("id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error", "birth", "trail", "ran_on", "reserved") SELECT * FROM json_to_recordset('[]'::json::json) AS ("id" text, "run_id" text, "shard" text, "tenant" text, "name" text, "position" bigint, "priority" bigint, "state" text, "generation" bigint, "seq" bigint, "attempt" bigint, "tries" bigint, "losses" bigint, "attempt_id" text, "lease_id" text, "worker_id" text, "cause" text, "because" text, "since" timestamptz, "due_at" timestamptz, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "stop" text, "output" text, "error" text, "birth" text, "trail" text, "ran_on" text, "reserved" text) ), changed_tasks AS ( UPDATE tasks SET "priority" = u."priority", "state" = u."state", "generation" = u."generation", "seq" = u."seq", "attempt" = u."attempt", "tries" = u."tries", "losses" = u."losses", "attempt_id" = u."attempt_id", "lease_id" = u."lease_id", "worker_id" = u."worker_id", "cause" = u."cause", "because" = u."because", "since" = u."since", "due_at" = u."due_at", "assigned_at" = u."assigned_at", "started_at" = u."started_at", "ended_at" = u."ended_at", "stop" = u."stop", "output" = u."output", "error" = u."error", "birth" = u."birth", "trail" = u."trail", "ran_on" = u."ran_on", "reserved" = u."reserved" FROM ROWS FROM (json_to_recordset('[{"id":"task_000000000004-0000000000000005.0","run_id":"run_000000000004-0000000000000005","shard":"main","tenant":"acme","name":"step-0","position":0,"priority":1,"state":"RUNNING","generation":1,"seq":2,"attempt":0,"tries":0,"losses":0,"attempt_id":"att_1","lease_id":null,"worker_id":"w1","cause":null,"because":"","since":"2025-03-01T12:00:00.123456Z","due_at":null,"assigned_at":null,"started_at":null,"ended_at":null,"stop":null,"output":null,"error":null,"birth":null,"trail":null,"ran_on":null,"reserved":null}]'::json::json) AS ("id" text, "priority" bigint, "state" text, "generation" bigint, "seq" bigint, "attempt" bigint, "tries" bigint, "losses" bigint, "attempt_id" text, "lease_id" text, "worker_id" text, "cause" text, "because" text, "since" timestamptz, "due_at" timestamptz, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "stop" text, "output" text, "error" text, "birth" text, "trail" text, "ran_on" text, "reserved" text), unnest('{PENDING}'::text[]::text[]), unnest('{1}'::int8[]::bigint[])) AS u (id, priority, state, generation, seq, attempt, tries, losses, attempt_id, lease_id, worker_id, cause, because, since, due_at, assigned_at, started_at, ended_at, stop, output, error, birth, trail, ran_on, reserved, was, was_seq) WHERE tasks.id = u.id AND tasks.state = u.was AND tasks.seq = u.was_seq AND tasks.shard = 'main'::text RETURNING 1), told AS ( INSERT INTO transitions ("task_id", "run_id", "tenant", "generation", "seq", "attempt", "start", "end", "at", "by", "because", shard, batch_no, ordinal) SELECT u."task_id", u."run_id", u."tenant", u."generation", u."seq", u."attempt", u."start", u."end", u."at", u."by", u."because", 'main'::text, '2'::int8, u.ordinality - 1 FROM ROWS FROM (json_to_recordset('[{"task_id":"task_000000000004-0000000000000005.0","run_id":"run_000000000004-0000000000000005","tenant":"acme","generation":1,"seq":2,"attempt":0,"start":null,"end":"RUNNING","at":"2025-03-01T12:00:00.123456Z","by":"shard","because":"it is new"}]'::json::json) AS ("task_id" text, "run_id" text, "tenant" text, "generation" bigint, "seq" bigint, "attempt" bigint, "start" text, "end" text, "at" timestamptz, "by" text, "because" text)) WITH ORDINALITY AS u ), ended AS ( INSERT INTO attempts ("id", "task_id", "run_id", "shard", "tenant", "generation", "number", "worker_id", "lease_id", "assigned_at", "started_at", "ended_at", "end", "error") SELECT * FROM json_to_recordset('[{"id":"att_000000000008-0000000000000009","task_id":"task_000000000004-0000000000000005.0","run_id":"run_000000000004-0000000000000005","shard":"main","tenant":"acme","generation":1,"number":1,"worker_id":"w1","lease_id":"lease_1","assigned_at":"2025-03-01T12:00:00.123456Z","started_at":"2025-03-01T12:00:00.123456Z","ended_at":"2025-03-01T12:00:00.123456Z","end":"succeeded","error":null}]'::json::json) AS ("id" text, "task_id" text, "run_id" text, "shard" text, "tenant" text, "generation" bigint, "number" bigint, "worker_id" text, "lease_id" text, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "end" text, "error" text) ) SELECT (SELECT count(*) FROM changed_runs), (SELECT count(*) FROM changed_tasks);
-- 1 rows
INSERT INTO spreads ("run_id", "parent", "generation", "kind", "shard", "total", "done", "by", "why") SELECT * FROM json_to_recordset('[{"run_id":"run_000000000004-0000000000000005","parent":"","generation":1,"kind":"cancel","shard":"main","total":2,"done":1,"by":"ann","why":"asked to"}]'::json::json) AS ("run_id" text, "parent" text, "generation" bigint, "kind" text, "shard" text, "total" bigint, "done" bigint, "by" text, "why" text) ON CONFLICT (run_id, parent, generation, kind) DO UPDATE SET total = excluded.total, done = excluded.done;
-- 1 changed
INSERT INTO late_results ("attempt_id", "outcome", "output", "error", "at") VALUES ('att_000000000008-0000000000000009'::text, 'failed'::text, NULL::text, 'e'::text, '2025-03-01 12:00:00.123456+00'::timestamptz);
-- 1 changed
INSERT INTO outbox ("id", "key", "kind", "payload", "created_at", due_at) SELECT u."id", u."key", u."kind", u."payload", u."created_at", u.created_at FROM ROWS FROM (json_to_recordset('[{"id":"out_10","key":"key_10","kind":"run.ended","payload":"{}","created_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("id" text, "key" text, "kind" text, "payload" text, "created_at" timestamptz)) WITH ORDINALITY AS u ORDER BY u.ordinality ON CONFLICT (id) DO NOTHING;
-- 1 changed
INSERT INTO rejected_events ("id", "shard", "kind", "subject", "event", "fault", "at") SELECT * FROM json_to_recordset('[{"id":"r1","shard":"main","kind":"k","subject":"task_000000000004-0000000000000005.0","event":"{}","fault":"f","at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("id" text, "shard" text, "kind" text, "subject" text, "event" text, "fault" text, "at" timestamptz) ON CONFLICT (id) DO NOTHING;
-- 1 changed
INSERT INTO workers ("id", "shard", "offer", "labels", "zone", "version", "status", "since", "last_heard_at", "hold", "hold_why") SELECT * FROM json_to_recordset('[{"id":"w1","shard":"main","offer":"{}","labels":"{}","zone":"","version":"1","status":"ready","since":"2025-03-01T12:00:00.123456Z","last_heard_at":"2025-03-01T12:00:00.123456Z","hold":"cordoned","hold_why":"ann: new disk"}]'::json::json) AS ("id" text, "shard" text, "offer" text, "labels" text, "zone" text, "version" text, "status" text, "since" timestamptz, "last_heard_at" timestamptz, "hold" text, "hold_why" text) ON CONFLICT (id) DO UPDATE SET shard = excluded.shard, offer = excluded.offer, labels = excluded.labels, zone = excluded.zone, version = excluded.version, status = excluded.status, since = excluded.since, last_heard_at = excluded.last_heard_at, hold = excluded.hold, hold_why = excluded.hold_why;
-- 1 changed
INSERT INTO checkpoints ("task_id", "run_id", "attempt_id", "document", "saved_at") SELECT * FROM json_to_recordset('[{"task_id":"task_000000000004-0000000000000005.0","run_id":"run_000000000004-0000000000000005","attempt_id":"att_1","document":"{}","saved_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("task_id" text, "run_id" text, "attempt_id" text, "document" text, "saved_at" timestamptz) ON CONFLICT (task_id) DO UPDATE SET run_id = excluded.run_id, attempt_id = excluded.attempt_id, document = excluded.document, saved_at = excluded.saved_at;
-- 1 changed
INSERT INTO breakers ("shard", "kind", "subject", "because", "opened_at", "probed_at", "closed_at") SELECT * FROM json_to_recordset('[{"shard":"main","kind":"signature","subject":"abc","because":"no route to host","opened_at":"2025-03-01T12:00:00.123456Z","probed_at":null,"closed_at":null}]'::json::json) AS ("shard" text, "kind" text, "subject" text, "because" text, "opened_at" timestamptz, "probed_at" timestamptz, "closed_at" timestamptz) ON CONFLICT (shard, kind, subject) DO UPDATE SET because = excluded.because, opened_at = excluded.opened_at, probed_at = excluded.probed_at, closed_at = excluded.closed_at;
-- 1 changed
INSERT INTO durations ("shard", "tenant", "job", "task", "count", "p50_seconds", "p90_seconds", "p99_seconds", "samples", "updated_at") SELECT * FROM json_to_recordset('[{"shard":"main","tenant":"acme","job":"report","task":"extract","count":3,"p50_seconds":1.5,"p90_seconds":2.0,"p99_seconds":0.001,"samples":[1.5,2.0,0.25],"updated_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("shard" text, "tenant" text, "job" text, "task" text, "count" bigint, "p50_seconds" double precision, "p90_seconds" double precision, "p99_seconds" double precision, "samples" text, "updated_at" timestamptz) ON CONFLICT (tenant, job, task, shard) DO UPDATE SET count = excluded.count, p50_seconds = excluded.p50_seconds, p90_seconds = excluded.p90_seconds, p99_seconds = excluded.p99_seconds, samples = excluded.samples, updated_at = excluded.updated_at;
-- 1 changed
INSERT INTO decisions ("id", "at", "kind", "shard", "tenant", "task_id", "run_id", "name", "attempt", "priority", "request", "worker_id", "free", "score", "looked_at", "victims", "victim_count", "why", "version") SELECT * FROM json_to_recordset('[{"id":"dec_00000000000c-000000000000000d","at":"2025-03-01T12:00:00.123456Z","kind":"placed","shard":"main","tenant":"acme","task_id":"task_000000000004-0000000000000005.0","run_id":"run_000000000004-0000000000000005","name":"step-0","attempt":1,"priority":1,"request":{"resources":{"cpu_millis":500,"memory_bytes":0,"gpus":0,"disk_bytes":0},"labels":[],"zone":null,"group_size":1,"prefer":[],"prefer_zone":null,"groups":[],"near":[],"apart":[],"run":""},"worker_id":"w1","free":{"cpu_millis":4000,"memory_bytes":0,"gpus":0,"disk_bytes":0},"score":0.25,"looked_at":3,"victims":[],"victim_count":0,"why":"it is the best","version":"1.0"}]'::json::json) AS ("id" text, "at" timestamptz, "kind" text, "shard" text, "tenant" text, "task_id" text, "run_id" text, "name" text, "attempt" bigint, "priority" bigint, "request" text, "worker_id" text, "free" text, "score" double precision, "looked_at" bigint, "victims" text, "victim_count" bigint, "why" text, "version" text) ON CONFLICT (id, at) DO NOTHING;
-- 1 changed
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_000000000000000b","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
UPDATE shards SET lease_until = clock_timestamp() + ttl, batch_no = '3'::int4 WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8 AND batch_no = '3'::int4 - 1 RETURNING clock_timestamp();
-- 1 rows
DELETE FROM spreads USING ROWS FROM (json_to_recordset('[{"run_id":"run_000000000004-0000000000000005","parent":"","generation":1,"kind":"cancel","shard":"main","total":2,"done":2,"by":"ann","why":"asked to"}]'::json::json) AS ("run_id" text, "parent" text, "generation" bigint, "kind" text)) AS u WHERE spreads.run_id = u.run_id AND spreads.parent = u.parent AND spreads.generation = u.generation AND spreads.kind = u.kind;
-- 1 changed
INSERT INTO workers ("id", "shard", "offer", "labels", "zone", "version", "status", "since", "last_heard_at", "hold", "hold_why") SELECT * FROM json_to_recordset('[{"id":"w1","shard":"main","offer":"{}","labels":"{}","zone":"","version":"1","status":"ready","since":"2025-03-01T12:00:00.123456Z","last_heard_at":"2025-03-01T12:00:00.123456Z","hold":"cordoned","hold_why":"ann: new disk"}]'::json::json) AS ("id" text, "shard" text, "offer" text, "labels" text, "zone" text, "version" text, "status" text, "since" timestamptz, "last_heard_at" timestamptz, "hold" text, "hold_why" text) ON CONFLICT (id) DO UPDATE SET shard = excluded.shard, offer = excluded.offer, labels = excluded.labels, zone = excluded.zone, version = excluded.version, status = excluded.status, since = excluded.since, last_heard_at = excluded.last_heard_at, hold = excluded.hold, hold_why = excluded.hold_why;
-- 1 changed
DELETE FROM breakers USING ROWS FROM (json_to_recordset('[{"shard":"main","kind":"signature","subject":"abc","because":"no route to host","opened_at":"2025-03-01T12:00:00.123456Z","probed_at":null,"closed_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("shard" text, "kind" text, "subject" text)) AS u WHERE breakers.shard = u.shard AND breakers.kind = u.kind AND breakers.subject = u.subject;
-- 1 changed
COMMIT;
-- done
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
-- done
SELECT "id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because", "schedule_id", "window_at", "retries", "started_at", "finish_by", "at_risk_at" FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT') ORDER BY id;
-- 1 rows
SELECT found."id", found."run_id", found."shard", found."tenant", found."name", found."position", found."priority", found."state", found."generation", found."seq", found."attempt", found."tries", found."losses", found."attempt_id", found."lease_id", found."worker_id", found."cause", found."because", found."since", found."due_at", found."assigned_at", found."started_at", found."ended_at", found."stop", found."output", found."error", found."birth", found."trail", found."ran_on", found."reserved" FROM (SELECT id FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) AS active CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.id > 'task_' || substr(active.id, 5) || '.' AND tasks.id < 'task_' || substr(active.id, 5) || '/' AND tasks.run_id = active.id OFFSET 0) AS found ORDER BY found.run_id, found.position;
-- 1 rows
SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE id IN (SELECT job_id FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY id;
-- 1 rows
SELECT "run_id", "parent", "generation", "kind", "shard", "total", "done", "by", "why" FROM spreads WHERE run_id IN (SELECT id FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY run_id, parent, generation, kind;
-- 0 rows
SELECT "task_id", "run_id", "attempt_id", "document", "saved_at" FROM checkpoints WHERE run_id IN (SELECT id FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY task_id;
-- 1 rows
SELECT "id", "shard", "offer", "labels", "zone", "version", "status", "since", "last_heard_at", "hold", "hold_why" FROM workers WHERE shard = 'main'::text AND hold <> '' ORDER BY id;
-- 1 rows
SELECT "shard", "kind", "subject", "because", "opened_at", "probed_at", "closed_at" FROM breakers WHERE shard = 'main'::text ORDER BY kind, subject;
-- 0 rows
SELECT "shard", "tenant", "job", "task", "count", "p50_seconds", "p90_seconds", "p99_seconds", "samples", "updated_at" FROM durations WHERE shard = 'main'::text ORDER BY updated_at DESC, tenant, job, task LIMIT 20000;
-- 1 rows
SELECT "limit", "holder", "granted", "needed" FROM shares WHERE holder = 'main'::text ORDER BY "limit";
-- 0 rows
SELECT "shard", "tenant", "since", "failures" FROM tallies WHERE shard = 'main'::text AND since > statement_timestamp() - interval '3900.000000 seconds' ORDER BY since, tenant;
-- 0 rows
COMMIT;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", coalesce(jobs.name, ''), coalesce(jobs.version, 0), runs.in_history FROM (SELECT * FROM (SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", 0 AS in_history FROM runs AS runs WHERE runs.created_at >= '2026-11-15 19:47:57.434379+00'::timestamptz AND true AND runs.id > 'run_01a1e0c08b7a'::text AND runs.id < '~'::text ORDER BY runs.id DESC LIMIT '10'::int8) AS live UNION ALL SELECT * FROM (SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", 1 AS in_history FROM runs_history AS runs WHERE runs.created_at >= '2026-11-15 19:47:57.434379+00'::timestamptz AND runs.ended_at >= '2026-11-15 18:47:57.434379+00'::timestamptz AND runs.id > 'run_01a1e0c08b7a'::text AND runs.id < '~'::text ORDER BY runs.id DESC LIMIT '10'::int8) AS history ORDER BY id DESC LIMIT '10'::int8) AS runs LEFT JOIN jobs ON jobs.id = runs.job_id ORDER BY runs.id DESC;
-- 0 rows
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", coalesce(jobs.name, ''), coalesce(jobs.version, 0), runs.in_history FROM (SELECT * FROM (SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", 0 AS in_history FROM runs AS runs WHERE runs.created_at >= '2026-11-06 19:47:57.434379+00'::timestamptz AND true AND runs.id > 'run_01a1b2674f7a'::text AND runs.id < '~'::text ORDER BY runs.id DESC LIMIT '10'::int8) AS live UNION ALL SELECT * FROM (SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", 1 AS in_history FROM runs_history AS runs WHERE runs.created_at >= '2026-11-06 19:47:57.434379+00'::timestamptz AND runs.ended_at >= '2026-11-06 18:47:57.434379+00'::timestamptz AND runs.id > 'run_01a1b2674f7a'::text AND runs.id < '~'::text ORDER BY runs.id DESC LIMIT '10'::int8) AS history ORDER BY id DESC LIMIT '10'::int8) AS runs LEFT JOIN jobs ON jobs.id = runs.job_id ORDER BY runs.id DESC;
-- 0 rows
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", coalesce(jobs.name, ''), coalesce(jobs.version, 0), runs.in_history FROM (SELECT * FROM (SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", 0 AS in_history FROM runs AS runs WHERE true AND runs.id > ''::text AND runs.id < '~'::text ORDER BY runs.id DESC LIMIT '10'::int8) AS live UNION ALL SELECT * FROM (SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", 1 AS in_history FROM runs_history AS runs WHERE true AND runs.id > ''::text AND runs.id < '~'::text ORDER BY runs.id DESC LIMIT '10'::int8) AS history ORDER BY id DESC LIMIT '10'::int8) AS runs LEFT JOIN jobs ON jobs.id = runs.job_id ORDER BY runs.id DESC;
-- 2 rows
SELECT clock_timestamp();
-- 1 rows
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", coalesce(jobs.name, ''), coalesce(jobs.version, 0), runs.in_history FROM (SELECT * FROM (SELECT found."id", found."shard", found."tenant", found."job_id", found."priority", found."params", found."task_count", found."submitted_by", found."linked_run", found."watched", found."created_at", found."start_at", found."state", found."generation", found."adopted_at", found."ended_at", found."paused", found."held", found."cancelled_by", found."failed_task", found."timed_out", found."because", found."schedule_id", found."window_at", found."retries", found."started_at", found."finish_by", found."at_risk_at", 0 AS in_history FROM json_array_elements_text('["FAILED"]'::json::json) AS wanted (key) CROSS JOIN LATERAL ( SELECT * FROM runs AS runs WHERE runs.state IN ('FAILED'::text) AND runs.created_at >= '2026-11-15 19:47:57.455625+00'::timestamptz AND true AND (SELECT count(*) FROM jobs WHERE jobs.id = runs.job_id AND EXISTS (SELECT 1 FROM json_each_text(jobs.labels::json) AS label WHERE label.key = 'team'::text AND label.value = 'ml'::text)) = 1 AND (runs.state COLLATE "C", (runs.id || '')) > (wanted.key, 'run_01a1e0c08b8f'::text) AND (runs.state COLLATE "C", (runs.id || '')) < (wanted.key, '~'::text) AND runs.state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT') ORDER BY runs.state COLLATE "C" DESC, (runs.id || '') DESC LIMIT '10'::int8) AS found ORDER BY found.id DESC LIMIT '10'::int8) AS live UNION ALL SELECT * FROM (SELECT found."id", found."shard", found."tenant", found."job_id", found."priority", found."params", found."task_count", found."submitted_by", found."linked_run", found."watched", found."created_at", found."start_at", found."state", found."generation", found."adopted_at", found."ended_at", found."paused", found."held", found."cancelled_by", found."failed_task", found."timed_out", found."because", found."schedule_id", found."window_at", found."retries", found."started_at", found."finish_by", found."at_risk_at", 1 AS in_history FROM json_array_elements_text('["FAILED"]'::json::json) AS wanted (key) CROSS JOIN LATERAL ( SELECT * FROM runs_history AS runs WHERE runs.state IN ('FAILED'::text) AND runs.created_at >= '2026-11-15 19:47:57.455625+00'::timestamptz AND runs.ended_at >= '2026-11-15 18:47:57.455625+00'::timestamptz AND (SELECT count(*) FROM jobs WHERE jobs.id = runs.job_id AND EXISTS (SELECT 1 FROM json_each_text(jobs.labels::json) AS label WHERE label.key = 'team'::text AND label.value = 'ml'::text)) = 1 AND (runs.state COLLATE "C", (runs.id || '')) > (wanted.key, 'run_01a1e0c08b8f'::text) AND (runs.state COLLATE "C", (runs.id || '')) < (wanted.key, '~'::text) AND runs.state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT') ORDER BY runs.state COLLATE "C" DESC, (runs.id || '') DESC LIMIT '10'::int8) AS found ORDER BY found.id DESC LIMIT '10'::int8) AS history ORDER BY id DESC LIMIT '10'::int8) AS runs LEFT JOIN jobs ON jobs.id = runs.job_id ORDER BY runs.id DESC;
-- 0 rows
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", coalesce(jobs.name, ''), coalesce(jobs.version, 0), runs.in_history FROM (SELECT * FROM (SELECT found."id", found."shard", found."tenant", found."job_id", found."priority", found."params", found."task_count", found."submitted_by", found."linked_run", found."watched", found."created_at", found."start_at", found."state", found."generation", found."adopted_at", found."ended_at", found."paused", found."held", found."cancelled_by", found."failed_task", found."timed_out", found."because", found."schedule_id", found."window_at", found."retries", found."started_at", found."finish_by", found."at_risk_at", 0 AS in_history FROM json_array_elements_text('["FAILED"]'::json::json) AS wanted (key) CROSS JOIN LATERAL ( SELECT * FROM runs AS runs WHERE runs.state IN ('FAILED'::text) AND runs.created_at >= '2026-11-06 19:47:57.455625+00'::timestamptz AND true AND (SELECT count(*) FROM jobs WHERE jobs.id = runs.job_id AND EXISTS (SELECT 1 FROM json_each_text(jobs.labels::json) AS label WHERE label.key = 'team'::text AND label.value = 'ml'::text)) = 1 AND (runs.state COLLATE "C", (runs.id || '')) > (wanted.key, 'run_01a1b2674f8f'::text) AND (runs.state COLLATE "C", (runs.id || '')) < (wanted.key, '~'::text) AND runs.state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT') ORDER BY runs.state COLLATE "C" DESC, (runs.id || '') DESC LIMIT '10'::int8) AS found ORDER BY found.id DESC LIMIT '10'::int8) AS live UNION ALL SELECT * FROM (SELECT found."id", found."shard", found."tenant", found."job_id", found."priority", found."params", found."task_count", found."submitted_by", found."linked_run", found."watched", found."created_at", found."start_at", found."state", found."generation", found."adopted_at", found."ended_at", found."paused", found."held", found."cancelled_by", found."failed_task", found."timed_out", found."because", found."schedule_id", found."window_at", found."retries", found."started_at", found."finish_by", found."at_risk_at", 1 AS in_history FROM json_array_elements_text('["FAILED"]'::json::json) AS wanted (key) CROSS JOIN LATERAL ( SELECT * FROM runs_history AS runs WHERE runs.state IN ('FAILED'::text) AND runs.created_at >= '2026-11-06 19:47:57.455625+00'::timestamptz AND runs.ended_at >= '2026-11-06 18:47:57.455625+00'::timestamptz AND (SELECT count(*) FROM jobs WHERE jobs.id = runs.job_id AND EXISTS (SELECT 1 FROM json_each_text(jobs.labels::json) AS label WHERE label.key = 'team'::text AND label.value = 'ml'::text)) = 1 AND (runs.state COLLATE "C", (runs.id || '')) > (wanted.key, 'run_01a1b2674f8f'::text) AND (runs.state COLLATE "C", (runs.id || '')) < (wanted.key, '~'::text) AND runs.state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT') ORDER BY runs.state COLLATE "C" DESC, (runs.id || '') DESC LIMIT '10'::int8) AS found ORDER BY found.id DESC LIMIT '10'::int8) AS history ORDER BY id DESC LIMIT '10'::int8) AS runs LEFT JOIN jobs ON jobs.id = runs.job_id ORDER BY runs.id DESC;
-- 0 rows
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", coalesce(jobs.name, ''), coalesce(jobs.version, 0), runs.in_history FROM (SELECT * FROM (SELECT found."id", found."shard", found."tenant", found."job_id", found."priority", found."params", found."task_count", found."submitted_by", found."linked_run", found."watched", found."created_at", found."start_at", found."state", found."generation", found."adopted_at", found."ended_at", found."paused", found."held", found."cancelled_by", found."failed_task", found."timed_out", found."because", found."schedule_id", found."window_at", found."retries", found."started_at", found."finish_by", found."at_risk_at", 0 AS in_history FROM json_array_elements_text('["FAILED"]'::json::json) AS wanted (key) CROSS JOIN LATERAL ( SELECT * FROM runs AS runs WHERE runs.state IN ('FAILED'::text) AND true AND (SELECT count(*) FROM jobs WHERE jobs.id = runs.job_id AND EXISTS (SELECT 1 FROM json_each_text(jobs.labels::json) AS label WHERE label.key = 'team'::text AND label.value = 'ml'::text)) = 1 AND (runs.state COLLATE "C", (runs.id || '')) > (wanted.key, ''::text) AND (runs.state COLLATE "C", (runs.id || '')) < (wanted.key, '~'::text) AND runs.state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT') ORDER BY runs.state COLLATE "C" DESC, (runs.id || '') DESC LIMIT '10'::int8) AS found ORDER BY found.id DESC LIMIT '10'::int8) AS live UNION ALL SELECT * FROM (SELECT found."id", found."shard", found."tenant", found."job_id", found."priority", found."params", found."task_count", found."submitted_by", found."linked_run", found."watched", found."created_at", found."start_at", found."state", found."generation", found."adopted_at", found."ended_at", found."paused", found."held", found."cancelled_by", found."failed_task", found."timed_out", found."because", found."schedule_id", found."window_at", found."retries", found."started_at", found."finish_by", found."at_risk_at", 1 AS in_history FROM json_array_elements_text('["FAILED"]'::json::json) AS wanted (key) CROSS JOIN LATERAL ( SELECT * FROM runs_history AS runs WHERE runs.state IN ('FAILED'::text) AND true AND (SELECT count(*) FROM jobs WHERE jobs.id = runs.job_id AND EXISTS (SELECT 1 FROM json_each_text(jobs.labels::json) AS label WHERE label.key = 'team'::text AND label.value = 'ml'::text)) = 1 AND (runs.state COLLATE "C", (runs.id || '')) > (wanted.key, ''::text) AND (runs.state COLLATE "C", (runs.id || '')) < (wanted.key, '~'::text) AND runs.state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT') ORDER BY runs.state COLLATE "C" DESC, (runs.id || '') DESC LIMIT '10'::int8) AS found ORDER BY found.id DESC LIMIT '10'::int8) AS history ORDER BY id DESC LIMIT '10'::int8) AS runs LEFT JOIN jobs ON jobs.id = runs.job_id ORDER BY runs.id DESC;
-- 0 rows
SELECT count(*) FROM (SELECT * FROM (SELECT runs.id, 0 AS in_history FROM runs AS runs WHERE true AND runs.id > ''::text AND runs.id < '~'::text ORDER BY runs.id DESC LIMIT '10'::int8) AS live UNION ALL SELECT * FROM (SELECT runs.id, 1 AS in_history FROM runs_history AS runs WHERE true AND runs.id > ''::text AND runs.id < '~'::text ORDER BY runs.id DESC LIMIT '10'::int8) AS history LIMIT '10'::int8) AS counted;
-- 1 rows
SELECT clock_timestamp();
-- 1 rows
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", coalesce(jobs.name, ''), coalesce(jobs.version, 0), runs.in_history FROM (SELECT * FROM (SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", 0 AS in_history FROM (SELECT * FROM runs WHERE shard > '' AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT') LIMIT 9223372036854775807) AS runs WHERE runs.tenant = 'acme'::text AND runs.state IN ('RUNNING'::text) AND true AND (SELECT count(*) FROM jobs WHERE jobs.id = runs.job_id AND jobs.name = 'report'::text) = 1 AND runs.id > ''::text AND runs.id < '~'::text ORDER BY runs.id DESC LIMIT '10'::int8) AS live ORDER BY id DESC LIMIT '10'::int8) AS runs LEFT JOIN jobs ON jobs.id = runs.job_id ORDER BY runs.id DESC;
-- 1 rows
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", coalesce(jobs.name, ''), coalesce(jobs.version, 0) FROM runs AS runs LEFT JOIN jobs ON jobs.id = runs.job_id WHERE runs.id = 'run_000000000004-0000000000000005'::text;
-- 1 rows
SELECT tasks."id", tasks."run_id", tasks."shard", tasks."tenant", tasks."name", tasks."position", tasks."priority", tasks."state", tasks."generation", tasks."seq", tasks."attempt", tasks."tries", tasks."losses", tasks."attempt_id", tasks."lease_id", tasks."worker_id", tasks."cause", tasks."because", tasks."since", tasks."due_at", tasks."assigned_at", tasks."started_at", tasks."ended_at", tasks."stop", tasks."output", tasks."error", tasks."birth", tasks."trail", tasks."ran_on", tasks."reserved" FROM tasks WHERE tasks.id > ''::text AND tasks.id > 'task_' || substr('run_000000000004-0000000000000005'::text, 5) || '.' AND tasks.id < 'task_' || substr('run_000000000004-0000000000000005'::text, 5) || '/' AND tasks.run_id = 'run_000000000004-0000000000000005'::text ORDER BY tasks.id LIMIT '10'::int8;
-- 1 rows
SELECT tasks."id", tasks."run_id", tasks."shard", tasks."tenant", tasks."name", tasks."position", tasks."priority", tasks."state", tasks."generation", tasks."seq", tasks."attempt", tasks."tries", tasks."losses", tasks."attempt_id", tasks."lease_id", tasks."worker_id", tasks."cause", tasks."because", tasks."since", tasks."due_at", tasks."assigned_at", tasks."started_at", tasks."ended_at", tasks."stop", tasks."output", tasks."error", tasks."birth", tasks."trail", tasks."ran_on", tasks."reserved" FROM (SELECT * FROM tasks WHERE attempt_id > '' LIMIT 9223372036854775807) AS tasks WHERE tasks.id > ''::text AND tasks.tenant = 'acme'::text AND tasks.state IN ('RUNNING'::text) ORDER BY tasks.id LIMIT '10'::int8;
-- 1 rows
SELECT tasks."id", tasks."run_id", tasks."shard", tasks."tenant", tasks."name", tasks."position", tasks."priority", tasks."state", tasks."generation", tasks."seq", tasks."attempt", tasks."tries", tasks."losses", tasks."attempt_id", tasks."lease_id", tasks."worker_id", tasks."cause", tasks."because", tasks."since", tasks."due_at", tasks."assigned_at", tasks."started_at", tasks."ended_at", tasks."stop", tasks."output", tasks."error", tasks."birth", tasks."trail", tasks."ran_on", tasks."reserved" FROM ( SELECT 'task_' || substr(id, 5) || '.' AS first, 'task_' || substr(id, 5) || '/' AS last FROM runs WHERE shard > '' AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT') AND 'task_' || substr(id, 5) || '/' > ''::text ORDER BY first LIMIT 9223372036854775807) AS active CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.id > active.first AND tasks.id < active.last OFFSET 0) AS tasks WHERE tasks.id > ''::text AND tasks.id > active.first AND tasks.id < active.last AND tasks.state IN ('QUEUED'::text) ORDER BY active.first, tasks.id LIMIT '10'::int8;
-- 0 rows
SELECT "id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error", "birth", "trail", "ran_on", "reserved" FROM tasks WHERE id = 'task_000000000004-0000000000000005.0'::text;
-- 1 rows
SELECT "id", "task_id", "run_id", "shard", "tenant", "generation", "number", "worker_id", "lease_id", "assigned_at", "started_at", "ended_at", "end", "error" FROM attempts WHERE task_id COLLATE "C" = 'task_000000000004-0000000000000005.0'::text ORDER BY ended_at DESC, id DESC LIMIT 1000;
-- 1 rows
SELECT "task_id", "run_id", "tenant", "generation", "seq", "attempt", "start", "end", "at", "by", "because" FROM transitions WHERE task_id COLLATE "C" = 'task_000000000004-0000000000000005.0'::text ORDER BY seq DESC LIMIT 1000;
-- 2 rows
SELECT shard, batch_no, ordinal, "task_id", "run_id", "tenant", "generation", "seq", "attempt", "start", "end", "at", "by", "because" FROM transitions WHERE shard = 'main'::text AND (batch_no, ordinal) > ('0'::int8, '0'::int8) ORDER BY batch_no, ordinal LIMIT '10'::int8;
-- 2 rows
SELECT "id", "at", "kind", "shard", "tenant", "task_id", "run_id", "name", "attempt", "priority", "request", "worker_id", "free", "score", "looked_at", "victims", "victim_count", "why", "version" FROM decisions WHERE task_id = 'task_000000000004-0000000000000005.0'::text AND at <= '2025-03-01 12:00:00.123456+00'::timestamptz AND (at, id) < ('2025-03-01 12:00:00.123456+00'::timestamptz, 'dec_1'::text) ORDER BY at DESC, id DESC LIMIT '10'::int8;
-- 1 rows
SELECT j."id", j."tenant", j."name", j."version", j."definition", j."created_at", j."created_by", j."deleted_at", j."labels" FROM jobs j WHERE (j.tenant, j.name) > (''::text, ''::text) AND j.deleted_at IS NULL AND j.tenant = 'acme'::text AND j.version = (SELECT max(l.version) FROM jobs l WHERE l.tenant = j.tenant AND l.name = j.name) ORDER BY j.tenant, j.name LIMIT '10'::int8;
-- 1 rows
SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE tenant = 'acme'::text AND name = 'report'::text ORDER BY version DESC LIMIT 1;
-- 1 rows
SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE tenant = 'acme'::text AND name = 'report'::text ORDER BY version DESC LIMIT '10'::int8;
-- 1 rows
SELECT id FROM jobs WHERE tenant = 'acme'::text AND name = 'report'::text;
-- 1 rows
BEGIN;
-- done
SET LOCAL enable_sort = off; SET LOCAL work_mem = '32MB';
-- done
SELECT day, state, duration, lateness, sum(runs)::bigint, sum(retries)::bigint FROM (SELECT day, state, duration, lateness, count(*) AS runs, sum(retries) AS retries FROM (SELECT floor(date_part('epoch', runs.ended_at) / 86400)::bigint AS day, runs.state, CASE WHEN runs.ended_at IS NOT NULL THEN CAST(floor(ln(greatest(1.0, date_part('epoch', runs.ended_at - coalesce(runs.started_at, runs.start_at)) * 1000)) / 0.09531017980432493) AS INTEGER) END AS duration, CASE WHEN runs.started_at IS NOT NULL THEN CAST(floor(ln(greatest(1.0, date_part('epoch', runs.started_at - coalesce(runs.window_at, runs.start_at)) * 1000)) / 0.09531017980432493) AS INTEGER) END AS lateness, runs.retries FROM runs AS runs WHERE runs.job_id COLLATE "C" = ANY('{job_2}'::text[]::text[]) AND runs.ended_at >= '2025-03-01 12:00:00.123456+00'::timestamptz AND runs.ended_at < '2025-03-02 12:00:00.123456+00'::timestamptz UNION ALL SELECT floor(date_part('epoch', runs.ended_at) / 86400)::bigint AS day, runs.state, CASE WHEN runs.ended_at IS NOT NULL THEN CAST(floor(ln(greatest(1.0, date_part('epoch', runs.ended_at - coalesce(runs.started_at, runs.start_at)) * 1000)) / 0.09531017980432493) AS INTEGER) END AS duration, CASE WHEN runs.started_at IS NOT NULL THEN CAST(floor(ln(greatest(1.0, date_part('epoch', runs.started_at - coalesce(runs.window_at, runs.start_at)) * 1000)) / 0.09531017980432493) AS INTEGER) END AS lateness, runs.retries FROM runs_history AS runs WHERE runs.job_id COLLATE "C" = ANY('{job_2}'::text[]::text[]) AND runs.ended_at >= '2025-03-01 12:00:00.123456+00'::timestamptz AND runs.ended_at < '2025-03-02 12:00:00.123456+00'::timestamptz) AS ended GROUP BY day, state, duration, lateness) AS counted GROUP BY GROUPING SETS ((day, state), (day, duration), (day, lateness));
-- 0 rows
COMMIT;
-- done
SELECT count(*) FROM (SELECT 1 FROM tasks WHERE tasks.id > ''::text AND tasks.id > 'task_' || substr('run_000000000004-0000000000000005'::text, 5) || '.' AND tasks.id < 'task_' || substr('run_000000000004-0000000000000005'::text, 5) || '/' AND tasks.run_id = 'run_000000000004-0000000000000005'::text LIMIT '10'::int8) AS counted;
-- 1 rows
SELECT name, state, count(*), sum(CASE WHEN (tasks.birth IS NULL OR tasks.birth NOT LIKE '%"replaced":true%') THEN 1 ELSE 0 END) FROM tasks WHERE tasks.id > 'task_' || substr('run_000000000004-0000000000000005'::text, 5) || '.' AND tasks.id < 'task_' || substr('run_000000000004-0000000000000005'::text, 5) || '/' AND tasks.run_id = 'run_000000000004-0000000000000005'::text GROUP BY name, state ORDER BY name, state;
-- 1 rows
SELECT name, state, count(*), sum(CASE WHEN (tasks_history.birth IS NULL OR tasks_history.birth NOT LIKE '%"replaced":true%') THEN 1 ELSE 0 END) FROM tasks_history WHERE run_id = 'run_000000000004-0000000000000005'::text GROUP BY name, state ORDER BY name, state;
-- 0 rows
SELECT "id", "shard", "offer", "labels", "zone", "version", "status", "since", "last_heard_at", "hold", "hold_why" FROM workers WHERE id > ''::text AND shard = 'main'::text ORDER BY id LIMIT '10'::int8;
-- 1 rows
SELECT "task_id", "run_id", "attempt_id", "document", "saved_at" FROM checkpoints WHERE task_id = 'task_000000000004-0000000000000005.0'::text;
-- 1 rows
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
-- done
SELECT pg_notify('mainspring_work'::text, '2d2e2d0662c4c0e2 main'::text);
-- 1 changed
SELECT "id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because", "schedule_id", "window_at", "retries", "started_at", "finish_by", "at_risk_at" FROM runs WHERE id = 'run_000000000004-0000000000000005'::text;
-- 1 rows
SELECT "id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error", "birth", "trail", "ran_on", "reserved" FROM tasks WHERE tasks.id > 'task_' || substr('run_000000000004-0000000000000005'::text, 5) || '.' AND tasks.id < 'task_' || substr('run_000000000004-0000000000000005'::text, 5) || '/' AND tasks.run_id = 'run_000000000004-0000000000000005'::text ORDER BY position;
-- 1 rows
SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE id = (SELECT job_id FROM runs WHERE id = 'run_000000000004-0000000000000005'::text);
-- 1 rows
SELECT "run_id", "parent", "generation", "kind", "shard", "total", "done", "by", "why" FROM spreads WHERE run_id = 'run_000000000004-0000000000000005'::text ORDER BY parent, generation, kind;
-- 0 rows
SELECT "task_id", "run_id", "attempt_id", "document", "saved_at" FROM checkpoints WHERE run_id = 'run_000000000004-0000000000000005'::text ORDER BY task_id;
-- 1 rows
COMMIT;
-- done
SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE id = ANY('{job_2}'::text[]::text[]) ORDER BY id;
-- 1 rows
WITH ended AS MATERIALIZED (SELECT id, task_id, worker_id, "end" FROM attempts WHERE id = ANY('{att_1}'::text[]::text[])) SELECT id, task_id, worker_id, "end" FROM ended UNION ALL SELECT attempt_id, id, worker_id, NULL FROM tasks WHERE attempt_id = ANY('{att_1}'::text[]::text[]) AND attempt_id NOT IN (SELECT id FROM ended);
-- 1 rows
WITH due AS ( SELECT seq FROM outbox o WHERE delivered_at IS NULL AND due_at <= statement_timestamp() AND (held_until IS NULL OR held_until <= statement_timestamp() OR holder = 'host-1'::text) AND NOT EXISTS (SELECT 1 FROM outbox p WHERE p.key = o.key AND p.delivered_at IS NULL AND p.seq < o.seq) ORDER BY due_at, seq LIMIT '1'::int8 FOR UPDATE SKIP LOCKED ), taken AS ( UPDATE outbox SET holder = 'host-1'::text, held_until = clock_timestamp() + '01:00:00'::interval FROM due WHERE outbox.seq = due.seq RETURNING outbox.* ) SELECT "id", "key", "kind", "payload", "created_at" FROM taken ORDER BY due_at, seq;
-- 1 rows
WITH late AS ( UPDATE outbox SET due_at = clock_timestamp() + '-1 days +23:00:00'::interval, holder = NULL, held_until = NULL, tries = tries + 1, fault = 'no answer'::text WHERE id = 'out_10'::text AND delivered_at IS NULL RETURNING seq, key, due_at ) UPDATE outbox SET due_at = late.due_at FROM late WHERE outbox.key = late.key AND outbox.seq <> late.seq AND outbox.delivered_at IS NULL AND outbox.due_at < late.due_at;
-- 0 changed
UPDATE outbox SET delivered_at = clock_timestamp(), holder = NULL WHERE id = ANY('{out_10}'::text[]::text[]) AND delivered_at IS NULL;
-- 1 changed
BEGIN;
-- done
UPDATE shards SET lease_until = clock_timestamp() + ttl, batch_no = '4'::int4 WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8 AND batch_no = '4'::int4 - 1 RETURNING clock_timestamp();
-- 1 rows
WITH changed_runs AS ( UPDATE runs SET "task_count" = u."task_count", "state" = u."state", "generation" = u."generation", "adopted_at" = u."adopted_at", "ended_at" = u."ended_at", "paused" = u."paused", "held" = u."held", "cancelled_by" = u."cancelled_by", "failed_task" = u."failed_task", "timed_out" = u."timed_out", "because" = u."because", "retries" = u."retries", "started_at" = u."started_at", "priority" = u."priority", "finish_by" = u."finish_by", "at_risk_at" = u."at_risk_at" FROM ROWS FROM (json_to_recordset('[{"id":"run_000000000004-0000000000000005","task_count":1,"state":"SUCCEEDED","generation":1,"adopted_at":"2025-03-01T12:00:00.123456Z","ended_at":"2025-03-01T12:00:00.123456Z","paused":false,"held":null,"cancelled_by":null,"failed_task":null,"timed_out":false,"because":"","retries":0,"started_at":null,"priority":1,"finish_by":null,"at_risk_at":null}]'::json::json) AS ("id" text, "task_count" bigint, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text, "retries" bigint, "started_at" timestamptz, "priority" bigint, "finish_by" timestamptz, "at_risk_at" timestamptz)) AS u WHERE runs.id = u.id AND runs.shard = 'main'::text RETURNING 1), new_tasks AS ( INSERT INTO tasks ("id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error", "birth", "trail", "ran_on", "reserved") SELECT * FROM json_to_recordset('[]'::json::json) AS ("id" text, "run_id" text, "shard" text, "tenant" text, "name" text, "position" bigint, "priority" bigint, "state" text, "generation" bigint, "seq" bigint, "attempt" bigint, "tries" bigint, "losses" bigint, "attempt_id" text, "lease_id" text, "worker_id" text, "cause" text, "because" text, "since" timestamptz, "due_at" timestamptz, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "stop" text, "output" text, "error" text, "birth" text, "trail" text, "ran_on" text, "reserved" text) ), changed_tasks AS ( UPDATE tasks SET "priority" = u."priority", "state" = u."state", "generation" = u."generation", "seq" = u."seq", "attempt" = u."attempt", "tries" = u."tries", "losses" = u."losses", "attempt_id" = u."attempt_id", "lease_id" = u."lease_id", "worker_id" = u."worker_id", "cause" = u."cause", "because" = u."because", "since" = u."since", "due_at" = u."due_at", "assigned_at" = u."assigned_at", "started_at" = u."started_at", "ended_at" = u."ended_at", "stop" = u."stop", "output" = u."output", "error" = u."error", "birth" = u."birth", "trail" = u."trail", "ran_on" = u."ran_on", "reserved" = u."reserved" FROM ROWS FROM (json_to_recordset('[]'::json::json) AS ("id" text, "priority" bigint, "state" text, "generation" bigint, "seq" bigint, "attempt" bigint, "tries" bigint, "losses" bigint, "attempt_id" text, "lease_id" text, "worker_id" text, "cause" text, "because" text, "since" timestamptz, "due_at" timestamptz, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "stop" text, "output" text, "error" text, "birth" text, "trail" text, "ran_on" text, "reserved" text), unnest('{}'::text[]::text[]), unnest('{}'::int8[]::bigint[])) AS u (id, priority, state, generation, seq, attempt, tries, losses, attempt_id, lease_id, worker_id, cause, because, since, due_at, assigned_at, started_at, ended_at, stop, output, error, birth, trail, ran_on, reserved, was, was_seq) WHERE tasks.id = u.id AND tasks.state = u.was AND tasks.seq = u.was_seq AND tasks.shard = 'main'::text RETURNING 1), told AS ( INSERT INTO transitions ("task_id", "run_id", "tenant", "generation", "seq", "attempt", "start", "end", "at", "by", "because", shard, batch_no, ordinal) SELECT u."task_id", u."run_id", u."tenant", u."generation", u."seq", u."attempt", u."start", u."end", u."at", u."by", u."because", 'main'::text, '4'::int8, u.ordinality - 1 FROM ROWS FROM (json_to_recordset('[]'::json::json) AS ("task_id" text, "run_id" text, "tenant" text, "generation" bigint, "seq" bigint, "attempt" bigint, "start" text, "end" text, "at" timestamptz, "by" text, "because" text)) WITH ORDINALITY AS u ), ended AS ( INSERT INTO attempts ("id", "task_id", "run_id", "shard", "tenant", "generation", "number", "worker_id", "lease_id", "assigned_at", "started_at", "ended_at", "end", "error") SELECT * FROM json_to_recordset('[]'::json::json) AS ("id" text, "task_id" text, "run_id" text, "shard" text, "tenant" text, "generation" bigint, "number" bigint, "worker_id" text, "lease_id" text, "assigned_at" timestamptz, "started_at" timestamptz, "ended_at" timestamptz, "end" text, "error" text) ) SELECT (SELECT count(*) FROM changed_runs), (SELECT count(*) FROM changed_tasks);
-- 1 rows
COMMIT;
-- done
SELECT id FROM runs WHERE shard = 'main'::text AND ended_at <= statement_timestamp() - '1 day'::interval::interval AND state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT') ORDER BY ended_at, id LIMIT '10'::int8;
-- 1 rows
BEGIN;
-- done
UPDATE shards SET lease_until = clock_timestamp() + ttl, batch_no = '5'::int4 WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8 AND batch_no = '5'::int4 - 1 RETURNING clock_timestamp();
-- 1 rows
SELECT count(*) FROM runs WHERE id = ANY('{run_000000000004-0000000000000005}'::text[]::text[]) AND (shard <> 'main'::text OR state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT') OR ended_at IS NULL);
-- 1 rows
WITH chosen AS ( SELECT tasks.id, runs.ended_at FROM runs JOIN tasks ON tasks.id > 'task_' || substr(runs.id, 5) || '.' AND tasks.id < 'task_' || substr(runs.id, 5) || '/' AND tasks.run_id = runs.id WHERE runs.id = ANY('{run_000000000004-0000000000000005}'::text[]::text[]) LIMIT 5000 ), gone AS ( DELETE FROM tasks USING chosen WHERE tasks.id = chosen.id RETURNING tasks."id", tasks."run_id", tasks."shard", tasks."tenant", tasks."name", tasks."position", tasks."priority", tasks."state", tasks."generation", tasks."seq", tasks."attempt", tasks."tries", tasks."losses", tasks."attempt_id", tasks."lease_id", tasks."worker_id", tasks."cause", tasks."because", tasks."since", tasks."due_at", tasks."assigned_at", tasks."started_at", tasks."ended_at", tasks."stop", tasks."output", tasks."error", tasks."birth", tasks."trail", tasks."ran_on", tasks."reserved", chosen.ended_at ) INSERT INTO tasks_history ("id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error", "birth", "trail", "ran_on", "reserved", run_ended_at) SELECT * FROM gone;
-- 1 changed
WITH gone AS ( DELETE FROM runs WHERE id = ANY('{run_000000000004-0000000000000005}'::text[]::text[]) AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id > 'task_' || substr(runs.id, 5) || '.' AND tasks.id < 'task_' || substr(runs.id, 5) || '/' AND tasks.run_id = runs.id) RETURNING "id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because", "schedule_id", "window_at", "retries", "started_at", "finish_by", "at_risk_at" ) INSERT INTO runs_history ("id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because", "schedule_id", "window_at", "retries", "started_at", "finish_by", "at_risk_at") SELECT * FROM gone;
-- 1 changed
DELETE FROM checkpoints WHERE run_id = ANY('{run_000000000004-0000000000000005}'::text[]::text[]);
-- 1 changed
COMMIT;
-- done
SELECT "id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because", "schedule_id", "window_at", "retries", "started_at", "finish_by", "at_risk_at" FROM runs WHERE id = 'run_000000000004-0000000000000005'::text;
-- 0 rows
SELECT "id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because", "schedule_id", "window_at", "retries", "started_at", "finish_by", "at_risk_at" FROM runs_history WHERE id = 'run_000000000004-0000000000000005'::text;
-- 1 rows
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
-- done
SELECT "id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error", "birth", "trail", "ran_on", "reserved" FROM tasks_history WHERE run_id = 'run_000000000004-0000000000000005'::text ORDER BY position;
-- 1 rows
SELECT "id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error", "birth", "trail", "ran_on", "reserved" FROM tasks WHERE tasks.id > 'task_' || substr('run_000000000004-0000000000000005'::text, 5) || '.' AND tasks.id < 'task_' || substr('run_000000000004-0000000000000005'::text, 5) || '/' AND tasks.run_id = 'run_000000000004-0000000000000005'::text ORDER BY position;
-- 0 rows
COMMIT;
-- done
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", coalesce(jobs.name, ''), coalesce(jobs.version, 0) FROM runs AS runs LEFT JOIN jobs ON jobs.id = runs.job_id WHERE runs.id = 'run_000000000004-0000000000000005'::text;
-- 0 rows
SELECT runs."id", runs."shard", runs."tenant", runs."job_id", runs."priority", runs."params", runs."task_count", runs."submitted_by", runs."linked_run", runs."watched", runs."created_at", runs."start_at", runs."state", runs."generation", runs."adopted_at", runs."ended_at", runs."paused", runs."held", runs."cancelled_by", runs."failed_task", runs."timed_out", runs."because", runs."schedule_id", runs."window_at", runs."retries", runs."started_at", runs."finish_by", runs."at_risk_at", coalesce(jobs.name, ''), coalesce(jobs.version, 0) FROM runs_history AS runs LEFT JOIN jobs ON jobs.id = runs.job_id WHERE runs.id = 'run_000000000004-0000000000000005'::text;
-- 1 rows
SELECT "id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error", "birth", "trail", "ran_on", "reserved" FROM tasks WHERE id = 'task_000000000004-0000000000000005.0'::text;
-- 0 rows
SELECT "id", "run_id", "shard", "tenant", "name", "position", "priority", "state", "generation", "seq", "attempt", "tries", "losses", "attempt_id", "lease_id", "worker_id", "cause", "because", "since", "due_at", "assigned_at", "started_at", "ended_at", "stop", "output", "error", "birth", "trail", "ran_on", "reserved" FROM tasks_history WHERE run_id = 'run_000000000004-0000000000000005'::text AND id = 'task_000000000004-0000000000000005.0'::text;
-- 1 rows
BEGIN;
-- done
INSERT INTO idempotency (tenant, key, body_hash, run_ids, at) SELECT tenant, key, body_hash, ARRAY[run_id], clock_timestamp() FROM unnest('{acme}'::text[]::text[], '{other}'::text[]::text[], '{h}'::text[]::text[], '{run_00000000000e-000000000000000f}'::text[]::text[]) AS given (tenant, key, body_hash, run_id) ON CONFLICT (tenant, key) DO NOTHING RETURNING tenant, key;
-- 1 rows
WITH missing AS MATERIALIZED ( SELECT wanted.id FROM unnest('{job_0}'::text[]::text[]) AS wanted (id) WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = wanted.id) ), made AS ( INSERT INTO runs ("id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because", "schedule_id", "window_at", "retries", "started_at", "finish_by", "at_risk_at") SELECT * FROM json_to_recordset(E'[{"id":"run_00000000000e-000000000000000f","shard":"main","tenant":"acme","job_id":"job_0","priority":1,"params":"{\\"day\\":\\"2026-11-15\\"}","task_count":1,"submitted_by":"ann","linked_run":null,"watched":false,"created_at":"2025-03-01T12:00:00.123456Z","start_at":"2025-03-01T12:00:00.123456Z","state":"PENDING","generation":1,"adopted_at":null,"ended_at":null,"paused":false,"held":null,"cancelled_by":null,"failed_task":null,"timed_out":false,"because":"","schedule_id":null,"window_at":null,"retries":0,"started_at":null,"finish_by":null,"at_risk_at":null}]'::json::json) AS ("id" text, "shard" text, "tenant" text, "job_id" text, "priority" bigint, "params" text, "task_count" bigint, "submitted_by" text, "linked_run" text, "watched" boolean, "created_at" timestamptz, "start_at" timestamptz, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text, "schedule_id" text, "window_at" timestamptz, "retries" bigint, "started_at" timestamptz, "finish_by" timestamptz, "at_risk_at" timestamptz) WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ), told AS ( INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000010","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ) SELECT id FROM missing;
-- 0 rows
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO idempotency (tenant, key, body_hash, run_ids, at) SELECT tenant, key, body_hash, ARRAY[run_id], clock_timestamp() FROM unnest('{acme}'::text[]::text[], '{other}'::text[]::text[], '{h}'::text[]::text[], '{run_000000000011-0000000000000012}'::text[]::text[]) AS given (tenant, key, body_hash, run_id) ON CONFLICT (tenant, key) DO NOTHING RETURNING tenant, key;
-- 0 rows
SELECT used.tenant, used.key, used.body_hash, used.run_ids FROM unnest('{acme}'::text[]::text[], '{other}'::text[]::text[]) AS given (tenant, key) JOIN idempotency AS used ON used.tenant = given.tenant AND used.key = given.key;
-- 1 rows
WITH missing AS MATERIALIZED ( SELECT wanted.id FROM unnest('{}'::text[]::text[]) AS wanted (id) WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = wanted.id) ), made AS ( INSERT INTO runs ("id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because", "schedule_id", "window_at", "retries", "started_at", "finish_by", "at_risk_at") SELECT * FROM json_to_recordset('[]'::json::json) AS ("id" text, "shard" text, "tenant" text, "job_id" text, "priority" bigint, "params" text, "task_count" bigint, "submitted_by" text, "linked_run" text, "watched" boolean, "created_at" timestamptz, "start_at" timestamptz, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text, "schedule_id" text, "window_at" timestamptz, "retries" bigint, "started_at" timestamptz, "finish_by" timestamptz, "at_risk_at" timestamptz) WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ), told AS ( INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000013","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ) SELECT id FROM missing;
-- 0 rows
COMMIT;
-- done
WITH missing AS MATERIALIZED ( SELECT wanted.id FROM unnest('{job_0}'::text[]::text[]) AS wanted (id) WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = wanted.id) ), made AS ( INSERT INTO runs ("id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because", "schedule_id", "window_at", "retries", "started_at", "finish_by", "at_risk_at") SELECT * FROM json_to_recordset(E'[{"id":"run_000000000014-0000000000000015","shard":"main","tenant":"acme","job_id":"job_0","priority":1,"params":"{\\"day\\":\\"2026-11-15\\"}","task_count":1,"submitted_by":"ann","linked_run":null,"watched":false,"created_at":"2025-03-01T12:00:00.123456Z","start_at":"2025-03-01T12:00:00.123456Z","state":"PENDING","generation":1,"adopted_at":null,"ended_at":null,"paused":false,"held":null,"cancelled_by":null,"failed_task":null,"timed_out":false,"because":"","schedule_id":null,"window_at":null,"retries":0,"started_at":null,"finish_by":null,"at_risk_at":null}]'::json::json) AS ("id" text, "shard" text, "tenant" text, "job_id" text, "priority" bigint, "params" text, "task_count" bigint, "submitted_by" text, "linked_run" text, "watched" boolean, "created_at" timestamptz, "start_at" timestamptz, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text, "schedule_id" text, "window_at" timestamptz, "retries" bigint, "started_at" timestamptz, "finish_by" timestamptz, "at_risk_at" timestamptz) WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ), told AS ( INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000016","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ) SELECT id FROM missing;
-- 0 rows
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
INSERT INTO tokens ("id", "hash", "tenant", "roles", "name", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at") VALUES ('tok23'::text, 'ab12'::text, 'acme'::text, '["submitter","viewer"]'::text, 'nightly'::text, 'ann'::text, '2025-03-01 12:00:00.123456+00'::timestamptz, '2025-03-02 12:00:00.123456+00'::timestamptz, NULL::timestamptz, NULL::timestamptz) ON CONFLICT (id) DO NOTHING RETURNING id;
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000018","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO tokens ("id", "hash", "tenant", "roles", "name", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at") VALUES ('tok23'::text, 'ab12'::text, 'acme'::text, '["submitter","viewer"]'::text, 'nightly'::text, 'ann'::text, '2025-03-01 12:00:00.123456+00'::timestamptz, '2025-03-02 12:00:00.123456+00'::timestamptz, NULL::timestamptz, NULL::timestamptz) ON CONFLICT (id) DO NOTHING RETURNING id;
-- 0 rows
SELECT "id", "hash", "tenant", "roles", "name", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at" FROM tokens WHERE id = 'tok23'::text;
-- 1 rows
COMMIT;
-- done
SELECT "id", "hash", "tenant", "roles", "name", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at" FROM tokens WHERE id = 'tok23'::text;
-- 1 rows
UPDATE tokens SET last_used_at = statement_timestamp() FROM (SELECT id FROM tokens WHERE id = ANY('{tok23}'::text[]::text[]) FOR UPDATE SKIP LOCKED) AS free WHERE tokens.id = free.id;
-- 1 changed
SELECT "id", "hash", "tenant", "roles", "name", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at" FROM tokens WHERE tenant = 'acme'::text ORDER BY created_at, id LIMIT 1000;
-- 1 rows
BEGIN;
-- done
UPDATE tokens SET revoked_at = statement_timestamp() WHERE id = 'tok23'::text AND revoked_at IS NULL RETURNING id;
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000019","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO schedules ("id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at") SELECT * FROM json_to_recordset(E'[{"id":"sched_00000000001a","tenant":"builders","name":"nightly-26","job":"load","version":1,"spec":"{\\"name\\":\\"nightly\\"}","event_type":"","after_job":"","pool":"main","enabled":true,"paused":false,"because":"","enabled_since":"2025-03-01T12:00:00.123456Z","through_at":"2025-03-01T12:00:00.123456Z","next_at":null,"has_waiting":false,"looked_at":null,"latest_event_at":null,"created_at":"2025-03-01T12:00:00.123456Z","created_by":"ann","updated_at":"2025-03-01T12:00:00.123456Z","updated_by":"ann","deleted_at":null}]'::json::json) AS ("id" text, "tenant" text, "name" text, "job" text, "version" bigint, "spec" text, "event_type" text, "after_job" text, "pool" text, "enabled" boolean, "paused" boolean, "because" text, "enabled_since" timestamptz, "through_at" timestamptz, "next_at" timestamptz, "has_waiting" boolean, "looked_at" timestamptz, "latest_event_at" timestamptz, "created_at" timestamptz, "created_by" text, "updated_at" timestamptz, "updated_by" text, "deleted_at" timestamptz) ON CONFLICT DO NOTHING RETURNING id;
-- 1 rows
INSERT INTO schedule_changes ("schedule_id", "at", "act", "by", "why", "version", "before", "after") SELECT u."schedule_id", u."at", u."act", u."by", u."why", u."version", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"schedule_id":"sched_00000000001a","at":"2025-03-01T12:00:00.123456Z","act":"created","by":"ann","why":"needed","version":1,"before":null,"after":"{\\"name\\":\\"nightly\\"}"}]'::json::json) AS ("schedule_id" text, "at" timestamptz, "act" text, "by" text, "why" text, "version" bigint, "before" text, "after" text)) WITH ORDINALITY AS u ORDER BY u.ordinality;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO schedules ("id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at") SELECT * FROM json_to_recordset(E'[{"id":"sched_00000000001b","tenant":"builders","name":"nightly-27","job":"any","version":1,"spec":"{\\"name\\":\\"nightly\\"}","event_type":"file.arrived","after_job":"load","pool":"main","enabled":true,"paused":false,"because":"","enabled_since":"2025-03-01T12:00:00.123456Z","through_at":"2025-03-01T12:00:00.123456Z","next_at":"2025-03-01T12:01:00.123456Z","has_waiting":true,"looked_at":null,"latest_event_at":null,"created_at":"2025-03-01T12:00:00.123456Z","created_by":"ann","updated_at":"2025-03-01T12:00:00.123456Z","updated_by":"ann","deleted_at":null}]'::json::json) AS ("id" text, "tenant" text, "name" text, "job" text, "version" bigint, "spec" text, "event_type" text, "after_job" text, "pool" text, "enabled" boolean, "paused" boolean, "because" text, "enabled_since" timestamptz, "through_at" timestamptz, "next_at" timestamptz, "has_waiting" boolean, "looked_at" timestamptz, "latest_event_at" timestamptz, "created_at" timestamptz, "created_by" text, "updated_at" timestamptz, "updated_by" text, "deleted_at" timestamptz) ON CONFLICT DO NOTHING RETURNING id;
-- 1 rows
INSERT INTO schedule_changes ("schedule_id", "at", "act", "by", "why", "version", "before", "after") SELECT u."schedule_id", u."at", u."act", u."by", u."why", u."version", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"schedule_id":"sched_00000000001b","at":"2025-03-01T12:00:00.123456Z","act":"created","by":"ann","why":"needed","version":1,"before":null,"after":"{\\"name\\":\\"nightly\\"}"}]'::json::json) AS ("schedule_id" text, "at" timestamptz, "act" text, "by" text, "why" text, "version" bigint, "before" text, "after" text)) WITH ORDINALITY AS u ORDER BY u.ordinality;
-- 1 changed
COMMIT;
-- done
SELECT min(next_at) AS next_at FROM schedules WHERE next_at IS NOT NULL AND deleted_at IS NULL;
-- 1 rows
BEGIN;
-- done
SELECT "id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at" FROM schedules WHERE next_at IS NOT NULL AND deleted_at IS NULL AND next_at <= statement_timestamp() ORDER BY next_at, id LIMIT '10'::int8 FOR UPDATE SKIP LOCKED;
-- 1 rows
SELECT clock_timestamp();
-- 1 rows
SELECT found.* FROM unnest('{sched_00000000001b}'::text[]::text[], '{sched_00000000001b}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "schedule_id", "window_at", "generation", "last_window_at", "count", "outcome", "because", "is_catch_up", "flagged", "start_at", "run_id", "run_state", "run_ended_at", "stopping", "asked_at", "repeats", "backfill_id", "event", "params", "by", "decided_at" FROM fires WHERE schedule_id = given.a AND (outcome = 'waiting' OR (outcome = 'ran' AND run_ended_at IS NULL)) ORDER BY window_at, generation LIMIT 2000) AS found ORDER BY given.place;
-- 0 rows
SELECT found.* FROM unnest('{builders}'::text[]::text[], '{any}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE tenant = given.a AND name = given.b ORDER BY version DESC LIMIT 1) AS found ORDER BY given.place;
-- 1 rows
SELECT found.* FROM unnest('{builders}'::text[]::text[], '{load}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at" FROM schedules WHERE tenant = given.a AND job = given.b AND deleted_at IS NULL ORDER BY created_at, id LIMIT 1) AS found ORDER BY given.place;
-- 1 rows
SELECT found.* FROM unnest('{sched_00000000001a}'::text[]::text[], '{sched_00000000001a}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "schedule_id", "window_at", "generation", "last_window_at", "count", "outcome", "because", "is_catch_up", "flagged", "start_at", "run_id", "run_state", "run_ended_at", "stopping", "asked_at", "repeats", "backfill_id", "event", "params", "by", "decided_at" FROM fires WHERE schedule_id = given.a ORDER BY window_at DESC, generation DESC LIMIT 100) AS found ORDER BY given.place;
-- 0 rows
SELECT given.a, found.* FROM unnest('{sched_00000000001a}'::text[]::text[], '{sched_00000000001a}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT run_ended_at FROM fires WHERE schedule_id = given.a AND run_ended_at IS NOT NULL AND run_state = 'SUCCEEDED' ORDER BY run_ended_at DESC LIMIT 1) AS found ORDER BY given.place;
-- 0 rows
INSERT INTO fires ("schedule_id", "window_at", "generation", "last_window_at", "count", "outcome", "because", "is_catch_up", "flagged", "start_at", "run_id", "run_state", "run_ended_at", "stopping", "asked_at", "repeats", "backfill_id", "event", "params", "by", "decided_at") SELECT * FROM json_to_recordset('[{"schedule_id":"sched_00000000001b","window_at":"2025-03-01T12:01:00.123456Z","generation":1,"last_window_at":"2025-03-01T12:01:00.123456Z","count":1,"outcome":"ran","because":"its time had come","is_catch_up":false,"flagged":false,"start_at":null,"run_id":"run_00000000001c-000000000000001d","run_state":null,"run_ended_at":null,"stopping":false,"asked_at":null,"repeats":null,"backfill_id":null,"event":null,"params":null,"by":"","decided_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("schedule_id" text, "window_at" timestamptz, "generation" bigint, "last_window_at" timestamptz, "count" bigint, "outcome" text, "because" text, "is_catch_up" boolean, "flagged" boolean, "start_at" timestamptz, "run_id" text, "run_state" text, "run_ended_at" timestamptz, "stopping" boolean, "asked_at" timestamptz, "repeats" text, "backfill_id" text, "event" text, "params" text, "by" text, "decided_at" timestamptz) ON CONFLICT (schedule_id, window_at, generation) DO UPDATE SET "last_window_at" = excluded."last_window_at", "count" = excluded."count", "outcome" = excluded."outcome", "because" = excluded."because", "is_catch_up" = excluded."is_catch_up", "flagged" = excluded."flagged", "start_at" = excluded."start_at", "run_id" = excluded."run_id", "run_state" = excluded."run_state", "run_ended_at" = excluded."run_ended_at", "stopping" = excluded."stopping", "asked_at" = excluded."asked_at", "repeats" = excluded."repeats", "backfill_id" = excluded."backfill_id", "event" = excluded."event", "params" = excluded."params", "by" = excluded."by", "decided_at" = excluded."decided_at" WHERE fires.run_id IS NULL OR fires.run_id = excluded.run_id;
-- 1 changed
WITH missing AS MATERIALIZED ( SELECT wanted.id FROM unnest('{job_0}'::text[]::text[]) AS wanted (id) WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = wanted.id) ), made AS ( INSERT INTO runs ("id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because", "schedule_id", "window_at", "retries", "started_at", "finish_by", "at_risk_at") SELECT * FROM json_to_recordset(E'[{"id":"run_00000000001c-000000000000001d","shard":"main","tenant":"acme","job_id":"job_0","priority":1,"params":"{\\"day\\":\\"2026-11-15\\"}","task_count":1,"submitted_by":"ann","linked_run":null,"watched":false,"created_at":"2025-03-01T12:00:00.123456Z","start_at":"2025-03-01T12:00:00.123456Z","state":"PENDING","generation":1,"adopted_at":null,"ended_at":null,"paused":false,"held":null,"cancelled_by":null,"failed_task":null,"timed_out":false,"because":"","schedule_id":"sched_00000000001b","window_at":"2025-03-01T12:01:00.123456Z","retries":0,"started_at":null,"finish_by":null,"at_risk_at":null}]'::json::json) AS ("id" text, "shard" text, "tenant" text, "job_id" text, "priority" bigint, "params" text, "task_count" bigint, "submitted_by" text, "linked_run" text, "watched" boolean, "created_at" timestamptz, "start_at" timestamptz, "state" text, "generation" bigint, "adopted_at" timestamptz, "ended_at" timestamptz, "paused" boolean, "held" text, "cancelled_by" text, "failed_task" text, "timed_out" boolean, "because" text, "schedule_id" text, "window_at" timestamptz, "retries" bigint, "started_at" timestamptz, "finish_by" timestamptz, "at_risk_at" timestamptz) WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ), told AS ( INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset('[]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING ) SELECT id FROM missing;
-- 0 rows
UPDATE schedules SET "through_at" = u."through_at", "next_at" = u."next_at", "has_waiting" = u."has_waiting", "looked_at" = u."looked_at", "latest_event_at" = u."latest_event_at" FROM ROWS FROM (json_to_recordset('[{"id":"sched_00000000001b","through_at":"2025-03-01T12:01:00.123456Z","next_at":null,"has_waiting":true,"looked_at":null,"latest_event_at":null}]'::json::json) AS ("id" text, "through_at" timestamptz, "next_at" timestamptz, "has_waiting" boolean, "looked_at" timestamptz, "latest_event_at" timestamptz)) AS u WHERE schedules.id = u.id;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT "id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at" FROM schedules WHERE id = ANY('{sched_00000000001b}'::text[]::text[]) AND deleted_at IS NULL ORDER BY id FOR UPDATE;
-- 1 rows
SELECT clock_timestamp();
-- 1 rows
SELECT found.* FROM unnest('{sched_00000000001b}'::text[]::text[], '{sched_00000000001b}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "schedule_id", "window_at", "generation", "last_window_at", "count", "outcome", "because", "is_catch_up", "flagged", "start_at", "run_id", "run_state", "run_ended_at", "stopping", "asked_at", "repeats", "backfill_id", "event", "params", "by", "decided_at" FROM fires WHERE schedule_id = given.a AND (outcome = 'waiting' OR (outcome = 'ran' AND run_ended_at IS NULL)) ORDER BY window_at, generation LIMIT 2000) AS found ORDER BY given.place;
-- 1 rows
SELECT found.* FROM unnest('{builders}'::text[]::text[], '{any}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE tenant = given.a AND name = given.b ORDER BY version DESC LIMIT 1) AS found ORDER BY given.place;
-- 1 rows
SELECT given.a, found.* FROM unnest('{sched_00000000001b}'::text[]::text[], '{"2025-03-01 12:00:00.123456+00"}'::timestamptz[]::timestamptz[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT run_state FROM fires WHERE schedule_id = given.a AND run_ended_at IS NOT NULL AND run_ended_at >= given.b AND run_state IS NOT NULL ORDER BY run_ended_at DESC LIMIT 100) AS found ORDER BY given.place;
-- 0 rows
SELECT found.* FROM unnest('{builders}'::text[]::text[], '{load}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at" FROM schedules WHERE tenant = given.a AND job = given.b AND deleted_at IS NULL ORDER BY created_at, id LIMIT 1) AS found ORDER BY given.place;
-- 1 rows
SELECT found.* FROM unnest('{sched_00000000001a}'::text[]::text[], '{sched_00000000001a}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "schedule_id", "window_at", "generation", "last_window_at", "count", "outcome", "because", "is_catch_up", "flagged", "start_at", "run_id", "run_state", "run_ended_at", "stopping", "asked_at", "repeats", "backfill_id", "event", "params", "by", "decided_at" FROM fires WHERE schedule_id = given.a ORDER BY window_at DESC, generation DESC LIMIT 100) AS found ORDER BY given.place;
-- 0 rows
SELECT given.a, found.* FROM unnest('{sched_00000000001a}'::text[]::text[], '{sched_00000000001a}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT run_ended_at FROM fires WHERE schedule_id = given.a AND run_ended_at IS NOT NULL AND run_state = 'SUCCEEDED' ORDER BY run_ended_at DESC LIMIT 1) AS found ORDER BY given.place;
-- 0 rows
INSERT INTO fires ("schedule_id", "window_at", "generation", "last_window_at", "count", "outcome", "because", "is_catch_up", "flagged", "start_at", "run_id", "run_state", "run_ended_at", "stopping", "asked_at", "repeats", "backfill_id", "event", "params", "by", "decided_at") SELECT * FROM json_to_recordset('[{"schedule_id":"sched_00000000001b","window_at":"2025-03-01T12:00:00.123456Z","generation":1,"last_window_at":"2025-03-01T12:00:00.123456Z","count":1,"outcome":"waiting","because":"it was missed","is_catch_up":false,"flagged":false,"start_at":null,"run_id":null,"run_state":null,"run_ended_at":null,"stopping":false,"asked_at":null,"repeats":null,"backfill_id":"fill_00000000001e","event":null,"params":null,"by":"","decided_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("schedule_id" text, "window_at" timestamptz, "generation" bigint, "last_window_at" timestamptz, "count" bigint, "outcome" text, "because" text, "is_catch_up" boolean, "flagged" boolean, "start_at" timestamptz, "run_id" text, "run_state" text, "run_ended_at" timestamptz, "stopping" boolean, "asked_at" timestamptz, "repeats" text, "backfill_id" text, "event" text, "params" text, "by" text, "decided_at" timestamptz) ON CONFLICT (schedule_id, window_at, generation) DO UPDATE SET "last_window_at" = excluded."last_window_at", "count" = excluded."count", "outcome" = excluded."outcome", "because" = excluded."because", "is_catch_up" = excluded."is_catch_up", "flagged" = excluded."flagged", "start_at" = excluded."start_at", "run_id" = excluded."run_id", "run_state" = excluded."run_state", "run_ended_at" = excluded."run_ended_at", "stopping" = excluded."stopping", "asked_at" = excluded."asked_at", "repeats" = excluded."repeats", "backfill_id" = excluded."backfill_id", "event" = excluded."event", "params" = excluded."params", "by" = excluded."by", "decided_at" = excluded."decided_at" WHERE fires.run_id IS NULL OR fires.run_id = excluded.run_id;
-- 1 changed
INSERT INTO backfills ("id", "schedule_id", "tenant", "since", "before", "max_parallel", "again", "windows", "by", "why", "created_at") SELECT * FROM json_to_recordset('[{"id":"fill_00000000001e","schedule_id":"sched_00000000001b","tenant":"builders","since":"2025-03-01T12:00:00.123456Z","before":"2025-03-01T12:01:00.123456Z","max_parallel":1,"again":false,"windows":1,"by":"ann","why":"","created_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("id" text, "schedule_id" text, "tenant" text, "since" timestamptz, "before" timestamptz, "max_parallel" bigint, "again" boolean, "windows" bigint, "by" text, "why" text, "created_at" timestamptz);
-- 1 changed
INSERT INTO schedule_changes ("schedule_id", "at", "act", "by", "why", "version", "before", "after") SELECT u."schedule_id", u."at", u."act", u."by", u."why", u."version", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"schedule_id":"sched_00000000001b","at":"2025-03-01T12:00:00.123456Z","act":"created","by":"ann","why":"needed","version":1,"before":null,"after":"{\\"name\\":\\"nightly\\"}"}]'::json::json) AS ("schedule_id" text, "at" timestamptz, "act" text, "by" text, "why" text, "version" bigint, "before" text, "after" text)) WITH ORDINALITY AS u ORDER BY u.ordinality;
-- 1 changed
INSERT INTO outbox ("id", "key", "kind", "payload", "created_at", due_at) SELECT u."id", u."key", u."kind", u."payload", u."created_at", u.created_at FROM ROWS FROM (json_to_recordset('[{"id":"out_31","key":"key_31","kind":"run.ended","payload":"{}","created_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("id" text, "key" text, "kind" text, "payload" text, "created_at" timestamptz)) WITH ORDINALITY AS u ORDER BY u.ordinality ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT "id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at" FROM schedules WHERE has_waiting AND deleted_at IS NULL AND coalesce(looked_at, 'epoch'::timestamptz) <= statement_timestamp() - '00:00:00'::interval::interval ORDER BY coalesce(looked_at, 'epoch'::timestamptz), id LIMIT '10'::int8 FOR UPDATE SKIP LOCKED;
-- 1 rows
SELECT clock_timestamp();
-- 1 rows
SELECT found.* FROM unnest('{sched_00000000001b}'::text[]::text[], '{sched_00000000001b}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "schedule_id", "window_at", "generation", "last_window_at", "count", "outcome", "because", "is_catch_up", "flagged", "start_at", "run_id", "run_state", "run_ended_at", "stopping", "asked_at", "repeats", "backfill_id", "event", "params", "by", "decided_at" FROM fires WHERE schedule_id = given.a AND (outcome = 'waiting' OR (outcome = 'ran' AND run_ended_at IS NULL)) ORDER BY window_at, generation LIMIT 2000) AS found ORDER BY given.place;
-- 2 rows
SELECT found.* FROM unnest('{builders}'::text[]::text[], '{any}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE tenant = given.a AND name = given.b ORDER BY version DESC LIMIT 1) AS found ORDER BY given.place;
-- 1 rows
SELECT given.a, found.* FROM unnest('{sched_00000000001b}'::text[]::text[], '{"2025-03-01 12:00:00.123456+00"}'::timestamptz[]::timestamptz[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT run_state FROM fires WHERE schedule_id = given.a AND run_ended_at IS NOT NULL AND run_ended_at >= given.b AND run_state IS NOT NULL ORDER BY run_ended_at DESC LIMIT 100) AS found ORDER BY given.place;
-- 0 rows
SELECT "id", "schedule_id", "tenant", "since", "before", "max_parallel", "again", "windows", "by", "why", "created_at" FROM backfills WHERE id = ANY('{fill_00000000001e}'::text[]::text[]);
-- 1 rows
SELECT found.* FROM unnest('{builders}'::text[]::text[], '{load}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at" FROM schedules WHERE tenant = given.a AND job = given.b AND deleted_at IS NULL ORDER BY created_at, id LIMIT 1) AS found ORDER BY given.place;
-- 1 rows
SELECT found.* FROM unnest('{sched_00000000001a}'::text[]::text[], '{sched_00000000001a}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "schedule_id", "window_at", "generation", "last_window_at", "count", "outcome", "because", "is_catch_up", "flagged", "start_at", "run_id", "run_state", "run_ended_at", "stopping", "asked_at", "repeats", "backfill_id", "event", "params", "by", "decided_at" FROM fires WHERE schedule_id = given.a ORDER BY window_at DESC, generation DESC LIMIT 100) AS found ORDER BY given.place;
-- 0 rows
SELECT given.a, found.* FROM unnest('{sched_00000000001a}'::text[]::text[], '{sched_00000000001a}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT run_ended_at FROM fires WHERE schedule_id = given.a AND run_ended_at IS NOT NULL AND run_state = 'SUCCEEDED' ORDER BY run_ended_at DESC LIMIT 1) AS found ORDER BY given.place;
-- 0 rows
UPDATE schedules SET "tenant" = u."tenant", "name" = u."name", "job" = u."job", "version" = u."version", "spec" = u."spec", "event_type" = u."event_type", "after_job" = u."after_job", "pool" = u."pool", "enabled" = u."enabled", "paused" = u."paused", "because" = u."because", "enabled_since" = u."enabled_since", "through_at" = u."through_at", "next_at" = u."next_at", "has_waiting" = u."has_waiting", "looked_at" = u."looked_at", "latest_event_at" = u."latest_event_at", "created_at" = u."created_at", "created_by" = u."created_by", "updated_at" = u."updated_at", "updated_by" = u."updated_by", "deleted_at" = u."deleted_at" FROM ROWS FROM (json_to_recordset(E'[{"id":"sched_00000000001b","tenant":"builders","name":"nightly-27","job":"any","version":1,"spec":"{\\"name\\":\\"nightly\\"}","event_type":"file.arrived","after_job":"load","pool":"main","enabled":true,"paused":true,"because":"","enabled_since":"2025-03-01T12:00:00.123456Z","through_at":"2025-03-01T12:01:00.123456Z","next_at":null,"has_waiting":true,"looked_at":null,"latest_event_at":null,"created_at":"2025-03-01T12:00:00.123456Z","created_by":"ann","updated_at":"2025-03-01T12:00:00.123456Z","updated_by":"ann","deleted_at":null}]'::json::json) AS ("id" text, "tenant" text, "name" text, "job" text, "version" bigint, "spec" text, "event_type" text, "after_job" text, "pool" text, "enabled" boolean, "paused" boolean, "because" text, "enabled_since" timestamptz, "through_at" timestamptz, "next_at" timestamptz, "has_waiting" boolean, "looked_at" timestamptz, "latest_event_at" timestamptz, "created_at" timestamptz, "created_by" text, "updated_at" timestamptz, "updated_by" text, "deleted_at" timestamptz)) AS u WHERE schedules.id = u.id;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
INSERT INTO events ("tenant", "source", "id", "type", "subject", "at", "received_at", "document", "fires") SELECT * FROM json_to_recordset(E'[{"tenant":"builders","source":"/files","id":"e32","type":"file.arrived","subject":"","at":"2025-03-01T12:00:00.123456Z","received_at":"2026-11-16T19:47:57.752040Z","document":"{\\"source\\":\\"/files\\",\\"id\\":\\"e32\\",\\"type\\":\\"file.arrived\\"}","fires":0}]'::json::json) AS ("tenant" text, "source" text, "id" text, "type" text, "subject" text, "at" timestamptz, "received_at" timestamptz, "document" text, "fires" bigint) ORDER BY source COLLATE "C", id COLLATE "C" ON CONFLICT (tenant, source, id) DO NOTHING RETURNING source, id;
-- 1 rows
SELECT "id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at" FROM schedules WHERE tenant = 'builders'::text AND event_type = ANY('{file.arrived}'::text[]::text[]) AND event_type <> '' AND deleted_at IS NULL ORDER BY id FOR UPDATE;
-- 1 rows
SELECT clock_timestamp();
-- 1 rows
SELECT found.* FROM unnest('{sched_00000000001b}'::text[]::text[], '{sched_00000000001b}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "schedule_id", "window_at", "generation", "last_window_at", "count", "outcome", "because", "is_catch_up", "flagged", "start_at", "run_id", "run_state", "run_ended_at", "stopping", "asked_at", "repeats", "backfill_id", "event", "params", "by", "decided_at" FROM fires WHERE schedule_id = given.a AND (outcome = 'waiting' OR (outcome = 'ran' AND run_ended_at IS NULL)) ORDER BY window_at, generation LIMIT 2000) AS found ORDER BY given.place;
-- 2 rows
SELECT found.* FROM unnest('{builders}'::text[]::text[], '{any}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE tenant = given.a AND name = given.b ORDER BY version DESC LIMIT 1) AS found ORDER BY given.place;
-- 1 rows
SELECT given.a, found.* FROM unnest('{sched_00000000001b}'::text[]::text[], '{"2025-03-01 12:00:00.123456+00"}'::timestamptz[]::timestamptz[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT run_state FROM fires WHERE schedule_id = given.a AND run_ended_at IS NOT NULL AND run_ended_at >= given.b AND run_state IS NOT NULL ORDER BY run_ended_at DESC LIMIT 100) AS found ORDER BY given.place;
-- 0 rows
SELECT "id", "schedule_id", "tenant", "since", "before", "max_parallel", "again", "windows", "by", "why", "created_at" FROM backfills WHERE id = ANY('{fill_00000000001e}'::text[]::text[]);
-- 1 rows
SELECT found.* FROM unnest('{builders}'::text[]::text[], '{load}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at" FROM schedules WHERE tenant = given.a AND job = given.b AND deleted_at IS NULL ORDER BY created_at, id LIMIT 1) AS found ORDER BY given.place;
-- 1 rows
SELECT found.* FROM unnest('{sched_00000000001a}'::text[]::text[], '{sched_00000000001a}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT "schedule_id", "window_at", "generation", "last_window_at", "count", "outcome", "because", "is_catch_up", "flagged", "start_at", "run_id", "run_state", "run_ended_at", "stopping", "asked_at", "repeats", "backfill_id", "event", "params", "by", "decided_at" FROM fires WHERE schedule_id = given.a ORDER BY window_at DESC, generation DESC LIMIT 100) AS found ORDER BY given.place;
-- 0 rows
SELECT given.a, found.* FROM unnest('{sched_00000000001a}'::text[]::text[], '{sched_00000000001a}'::text[]::text[]) WITH ORDINALITY AS given (a, b, place) CROSS JOIN LATERAL (SELECT run_ended_at FROM fires WHERE schedule_id = given.a AND run_ended_at IS NOT NULL AND run_state = 'SUCCEEDED' ORDER BY run_ended_at DESC LIMIT 1) AS found ORDER BY given.place;
-- 0 rows
INSERT INTO fires ("schedule_id", "window_at", "generation", "last_window_at", "count", "outcome", "because", "is_catch_up", "flagged", "start_at", "run_id", "run_state", "run_ended_at", "stopping", "asked_at", "repeats", "backfill_id", "event", "params", "by", "decided_at") SELECT * FROM json_to_recordset(E'[{"schedule_id":"sched_00000000001b","window_at":"2025-03-01T12:00:00.123456Z","generation":1,"last_window_at":"2025-03-01T12:00:00.123456Z","count":1,"outcome":"waiting","because":"it was missed","is_catch_up":false,"flagged":false,"start_at":null,"run_id":null,"run_state":null,"run_ended_at":null,"stopping":false,"asked_at":null,"repeats":null,"backfill_id":"fill_00000000001e","event":"{\\"source\\":\\"/files\\",\\"id\\":\\"e32\\",\\"type\\":\\"file.arrived\\"}","params":null,"by":"","decided_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("schedule_id" text, "window_at" timestamptz, "generation" bigint, "last_window_at" timestamptz, "count" bigint, "outcome" text, "because" text, "is_catch_up" boolean, "flagged" boolean, "start_at" timestamptz, "run_id" text, "run_state" text, "run_ended_at" timestamptz, "stopping" boolean, "asked_at" timestamptz, "repeats" text, "backfill_id" text, "event" text, "params" text, "by" text, "decided_at" timestamptz) ON CONFLICT (schedule_id, window_at, generation) DO UPDATE SET "last_window_at" = excluded."last_window_at", "count" = excluded."count", "outcome" = excluded."outcome", "because" = excluded."because", "is_catch_up" = excluded."is_catch_up", "flagged" = excluded."flagged", "start_at" = excluded."start_at", "run_id" = excluded."run_id", "run_state" = excluded."run_state", "run_ended_at" = excluded."run_ended_at", "stopping" = excluded."stopping", "asked_at" = excluded."asked_at", "repeats" = excluded."repeats", "backfill_id" = excluded."backfill_id", "event" = excluded."event", "params" = excluded."params", "by" = excluded."by", "decided_at" = excluded."decided_at" WHERE fires.run_id IS NULL OR fires.run_id = excluded.run_id;
-- 1 changed
UPDATE events SET fires = u.fires FROM unnest('{/files}'::text[]::text[], '{e32}'::text[]::text[], '{1}'::int8[]::bigint[]) AS u (source, id, fires) WHERE events.tenant = 'builders'::text AND events.source = u.source AND events.id = u.id;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO alerts ("id", "key", "kind", "severity", "tenant", "summary", "details", "opened_at", "last_at", "count", "resolved_at") SELECT * FROM json_to_recordset('[{"id":"alert_000000000021","key":"quarantined:task_33","kind":"quarantined","severity":"high","tenant":"acme","summary":"a task is held","details":"{}","opened_at":"2025-03-01T12:00:00.123456Z","last_at":"2025-03-01T12:00:00.123456Z","count":1,"resolved_at":null}]'::json::json) AS ("id" text, "key" text, "kind" text, "severity" text, "tenant" text, "summary" text, "details" text, "opened_at" timestamptz, "last_at" timestamptz, "count" bigint, "resolved_at" timestamptz) ON CONFLICT DO NOTHING RETURNING id;
-- 1 rows
INSERT INTO outbox ("id", "key", "kind", "payload", "created_at", due_at) SELECT u."id", u."key", u."kind", u."payload", u."created_at", u.created_at FROM ROWS FROM (json_to_recordset('[{"id":"out_34","key":"key_34","kind":"run.ended","payload":"{}","created_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("id" text, "key" text, "kind" text, "payload" text, "created_at" timestamptz)) WITH ORDINALITY AS u ORDER BY u.ordinality ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO alerts ("id", "key", "kind", "severity", "tenant", "summary", "details", "opened_at", "last_at", "count", "resolved_at") SELECT * FROM json_to_recordset('[{"id":"alert_2","key":"quarantined:task_33","kind":"quarantined","severity":"high","tenant":"acme","summary":"a task is held","details":"{}","opened_at":"2025-03-01T12:00:00.123456Z","last_at":"2025-03-01T12:00:00.123456Z","count":1,"resolved_at":null}]'::json::json) AS ("id" text, "key" text, "kind" text, "severity" text, "tenant" text, "summary" text, "details" text, "opened_at" timestamptz, "last_at" timestamptz, "count" bigint, "resolved_at" timestamptz) ON CONFLICT DO NOTHING RETURNING id;
-- 0 rows
SELECT 1 FROM alerts WHERE id = 'alert_2'::text;
-- 0 rows
UPDATE alerts SET count = count + 1, last_at = '2025-03-01 12:00:00.123456+00'::timestamptz, summary = 'a task is held'::text WHERE key = 'quarantined:task_33'::text AND resolved_at IS NULL RETURNING id;
-- 1 rows
COMMIT;
-- done
BEGIN;
-- done
UPDATE alerts SET resolved_at = '2025-03-01 12:00:00.123456+00'::timestamptz WHERE key = 'quarantined:task_33'::text AND resolved_at IS NULL RETURNING "id", "key", "kind", "severity", "tenant", "summary", "details", "opened_at", "last_at", "count", "resolved_at";
-- 1 rows
INSERT INTO outbox ("id", "key", "kind", "payload", "created_at", due_at) SELECT u."id", u."key", u."kind", u."payload", u."created_at", u.created_at FROM ROWS FROM (json_to_recordset('[{"id":"out_35","key":"key_35","kind":"run.ended","payload":"{}","created_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("id" text, "key" text, "kind" text, "payload" text, "created_at" timestamptz)) WITH ORDINALITY AS u ORDER BY u.ordinality ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
SELECT pg_notify('mainspring_work'::text, '2d2e2d0662c4c0e2 main'::text);
-- 1 changed
SELECT "id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at" FROM schedules WHERE id = 'nightly-27'::text;
-- 0 rows
SELECT "id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at" FROM schedules WHERE tenant = 'builders'::text AND name = 'nightly-27'::text AND deleted_at IS NULL;
-- 1 rows
SELECT "id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at" FROM schedules WHERE id > ''::text AND deleted_at IS NULL AND tenant = 'builders'::text AND enabled ORDER BY id LIMIT '10'::int8;
-- 2 rows
SELECT "id", "tenant", "name", "job", "version", "spec", "event_type", "after_job", "pool", "enabled", "paused", "because", "enabled_since", "through_at", "next_at", "has_waiting", "looked_at", "latest_event_at", "created_at", "created_by", "updated_at", "updated_by", "deleted_at" FROM schedules WHERE next_at IS NOT NULL AND deleted_at IS NULL AND next_at < '2025-03-02 12:00:00.123456+00'::timestamptz ORDER BY next_at, id LIMIT '10'::int8;
-- 0 rows
SELECT id, tenant, after_job FROM schedules WHERE after_job <> '' AND has_waiting AND deleted_at IS NULL ORDER BY id LIMIT 10000;
-- 1 rows
SELECT "schedule_id", "window_at", "generation", "last_window_at", "count", "outcome", "because", "is_catch_up", "flagged", "start_at", "run_id", "run_state", "run_ended_at", "stopping", "asked_at", "repeats", "backfill_id", "event", "params", "by", "decided_at" FROM fires WHERE run_id IN ('run_1'::text);
-- 0 rows
SELECT "schedule_id", "window_at", "generation", "last_window_at", "count", "outcome", "because", "is_catch_up", "flagged", "start_at", "run_id", "run_state", "run_ended_at", "stopping", "asked_at", "repeats", "backfill_id", "event", "params", "by", "decided_at" FROM fires WHERE schedule_id = 'sched_00000000001b'::text ORDER BY window_at DESC, generation DESC LIMIT '10'::int8;
-- 2 rows
SELECT "schedule_id", "at", "act", "by", "why", "version", "before", "after" FROM schedule_changes WHERE schedule_id = 'sched_00000000001b'::text ORDER BY seq DESC LIMIT '10'::int8;
-- 2 rows
SELECT "id", "schedule_id", "tenant", "since", "before", "max_parallel", "again", "windows", "by", "why", "created_at" FROM backfills WHERE schedule_id = 'sched_00000000001b'::text ORDER BY id DESC LIMIT '10'::int8;
-- 1 rows
SELECT "tenant", "source", "id", "type", "subject", "at", "received_at", "document", "fires" FROM events WHERE received_at < '2025-03-01 12:00:00.123456+00'::timestamptz ORDER BY received_at DESC, source, id LIMIT '10'::int8;
-- 0 rows
SELECT "id", "key", "kind", "severity", "tenant", "summary", "details", "opened_at", "last_at", "count", "resolved_at" FROM alerts WHERE resolved_at IS NULL ORDER BY id DESC LIMIT '10'::int8;
-- 0 rows
SELECT * FROM (SELECT * FROM (SELECT x."id", x."run_id", x."shard", x."tenant", x."name", x."position", x."priority", x."state", x."generation", x."seq", x."attempt", x."tries", x."losses", x."attempt_id", x."lease_id", x."worker_id", x."cause", x."because", x."since", x."due_at", x."assigned_at", x."started_at", x."ended_at", x."stop", x."output", x."error", x."birth", x."trail", x."ran_on", x."reserved" FROM tasks x WHERE x.state IN ('FAILED', 'TIMED_OUT') AND x.ended_at IS NOT NULL AND (x.birth IS NULL OR x.birth NOT LIKE '%"replaced":true%') AND x.tenant = 'acme'::text AND EXISTS ( SELECT 1 FROM ( SELECT job_id FROM runs WHERE runs.id = x.run_id UNION ALL SELECT job_id FROM runs_history WHERE runs_history.id = x.run_id ) AS r JOIN jobs ON jobs.id = r.job_id WHERE jobs.name = 'report'::text) ORDER BY x.ended_at DESC, x.id DESC LIMIT '10'::int8) AS tasks UNION ALL SELECT * FROM (SELECT x."id", x."run_id", x."shard", x."tenant", x."name", x."position", x."priority", x."state", x."generation", x."seq", x."attempt", x."tries", x."losses", x."attempt_id", x."lease_id", x."worker_id", x."cause", x."because", x."since", x."due_at", x."assigned_at", x."started_at", x."ended_at", x."stop", x."output", x."error", x."birth", x."trail", x."ran_on", x."reserved" FROM tasks_history x WHERE x.state IN ('FAILED', 'TIMED_OUT') AND x.ended_at IS NOT NULL AND (x.birth IS NULL OR x.birth NOT LIKE '%"replaced":true%') AND x.tenant = 'acme'::text AND EXISTS ( SELECT 1 FROM ( SELECT job_id FROM runs WHERE runs.id = x.run_id UNION ALL SELECT job_id FROM runs_history WHERE runs_history.id = x.run_id ) AS r JOIN jobs ON jobs.id = r.job_id WHERE jobs.name = 'report'::text) ORDER BY x.ended_at DESC, x.id DESC LIMIT '10'::int8) AS tasks_history) AS dead ORDER BY ended_at DESC, id DESC LIMIT '10'::int8;
-- 0 rows
SELECT "shard", "tenant", "job", "task", "count", "p50_seconds", "p90_seconds", "p99_seconds", "samples", "updated_at" FROM durations WHERE tenant = 'acme'::text AND job = 'report'::text ORDER BY task, shard LIMIT 1000;
-- 1 rows
SELECT "shard", "kind", "subject", "because", "opened_at", "probed_at", "closed_at" FROM breakers ORDER BY shard, kind, subject LIMIT 1000;
-- 0 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000024","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
BEGIN;
-- done
SELECT pg_advisory_xact_lock('7881696745978421612'::int8);
-- 1 changed
SELECT "id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after" FROM audit_unsealed ORDER BY at, id LIMIT '3'::int8;
-- 3 rows
SELECT found.id FROM unnest('{req_0000000000000003,req_000000000000000b,req_0000000000000010}'::text[]::text[]) AS given (id) CROSS JOIN LATERAL (SELECT id FROM audit WHERE audit.id = given.id AND at >= '2026-11-15 19:47:57.300919+00'::timestamptz AND at <= '2026-11-16 19:47:57.618602+00'::timestamptz LIMIT 1) AS found;
-- 0 rows
SELECT "tenant", "seq", "hash" FROM audit_heads WHERE tenant = ANY('{acme}'::text[]::text[]);
-- 0 rows
DELETE FROM audit_unsealed WHERE id = ANY('{req_0000000000000003,req_000000000000000b,req_0000000000000010}'::text[]::text[]);
-- 3 changed
INSERT INTO audit ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after", "seq", "hash") SELECT * FROM json_to_recordset(E'[{"id":"req_0000000000000003","at":"2026-11-16T19:47:57.300919Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}","seq":1,"hash":"7af372c44e8346f5da03de16dc8a5a264475bacb15aecaa7cc952f5ae73454dd"},{"id":"req_000000000000000b","at":"2026-11-16T19:47:57.411120Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}","seq":2,"hash":"7dcc8cbf8f796bcc60364a8cfa5c4f1b15f83f87722250361936d52c98e251c1"},{"id":"req_0000000000000010","at":"2026-11-16T19:47:57.618602Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}","seq":3,"hash":"4bbd0fc4fada5b1d30b777977bce06c1528e9ac24d4512b834e99956fe3977eb"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text, "seq" bigint, "hash" text);
-- 3 changed
INSERT INTO audit_heads ("tenant", "seq", "hash") SELECT * FROM json_to_recordset('[{"tenant":"acme","seq":3,"hash":"4bbd0fc4fada5b1d30b777977bce06c1528e9ac24d4512b834e99956fe3977eb"}]'::json::json) AS ("tenant" text, "seq" bigint, "hash" text) ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq, hash = excluded.hash;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT pg_advisory_xact_lock('7881696745978421612'::int8);
-- 1 changed
SELECT "id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after" FROM audit_unsealed ORDER BY at, id LIMIT '1000'::int8;
-- 5 rows
SELECT found.id FROM unnest('{req_0000000000000013,req_0000000000000016,req_0000000000000018,req_0000000000000019,req_0000000000000024}'::text[]::text[]) AS given (id) CROSS JOIN LATERAL (SELECT id FROM audit WHERE audit.id = given.id AND at >= '2026-11-15 19:47:57.623977+00'::timestamptz AND at <= '2026-11-16 19:47:57.840255+00'::timestamptz LIMIT 1) AS found;
-- 0 rows
SELECT "tenant", "seq", "hash" FROM audit_heads WHERE tenant = ANY('{acme}'::text[]::text[]);
-- 1 rows
DELETE FROM audit_unsealed WHERE id = ANY('{req_0000000000000013,req_0000000000000016,req_0000000000000018,req_0000000000000019,req_0000000000000024}'::text[]::text[]);
-- 5 changed
INSERT INTO audit ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after", "seq", "hash") SELECT * FROM json_to_recordset(E'[{"id":"req_0000000000000013","at":"2026-11-16T19:47:57.623977Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}","seq":4,"hash":"cdabc0f333c8bd38edc53e97f5cdcddd1e8f0aebad3a753226cba975c49430ae"},{"id":"req_0000000000000016","at":"2026-11-16T19:47:57.626974Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}","seq":5,"hash":"96933567a023cdc8e362aea7908cb7550ba8e9b1c9069130fc6ed53c074d2726"},{"id":"req_0000000000000018","at":"2026-11-16T19:47:57.645161Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}","seq":6,"hash":"2ec19a6b65a8e28a17f40ffa86f0df86f4de78731e13197369339ee56dc732b3"},{"id":"req_0000000000000019","at":"2026-11-16T19:47:57.652125Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}","seq":7,"hash":"2bd6739b325cc0027cd168a49fbc448b03e885634d3a4d9a037aebddd2655a9a"},{"id":"req_0000000000000024","at":"2026-11-16T19:47:57.840255Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}","seq":8,"hash":"d9372d2c1aec26e5ea9163173dfd8d704e46dcd02d7bc5f1cf46645f424196e9"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text, "seq" bigint, "hash" text);
-- 5 changed
INSERT INTO audit_heads ("tenant", "seq", "hash") SELECT * FROM json_to_recordset('[{"tenant":"acme","seq":8,"hash":"d9372d2c1aec26e5ea9163173dfd8d704e46dcd02d7bc5f1cf46645f424196e9"}]'::json::json) AS ("tenant" text, "seq" bigint, "hash" text) ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq, hash = excluded.hash;
-- 1 changed
COMMIT;
-- done
SELECT * FROM (SELECT * FROM (SELECT "id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after", 0 AS seq, '' AS hash FROM audit_unsealed WHERE tenant = 'acme'::text ORDER BY at DESC, id DESC LIMIT '10'::int8) AS audit_unsealed UNION ALL SELECT * FROM (SELECT "id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after", "seq", "hash" FROM audit WHERE tenant = 'acme'::text ORDER BY at DESC, id DESC LIMIT '10'::int8) AS audit) AS told ORDER BY at DESC, id DESC LIMIT '10'::int8;
-- 8 rows
SELECT * FROM (SELECT * FROM (SELECT "id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after", 0 AS seq, '' AS hash FROM audit_unsealed WHERE object = 'run_1'::text AND at >= '2025-03-01 12:00:00.123456+00'::timestamptz AND at <= '2026-11-16 19:47:57.840255+00'::timestamptz AND (at, id) < ('2026-11-16 19:47:57.840255+00'::timestamptz, 'req_0000000000000024'::text) ORDER BY at DESC, id DESC LIMIT '10'::int8) AS audit_unsealed UNION ALL SELECT * FROM (SELECT "id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after", "seq", "hash" FROM audit WHERE object = 'run_1'::text AND at >= '2025-03-01 12:00:00.123456+00'::timestamptz AND at <= '2026-11-16 19:47:57.840255+00'::timestamptz AND (at, id) < ('2026-11-16 19:47:57.840255+00'::timestamptz, 'req_0000000000000024'::text) ORDER BY at DESC, id DESC LIMIT '10'::int8) AS audit) AS told ORDER BY at DESC, id DESC LIMIT '10'::int8;
-- 7 rows
SELECT "id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after", "seq", "hash" FROM audit WHERE tenant = 'acme'::text AND seq > '0'::int8 AND seq <= (SELECT max(seq) FROM (SELECT seq FROM audit WHERE tenant = 'acme'::text AND seq > '0'::int8 ORDER BY seq LIMIT '10'::int8) AS part) ORDER BY seq, id;
-- 8 rows
SELECT "tenant", "seq", "hash" FROM audit_heads WHERE tenant > ''::text ORDER BY tenant LIMIT '10'::int8;
-- 1 rows
BEGIN;
-- done
INSERT INTO tenants ("name", "title", "contact", "note", "version", "created_at", "created_by", "updated_at", "updated_by") SELECT u."name", u."title", u."contact", u."note", 1, statement_timestamp(), u."created_by", statement_timestamp(), u."updated_by" FROM ROWS FROM (json_to_recordset('[{"name":"acme","title":"Acme Ltd.","contact":"ann@example.org","note":"","version":0,"created_at":"1970-01-01T00:00:00Z","created_by":"token:ann","updated_at":"1970-01-01T00:00:00Z","updated_by":"token:ann"}]'::json::json) AS ("name" text, "title" text, "contact" text, "note" text, "version" bigint, "created_at" timestamptz, "created_by" text, "updated_at" timestamptz, "updated_by" text)) AS u WHERE '0'::int8::bigint IS NULL OR '0'::int8::bigint = 0 OR EXISTS (SELECT 1 FROM tenants WHERE tenants.name = u."name") ON CONFLICT (name) DO UPDATE SET title = excluded.title, contact = excluded.contact, note = excluded.note, version = tenants.version + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by WHERE '0'::int8::bigint IS NULL OR tenants.version = '0'::int8::bigint RETURNING "name", "title", "contact", "note", "version", "created_at", "created_by", "updated_at", "updated_by";
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000025","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
SELECT coalesce(tenants.name, named.name) AS name, coalesce(tenants.title, '') AS title, coalesce(tenants.contact, '') AS contact, coalesce(tenants.note, '') AS note, coalesce(tenants.version, 0) AS version, coalesce(tenants.created_at, '1970-01-01 00:00:00+00'::timestamptz) AS created_at, coalesce(tenants.created_by, '') AS created_by, coalesce(tenants.updated_at, '1970-01-01 00:00:00+00'::timestamptz) AS updated_at, coalesce(tenants.updated_by, '') AS updated_by FROM (SELECT CAST('acme'::text AS text) AS name WHERE 'acme'::text <> '*' AND (EXISTS (SELECT 1 FROM tenants WHERE tenants.name = 'acme'::text AND true) OR EXISTS (SELECT 1 FROM jobs WHERE jobs.tenant = 'acme'::text AND true) OR EXISTS (SELECT 1 FROM schedules WHERE schedules.tenant = 'acme'::text AND deleted_at IS NULL) OR EXISTS (SELECT 1 FROM tokens WHERE tokens.tenant = 'acme'::text AND true))) AS named LEFT JOIN tenants ON tenants.name = named.name ORDER BY named.name;
-- 1 rows
SELECT coalesce(tenants.name, named.name) AS name, coalesce(tenants.title, '') AS title, coalesce(tenants.contact, '') AS contact, coalesce(tenants.note, '') AS note, coalesce(tenants.version, 0) AS version, coalesce(tenants.created_at, '1970-01-01 00:00:00+00'::timestamptz) AS created_at, coalesce(tenants.created_by, '') AS created_by, coalesce(tenants.updated_at, '1970-01-01 00:00:00+00'::timestamptz) AS updated_at, coalesce(tenants.updated_by, '') AS updated_by FROM ( WITH RECURSIVE names(name) AS ( SELECT (SELECT min(known.name) FROM (SELECT min(tenants.name) AS name FROM tenants WHERE tenants.name > ''::text AND true UNION ALL SELECT min(jobs.tenant) AS name FROM jobs WHERE jobs.tenant > ''::text AND true UNION ALL SELECT min(schedules.tenant) AS name FROM schedules WHERE schedules.tenant > ''::text AND deleted_at IS NULL UNION ALL SELECT min(tokens.tenant) AS name FROM tokens WHERE tokens.tenant > ''::text AND true) AS known) UNION ALL SELECT (SELECT min(known.name) FROM (SELECT min(tenants.name) AS name FROM tenants WHERE tenants.name > names.name AND true UNION ALL SELECT min(jobs.tenant) AS name FROM jobs WHERE jobs.tenant > names.name AND true UNION ALL SELECT min(schedules.tenant) AS name FROM schedules WHERE schedules.tenant > names.name AND deleted_at IS NULL UNION ALL SELECT min(tokens.tenant) AS name FROM tokens WHERE tokens.tenant > names.name AND true) AS known) FROM names WHERE names.name IS NOT NULL ) SELECT name FROM names WHERE name IS NOT NULL AND name <> '*' LIMIT '10'::int8 ) AS named LEFT JOIN tenants ON tenants.name = named.name ORDER BY named.name;
-- 2 rows
BEGIN;
-- done
INSERT INTO measures ("name", "value", "version", "updated_at", "updated_by", "why") SELECT u."name", u."value", 1, statement_timestamp(), u."updated_by", u."why" FROM ROWS FROM (json_to_recordset('[{"name":"placement.most_per_turn","value":"50","version":0,"updated_at":"1970-01-01T00:00:00Z","updated_by":"token:ann","why":"a busy night"}]'::json::json) AS ("name" text, "value" text, "version" bigint, "updated_at" timestamptz, "updated_by" text, "why" text)) AS u WHERE NULL::int8::bigint IS NULL OR NULL::int8::bigint = 0 OR EXISTS (SELECT 1 FROM measures WHERE measures.name = u."name") ON CONFLICT (name) DO UPDATE SET value = excluded.value, version = measures.version + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by, why = excluded.why WHERE NULL::int8::bigint IS NULL OR measures.version = NULL::int8::bigint RETURNING "name", "value", "version", "updated_at", "updated_by", "why";
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000026","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
SELECT "name", "value", "version", "updated_at", "updated_by", "why" FROM measures ORDER BY name LIMIT 1000;
-- 1 rows
BEGIN;
-- done
DELETE FROM measures WHERE name = 'placement.most_per_turn'::text RETURNING name;
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000027","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO webhooks ("id", "tenant", "url", "events", "job", "enabled", "note", "version", "created_at", "created_by") SELECT u."id", u."tenant", u."url", u."events", u."job", u."enabled", u."note", 1, statement_timestamp(), u."created_by" FROM ROWS FROM (json_to_recordset('[{"id":"hook_00000040","tenant":"acme","url":"https://example.org/hook","events":["run.failed","run.succeeded"],"job":"","enabled":true,"note":"","version":0,"created_at":"1970-01-01T00:00:00Z","created_by":"token:ann"}]'::json::json) AS ("id" text, "tenant" text, "url" text, "events" text, "job" text, "enabled" boolean, "note" text, "version" bigint, "created_at" timestamptz, "created_by" text)) AS u WHERE NULL::int8::bigint IS NULL OR NULL::int8::bigint = 0 OR EXISTS (SELECT 1 FROM webhooks WHERE webhooks.id = u."id") ON CONFLICT (id) DO UPDATE SET tenant = excluded.tenant, url = excluded.url, events = excluded.events, job = excluded.job, enabled = excluded.enabled, note = excluded.note, version = webhooks.version + 1 WHERE NULL::int8::bigint IS NULL OR webhooks.version = NULL::int8::bigint RETURNING "id", "tenant", "url", "events", "job", "enabled", "note", "version", "created_at", "created_by";
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000029","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO webhook_deliveries ("id", "webhook_id", "tenant", "type", "subject", "body", "created_at", "state", "tries", "status", "fault", "last_at") SELECT * FROM json_to_recordset('[{"id":"msg_00000042","webhook_id":"hook_00000040","tenant":"acme","type":"run.failed","subject":"run_1","body":"{}","created_at":"2025-03-01T12:00:00.123456Z","state":"waiting","tries":0,"status":null,"fault":"","last_at":null}]'::json::json) AS ("id" text, "webhook_id" text, "tenant" text, "type" text, "subject" text, "body" text, "created_at" timestamptz, "state" text, "tries" bigint, "status" bigint, "fault" text, "last_at" timestamptz) ON CONFLICT (id) DO NOTHING RETURNING id;
-- 1 rows
INSERT INTO outbox ("id", "key", "kind", "payload", "created_at", due_at) SELECT u."id", u."key", u."kind", u."payload", u."created_at", u.created_at FROM ROWS FROM (json_to_recordset('[{"id":"out_43","key":"key_43","kind":"run.ended","payload":"{}","created_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("id" text, "key" text, "kind" text, "payload" text, "created_at" timestamptz)) WITH ORDINALITY AS u ORDER BY u.ordinality ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
UPDATE webhook_deliveries SET state = 'failed'::text, status = '500'::int8, fault = 'broken'::text, tries = tries + 1, last_at = statement_timestamp() WHERE id = 'msg_00000042'::text;
-- 1 changed
BEGIN;
-- done
UPDATE webhook_deliveries SET state = 'waiting' WHERE id = 'msg_00000042'::text AND EXISTS (SELECT 1 FROM webhooks WHERE webhooks.id = webhook_id) RETURNING id;
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_000000000000002d","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
INSERT INTO outbox ("id", "key", "kind", "payload", "created_at", due_at) SELECT u."id", u."key", u."kind", u."payload", u."created_at", u.created_at FROM ROWS FROM (json_to_recordset('[{"id":"out_44","key":"key_44","kind":"run.ended","payload":"{}","created_at":"2025-03-01T12:00:00.123456Z"}]'::json::json) AS ("id" text, "key" text, "kind" text, "payload" text, "created_at" timestamptz)) WITH ORDINALITY AS u ORDER BY u.ordinality ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
SELECT "id", "tenant", "url", "events", "job", "enabled", "note", "version", "created_at", "created_by" FROM webhooks WHERE id = 'hook_00000040'::text;
-- 1 rows
SELECT "id", "tenant", "url", "events", "job", "enabled", "note", "version", "created_at", "created_by" FROM webhooks WHERE id > ''::text AND tenant = 'acme'::text ORDER BY id LIMIT '10'::int8;
-- 1 rows
SELECT "id", "webhook_id", "tenant", "type", "subject", "body", "created_at", "state", "tries", "status", "fault", "last_at" FROM webhook_deliveries WHERE id = 'msg_00000042'::text AND EXISTS (SELECT 1 FROM webhooks WHERE webhooks.id = webhook_id);
-- 1 rows
SELECT "id", "webhook_id", "tenant", "type", "subject", "body", "created_at", "state", "tries", "status", "fault", "last_at" FROM webhook_deliveries WHERE webhook_id = 'hook_00000040'::text AND EXISTS (SELECT 1 FROM webhooks WHERE webhooks.id = webhook_id) ORDER BY id DESC LIMIT '10'::int8;
-- 1 rows
BEGIN;
-- done
DELETE FROM webhooks WHERE id = 'hook_00000040'::text RETURNING id;
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_000000000000002e","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT name FROM schedules WHERE tenant = 'acme'::text AND job = 'report'::text AND deleted_at IS NULL ORDER BY name LIMIT 5;
-- 0 rows
UPDATE jobs SET deleted_at = statement_timestamp() WHERE tenant = 'acme'::text AND name = 'report'::text AND deleted_at IS NULL;
-- 1 changed
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_000000000000002f","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT pg_advisory_xact_lock(hashtextextended('acme'::text || ' ' || 'report'::text, 0));
-- 1 changed
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000031","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE tenant = 'acme'::text AND name = 'report'::text ORDER BY version DESC LIMIT 1;
-- 1 rows
UPDATE jobs SET deleted_at = NULL WHERE tenant = 'acme'::text AND name = 'report'::text AND deleted_at IS NOT NULL;
-- 1 changed
SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE id = 'job_48'::text;
-- 0 rows
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO shards (id, leader, epoch, lease_until, batch_no, nonce, ttl) VALUES ('eu'::text, '', 0, 'epoch', 0, 0, '0') ON CONFLICT (id) DO NOTHING;
-- 1 changed
INSERT INTO pools ("name", "labels", "zones", "max_resources", "note", "version", "updated_at", "updated_by") SELECT u."name", u."labels", u."zones", u."max_resources", u."note", 1, statement_timestamp(), u."updated_by" FROM ROWS FROM (json_to_recordset(E'[{"name":"eu","labels":"{\\"region\\":\\"eu\\"}","zones":["a","b"],"max_resources":{"cpu_millis":64000,"memory_bytes":0,"gpus":0,"disk_bytes":0},"note":"","version":0,"updated_at":"1970-01-01T00:00:00Z","updated_by":"token:ann"}]'::json::json) AS ("name" text, "labels" text, "zones" text, "max_resources" text, "note" text, "version" bigint, "updated_at" timestamptz, "updated_by" text)) AS u WHERE '0'::int8::bigint IS NULL OR '0'::int8::bigint = 0 OR EXISTS (SELECT 1 FROM pools WHERE pools.name = u."name") ON CONFLICT (name) DO UPDATE SET labels = excluded.labels, zones = excluded.zones, max_resources = excluded.max_resources, note = excluded.note, version = pools.version + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by WHERE '0'::int8::bigint IS NULL OR pools.version = '0'::int8::bigint RETURNING "name", "labels", "zones", "max_resources", "note", "version", "updated_at", "updated_by";
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000032","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
UPDATE rules_version SET version = version + 1;
-- done
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO policies ("name", "label", "value", "requires", "note", "version", "updated_at", "updated_by") SELECT u."name", u."label", u."value", u."requires", u."note", 1, statement_timestamp(), u."updated_by" FROM ROWS FROM (json_to_recordset(E'[{"name":"gdpr","label":"eu_data","value":"","requires":"{\\"region\\":\\"eu\\"}","note":"","version":0,"updated_at":"1970-01-01T00:00:00Z","updated_by":"token:ann"}]'::json::json) AS ("name" text, "label" text, "value" text, "requires" text, "note" text, "version" bigint, "updated_at" timestamptz, "updated_by" text)) AS u WHERE NULL::int8::bigint IS NULL OR NULL::int8::bigint = 0 OR EXISTS (SELECT 1 FROM policies WHERE policies.name = u."name") ON CONFLICT (name) DO UPDATE SET label = excluded.label, value = excluded.value, requires = excluded.requires, note = excluded.note, version = policies.version + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by WHERE NULL::int8::bigint IS NULL OR policies.version = NULL::int8::bigint RETURNING "name", "label", "value", "requires", "note", "version", "updated_at", "updated_by";
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000033","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
UPDATE rules_version SET version = version + 1;
-- done
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO quotas ("tenant", "pool", "quota", "raised", "version", "updated_at", "updated_by", "bookings") SELECT u."tenant", u."pool", u."quota", u."raised", 1, statement_timestamp(), u."updated_by", u."bookings" FROM ROWS FROM (json_to_recordset('[{"tenant":"acme","pool":"eu","quota":{"weight":2.5,"max_tasks":10,"guaranteed":{"cpu_millis":8000,"memory_bytes":0,"gpus":0,"disk_bytes":0},"burst":{"gpus":1}},"raised":{"quota":{"max_tasks":100},"until":"2025-03-01T13:00:00.123456Z","by":"token:bob","why":"end of year"},"version":0,"updated_at":"1970-01-01T00:00:00Z","updated_by":"token:ann","bookings":[{"name":"nightly","cron":"0 2 * * *","zone":"Europe/Paris","seconds":7200,"lead_seconds":600,"guaranteed":{"cpu_millis":16000,"memory_bytes":0,"gpus":0,"disk_bytes":0},"by":"token:bob","why":"the close"}]}]'::json::json) AS ("tenant" text, "pool" text, "quota" text, "raised" text, "version" bigint, "updated_at" timestamptz, "updated_by" text, "bookings" text)) AS u WHERE NULL::int8::bigint IS NULL OR NULL::int8::bigint = 0 OR EXISTS (SELECT 1 FROM quotas WHERE quotas.tenant = u."tenant" AND quotas.pool = u."pool") ON CONFLICT (tenant, pool) DO UPDATE SET quota = excluded.quota, raised = excluded.raised, version = quotas.version + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by, bookings = excluded.bookings WHERE NULL::int8::bigint IS NULL OR quotas.version = NULL::int8::bigint RETURNING "tenant", "pool", "quota", "raised", "version", "updated_at", "updated_by", "bookings";
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000034","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
UPDATE rules_version SET version = version + 1;
-- done
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO p0_grants ("tenant", "by", "why", "since", "until") SELECT u."tenant", u."by", u."why", statement_timestamp(), u."until" FROM ROWS FROM (json_to_recordset('[{"tenant":"acme","by":"token:ann","why":"on call","since":"1970-01-01T00:00:00Z","until":null}]'::json::json) AS ("tenant" text, "by" text, "why" text, "since" timestamptz, "until" timestamptz)) AS u WHERE true ON CONFLICT (tenant) DO UPDATE SET "by" = excluded."by", "why" = excluded."why", "since" = excluded."since", "until" = excluded."until" RETURNING "tenant", "by", "why", "since", "until";
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000035","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
UPDATE rules_version SET version = version + 1;
-- done
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO work_groups ("tenant", "name", "most", "per_seconds", "note", "version", "updated_at", "updated_by") SELECT u."tenant", u."name", u."most", u."per_seconds", u."note", 1, statement_timestamp(), u."updated_by" FROM ROWS FROM (json_to_recordset('[{"tenant":"acme","name":"database","most":3,"per_seconds":null,"note":"","version":0,"updated_at":"1970-01-01T00:00:00Z","updated_by":"token:ann"}]'::json::json) AS ("tenant" text, "name" text, "most" bigint, "per_seconds" double precision, "note" text, "version" bigint, "updated_at" timestamptz, "updated_by" text)) AS u WHERE NULL::int8::bigint IS NULL OR NULL::int8::bigint = 0 OR EXISTS (SELECT 1 FROM work_groups WHERE work_groups.tenant = u."tenant" AND work_groups.name = u."name") ON CONFLICT (tenant, name) DO UPDATE SET most = excluded.most, per_seconds = excluded.per_seconds, note = excluded.note, version = work_groups.version + 1, updated_at = excluded.updated_at, updated_by = excluded.updated_by WHERE NULL::int8::bigint IS NULL OR work_groups.version = NULL::int8::bigint RETURNING "tenant", "name", "most", "per_seconds", "note", "version", "updated_at", "updated_by";
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000036","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
UPDATE rules_version SET version = version + 1;
-- done
COMMIT;
-- done
BEGIN;
-- done
INSERT INTO freezes ("kind", "subject", "by", "why", "since", "until") SELECT u."kind", u."subject", u."by", u."why", statement_timestamp(), u."until" FROM ROWS FROM (json_to_recordset('[{"kind":"tenant","subject":"acme","by":"token:ann","why":"a leak","since":"1970-01-01T00:00:00Z","until":"2025-03-01T13:00:00.123456Z"}]'::json::json) AS ("kind" text, "subject" text, "by" text, "why" text, "since" timestamptz, "until" timestamptz)) AS u WHERE true ON CONFLICT (kind, subject) DO UPDATE SET "by" = excluded."by", "why" = excluded."why", "since" = excluded."since", "until" = excluded."until" RETURNING "kind", "subject", "by", "why", "since", "until";
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000037","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
UPDATE rules_version SET version = version + 1;
-- done
COMMIT;
-- done
SELECT version FROM rules_version;
-- 1 rows
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
-- done
SELECT version FROM rules_version;
-- 1 rows
SELECT "name", "labels", "zones", "max_resources", "note", "version", "updated_at", "updated_by" FROM pools ORDER BY name;
-- 1 rows
SELECT "name", "label", "value", "requires", "note", "version", "updated_at", "updated_by" FROM policies ORDER BY name;
-- 1 rows
SELECT "tenant", "pool", "quota", "raised", "version", "updated_at", "updated_by", "bookings" FROM quotas ORDER BY tenant, pool;
-- 1 rows
SELECT "tenant", "by", "why", "since", "until" FROM p0_grants ORDER BY tenant;
-- 1 rows
SELECT "tenant", "name", "most", "per_seconds", "note", "version", "updated_at", "updated_by" FROM work_groups ORDER BY tenant, name;
-- 1 rows
SELECT "kind", "subject", "by", "why", "since", "until" FROM freezes ORDER BY kind, subject;
-- 1 rows
COMMIT;
-- done
BEGIN;
-- done
SELECT locked.*, clock_timestamp() FROM ( SELECT "limit", "takes", "counts_until" FROM limits WHERE "limit" = ANY('{group:acme/database}'::text[]::text[]) ORDER BY "limit" FOR UPDATE ) AS locked;
-- 0 rows
COMMIT;
-- done
WITH forgotten AS ( DELETE FROM limits WHERE "limit" IN ( SELECT "limit" FROM limits WHERE counts_until < statement_timestamp() AND NOT EXISTS (SELECT 1 FROM shares WHERE shares."limit" = limits."limit") LIMIT 10 FOR UPDATE SKIP LOCKED) ) INSERT INTO limits ("limit", "takes", "counts_until") SELECT name, '[]', statement_timestamp() + interval '3600.000000 seconds' FROM unnest('{group:acme/database}'::text[]::text[]) AS name ON CONFLICT ("limit") DO NOTHING;
-- 1 changed
BEGIN;
-- done
SELECT locked.*, clock_timestamp() FROM ( SELECT "limit", "takes", "counts_until" FROM limits WHERE "limit" = ANY('{group:acme/database}'::text[]::text[]) ORDER BY "limit" FOR UPDATE ) AS locked;
-- 1 rows
SELECT 1 FROM shards WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8 FOR SHARE;
-- 1 rows
SELECT "limit", "holder", "granted", "needed" FROM shares WHERE "limit" = 'group:acme/database'::text ORDER BY holder;
-- 0 rows
INSERT INTO shares ("limit", "holder", "granted", "needed") VALUES ('group:acme/database'::text, 'main'::text, '7'::int8, '7'::int8) ON CONFLICT ("limit", holder) DO UPDATE SET granted = excluded.granted, needed = excluded.needed;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT locked.*, clock_timestamp() FROM ( SELECT "limit", "takes", "counts_until" FROM limits WHERE "limit" = ANY('{other,submissions:acme}'::text[]::text[]) ORDER BY "limit" FOR UPDATE ) AS locked;
-- 0 rows
COMMIT;
-- done
WITH forgotten AS ( DELETE FROM limits WHERE "limit" IN ( SELECT "limit" FROM limits WHERE counts_until < statement_timestamp() AND NOT EXISTS (SELECT 1 FROM shares WHERE shares."limit" = limits."limit") LIMIT 10 FOR UPDATE SKIP LOCKED) ) INSERT INTO limits ("limit", "takes", "counts_until") SELECT name, '[]', statement_timestamp() + interval '3600.000000 seconds' FROM unnest('{other,submissions:acme}'::text[]::text[]) AS name ON CONFLICT ("limit") DO NOTHING;
-- 2 changed
BEGIN;
-- done
SELECT locked.*, clock_timestamp() FROM ( SELECT "limit", "takes", "counts_until" FROM limits WHERE "limit" = ANY('{other,submissions:acme}'::text[]::text[]) ORDER BY "limit" FOR UPDATE ) AS locked;
-- 2 rows
UPDATE limits SET takes = u.takes, counts_until = u.counts_until FROM ROWS FROM (json_to_recordset('[{"limit":"submissions:acme","takes":[["2026-11-16T19:47:58.057494Z",1]],"counts_until":"2026-11-16T20:47:58.057494Z"},{"limit":"other","takes":[["2026-11-16T19:47:58.057494Z",1]],"counts_until":"2026-11-16T20:47:58.057494Z"}]'::json::json) AS ("limit" text, "takes" text, "counts_until" timestamptz)) AS u WHERE limits."limit" = u."limit";
-- 2 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT locked.*, clock_timestamp() FROM ( SELECT "limit", "takes", "counts_until" FROM limits WHERE "limit" = ANY('{group:acme/database}'::text[]::text[]) ORDER BY "limit" FOR UPDATE ) AS locked;
-- 1 rows
SELECT 1 FROM shards WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8 FOR SHARE;
-- 1 rows
SELECT "limit", "holder", "granted", "needed" FROM shares WHERE "limit" = 'group:acme/database'::text ORDER BY holder;
-- 1 rows
INSERT INTO shares ("limit", "holder", "granted", "needed") VALUES ('group:acme/database'::text, 'main'::text, '7'::int8, '7'::int8) ON CONFLICT ("limit", holder) DO UPDATE SET granted = excluded.granted, needed = excluded.needed;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT locked.*, clock_timestamp() FROM ( SELECT "limit", "takes", "counts_until" FROM limits WHERE "limit" = ANY('{other,submissions:acme}'::text[]::text[]) ORDER BY "limit" FOR UPDATE ) AS locked;
-- 2 rows
UPDATE limits SET takes = u.takes, counts_until = u.counts_until FROM ROWS FROM (json_to_recordset('[{"limit":"submissions:acme","takes":[["2026-11-16T19:47:58.057494Z",1],["2026-11-16T19:47:58.068074Z",1]],"counts_until":"2026-11-16T20:47:58.068074Z"},{"limit":"other","takes":[["2026-11-16T19:47:58.057494Z",1],["2026-11-16T19:47:58.068074Z",1]],"counts_until":"2026-11-16T20:47:58.068074Z"}]'::json::json) AS ("limit" text, "takes" text, "counts_until" timestamptz)) AS u WHERE limits."limit" = u."limit";
-- 2 changed
COMMIT;
-- done
BEGIN;
-- done
UPDATE shards SET lease_until = clock_timestamp() + ttl, batch_no = '6'::int4 WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8 AND batch_no = '6'::int4 - 1 RETURNING clock_timestamp();
-- 1 rows
WITH u AS (SELECT * FROM unnest('{group:acme/database}'::text[]::text[], '{1}'::int8[]::bigint[], '{1}'::int8[]::bigint[]) AS u ("limit", granted, needed)), given_back AS ( DELETE FROM shares USING u WHERE shares."limit" = u."limit" AND holder = 'main'::text AND least(shares.granted, u.granted) = 0 AND u.needed = 0 ) UPDATE shares SET granted = least(shares.granted, u.granted), needed = u.needed FROM u WHERE shares."limit" = u."limit" AND holder = 'main'::text AND NOT (least(shares.granted, u.granted) = 0 AND u.needed = 0);
-- 1 changed
INSERT INTO tallies ("shard", "tenant", "since", "failures") SELECT * FROM json_to_recordset('[{"shard":"main","tenant":"acme","since":"2025-03-01T12:00:00.123456Z","failures":1}]'::json::json) AS ("shard" text, "tenant" text, "since" timestamptz, "failures" bigint) ON CONFLICT (shard, since, tenant) DO UPDATE SET failures = excluded.failures;
-- 1 changed
DELETE FROM tallies WHERE shard = 'main'::text AND since < statement_timestamp() - interval '3900.000000 seconds';
-- 1 changed
COMMIT;
-- done
SELECT "limit", "holder", "granted", "needed" FROM shares WHERE "limit" = ANY('{group:acme/database}'::text[]::text[]) ORDER BY "limit", holder;
-- 1 rows
BEGIN;
-- done
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
-- done
SELECT p.priority, ( SELECT count(*) FROM ( SELECT 1 FROM runs WHERE shard = 'main'::text AND priority = p.priority AND adopted_at IS NULL AND held IS NULL AND start_at <= statement_timestamp() LIMIT '10'::int8::bigint ) AS counted ) FROM unnest('{0,1,2}'::int8[]::bigint[]) AS p (priority);
-- 3 rows
COMMIT;
-- done
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
-- done
SELECT "id", "shard", "tenant", "job_id", "priority", "params", "task_count", "submitted_by", "linked_run", "watched", "created_at", "start_at", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task", "timed_out", "because", "schedule_id", "window_at", "retries", "started_at", "finish_by", "at_risk_at" FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT') ORDER BY id;
-- 0 rows
SELECT found."id", found."run_id", found."shard", found."tenant", found."name", found."position", found."priority", found."state", found."generation", found."seq", found."attempt", found."tries", found."losses", found."attempt_id", found."lease_id", found."worker_id", found."cause", found."because", found."since", found."due_at", found."assigned_at", found."started_at", found."ended_at", found."stop", found."output", found."error", found."birth", found."trail", found."ran_on", found."reserved" FROM (SELECT id FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) AS active CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.id > 'task_' || substr(active.id, 5) || '.' AND tasks.id < 'task_' || substr(active.id, 5) || '/' AND tasks.run_id = active.id OFFSET 0) AS found ORDER BY found.run_id, found.position;
-- 0 rows
SELECT "id", "tenant", "name", "version", "definition", "created_at", "created_by", "deleted_at", "labels" FROM jobs WHERE id IN (SELECT job_id FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY id;
-- 0 rows
SELECT "run_id", "parent", "generation", "kind", "shard", "total", "done", "by", "why" FROM spreads WHERE run_id IN (SELECT id FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY run_id, parent, generation, kind;
-- 0 rows
SELECT "task_id", "run_id", "attempt_id", "document", "saved_at" FROM checkpoints WHERE run_id IN (SELECT id FROM runs WHERE shard = 'main'::text AND adopted_at IS NOT NULL AND state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY task_id;
-- 0 rows
SELECT "id", "shard", "offer", "labels", "zone", "version", "status", "since", "last_heard_at", "hold", "hold_why" FROM workers WHERE shard = 'main'::text AND hold <> '' ORDER BY id;
-- 1 rows
SELECT "shard", "kind", "subject", "because", "opened_at", "probed_at", "closed_at" FROM breakers WHERE shard = 'main'::text ORDER BY kind, subject;
-- 0 rows
SELECT "shard", "tenant", "job", "task", "count", "p50_seconds", "p90_seconds", "p99_seconds", "samples", "updated_at" FROM durations WHERE shard = 'main'::text ORDER BY updated_at DESC, tenant, job, task LIMIT 20000;
-- 1 rows
SELECT "limit", "holder", "granted", "needed" FROM shares WHERE holder = 'main'::text ORDER BY "limit";
-- 1 rows
SELECT "shard", "tenant", "since", "failures" FROM tallies WHERE shard = 'main'::text AND since > statement_timestamp() - interval '3900.000000 seconds' ORDER BY since, tenant;
-- 0 rows
COMMIT;
-- done
BEGIN;
-- done
DELETE FROM policies WHERE name = 'gdpr'::text RETURNING 1;
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000038","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
UPDATE rules_version SET version = version + 1;
-- done
COMMIT;
-- done
BEGIN;
-- done
DELETE FROM quotas WHERE tenant = 'acme'::text AND pool = 'eu'::text RETURNING 1;
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_0000000000000039","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
UPDATE rules_version SET version = version + 1;
-- done
COMMIT;
-- done
BEGIN;
-- done
DELETE FROM p0_grants WHERE tenant = 'acme'::text RETURNING 1;
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_000000000000003a","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
UPDATE rules_version SET version = version + 1;
-- done
COMMIT;
-- done
BEGIN;
-- done
DELETE FROM work_groups WHERE tenant = 'acme'::text AND name = 'database'::text RETURNING 1;
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_000000000000003b","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
UPDATE rules_version SET version = version + 1;
-- done
DELETE FROM shares WHERE "limit" = 'group:acme/database'::text;
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
DELETE FROM freezes WHERE kind = 'tenant'::text AND subject = 'acme'::text RETURNING 1;
-- 1 rows
INSERT INTO audit_unsealed ("id", "at", "tenant", "actor", "source", "act", "object", "why", "before", "after") SELECT u."id", clock_timestamp(), u."tenant", u."actor", u."source", u."act", u."object", u."why", u."before", u."after" FROM ROWS FROM (json_to_recordset(E'[{"id":"req_000000000000003c","at":"1970-01-01T00:00:00Z","tenant":"acme","actor":"token:ann","source":"192.0.2.7","act":"cancel_run","object":"run_1","why":"it is wrong","before":null,"after":"{\\"state\\":\\"CANCELLED\\"}"}]'::json::json) AS ("id" text, "at" timestamptz, "tenant" text, "actor" text, "source" text, "act" text, "object" text, "why" text, "before" text, "after" text)) AS u ON CONFLICT (id) DO NOTHING;
-- 1 changed
UPDATE rules_version SET version = version + 1;
-- done
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'transitions'::text::text::regclass ORDER BY c.relname;
-- 2 rows
DELETE FROM transitions_default WHERE ctid = ANY(ARRAY( SELECT ctid FROM transitions_default x WHERE x.at < '2026-10-17 19:47:58.17299+00'::timestamptz AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = x.run_id AND r.state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY x.at LIMIT '1000'::int8));
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
DELETE FROM attempts_default WHERE ctid = ANY(ARRAY( SELECT ctid FROM attempts_default x WHERE x.ended_at < '2026-10-17 19:47:58.179957+00'::timestamptz AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = x.run_id AND r.state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY x.ended_at LIMIT '1000'::int8));
-- 1 changed
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'late_results'::text::text::regclass ORDER BY c.relname;
-- 2 rows
DELETE FROM late_results_default WHERE ctid = ANY(ARRAY( SELECT ctid FROM late_results_default x WHERE x.at < '2026-10-17 19:47:58.179957+00'::timestamptz AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.id = x.attempt_id) ORDER BY x.at LIMIT '999'::int8));
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
DELETE FROM tasks_history_default WHERE ctid = ANY(ARRAY( SELECT ctid FROM tasks_history_default x WHERE x.run_ended_at < '2026-10-17 19:47:58.191346+00'::timestamptz ORDER BY x.run_ended_at LIMIT '1000'::int8));
-- 1 changed
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'runs_history'::text::text::regclass ORDER BY c.relname;
-- 2 rows
DELETE FROM runs_history_default WHERE ctid = ANY(ARRAY( SELECT ctid FROM runs_history_default x WHERE x.ended_at < '2026-10-17 19:47:58.191346+00'::timestamptz ORDER BY x.ended_at LIMIT '999'::int8));
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
DELETE FROM idempotency WHERE ctid = ANY(ARRAY( SELECT ctid FROM idempotency x WHERE x.at < '2026-10-17 19:47:58.202382+00'::timestamptz AND NOT EXISTS ( SELECT 1 FROM (SELECT unnest(x.run_ids) AS id) AS given JOIN runs r ON r.id = given.id WHERE r.state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY x.at LIMIT '1000'::int8));
-- 0 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
DELETE FROM outbox WHERE ctid = ANY(ARRAY( SELECT ctid FROM outbox x WHERE x.delivered_at < '2026-10-17 19:47:58.20519+00'::timestamptz ORDER BY x.delivered_at LIMIT '1000'::int8));
-- 0 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
DELETE FROM rejected_events WHERE ctid = ANY(ARRAY( SELECT ctid FROM rejected_events x WHERE x.at < '2026-10-17 19:47:58.208673+00'::timestamptz AND NOT (EXISTS (SELECT 1 FROM runs r WHERE r.id = x.subject AND r.state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) OR EXISTS ( SELECT 1 FROM tasks t JOIN runs r ON r.id = t.run_id WHERE t.id = x.subject AND r.state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT'))) ORDER BY x.at LIMIT '1000'::int8));
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
DELETE FROM workers WHERE ctid = ANY(ARRAY( SELECT ctid FROM workers x WHERE x.since < '2026-10-17 19:47:58.213182+00'::timestamptz AND NOT x.status NOT IN ('gone', 'lost') ORDER BY x.since LIMIT '1000'::int8));
-- 0 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
DELETE FROM fires WHERE ctid = ANY(ARRAY( SELECT ctid FROM fires x WHERE x.decided_at < '2026-10-17 19:47:58.215116+00'::timestamptz AND NOT ((outcome = 'waiting' OR (outcome = 'ran' AND run_ended_at IS NULL)) OR EXISTS (SELECT 1 FROM runs r WHERE r.id = x.run_id AND r.state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT'))) ORDER BY x.decided_at LIMIT '1000'::int8));
-- 0 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
DELETE FROM events WHERE ctid = ANY(ARRAY( SELECT ctid FROM events x WHERE x.received_at < '2026-10-17 19:47:58.220829+00'::timestamptz ORDER BY x.received_at LIMIT '1000'::int8));
-- 0 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
DELETE FROM alerts WHERE ctid = ANY(ARRAY( SELECT ctid FROM alerts x WHERE x.resolved_at < '2026-10-17 19:47:58.222898+00'::timestamptz ORDER BY x.resolved_at LIMIT '1000'::int8));
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
DELETE FROM schedule_changes WHERE ctid = ANY(ARRAY( SELECT ctid FROM schedule_changes x WHERE x.at < '2026-10-17 19:47:58.228004+00'::timestamptz ORDER BY x.at LIMIT '1000'::int8));
-- 3 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'audit'::text::text::regclass ORDER BY c.relname;
-- 2 rows
DELETE FROM audit_default WHERE ctid = ANY(ARRAY( SELECT ctid FROM audit_default x WHERE x.at < '2026-10-17 19:47:58.23087+00'::timestamptz AND NOT EXISTS (SELECT 1 FROM audit_heads h WHERE h.tenant = x.tenant AND h.seq = x.seq) ORDER BY x.at LIMIT '1000'::int8));
-- 0 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
DELETE FROM webhook_deliveries WHERE ctid = ANY(ARRAY( SELECT ctid FROM webhook_deliveries x WHERE x.created_at < '2026-10-17 19:47:58.234004+00'::timestamptz AND NOT (x.state = 'waiting' AND EXISTS (SELECT 1 FROM webhooks WHERE webhooks.id = webhook_id)) ORDER BY x.created_at LIMIT '1000'::int8));
-- 1 changed
COMMIT;
-- done
BEGIN;
-- done
SELECT clock_timestamp();
-- 1 rows
SELECT pg_advisory_xact_lock('7881696745726507379'::int8);
-- 1 changed
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'decisions'::text::text::regclass ORDER BY c.relname;
-- 2 rows
DELETE FROM decisions_default WHERE ctid = ANY(ARRAY( SELECT ctid FROM decisions_default x WHERE x.at < '2026-10-17 19:47:58.240031+00'::timestamptz AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = x.run_id AND r.state NOT IN ('CANCELLED', 'FAILED', 'PARTIAL', 'SUCCEEDED', 'TIMED_OUT')) ORDER BY x.at LIMIT '1000'::int8));
-- 1 changed
COMMIT;
-- done
UPDATE shards SET leader = '', nonce = 0, lease_until = clock_timestamp() WHERE id = 'main'::text AND epoch = '1'::int8 AND nonce = '1'::int8;
-- 1 changed
