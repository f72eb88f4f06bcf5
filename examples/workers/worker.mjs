#!/usr/bin/env node
// A worker in plain JavaScript: Node 20 or later, no packages. Serves the functions that a module exports.
//
//     MAINSPRING_API_KEY=msp_.. node worker.mjs ./handlers.mjs
//
//     {"name": "greet", "tasks": [{"name": "hello", "work": {"handler": "greet", "args": {"name": "Ann"}}}]}
//
// A function gets its `args`, and the claimed run with `signal` (aborted when it must stop), `report` (progress) and
// `log`. Its return value is the task's output; an exception is its error, which is permanent with `permanent: true`.
// docs/guides/worker-in-any-language.md explains every call.

import { hostname } from "node:os";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const env = process.env;
const SERVER = (env.MAINSPRING_SERVER_URL ?? "http://127.0.0.1:8484") + "/api/v1";
const WORKER = env.WORKER_ID ?? `${hostname()}-${process.pid}`;
const SLOTS = Number(env.WORKER_SLOTS ?? 4); // maximum concurrent tasks
const CLAIM_SECONDS = Number(env.WORKER_CLAIM_SECONDS ?? 60); // a claimed run must start within this time
const BEAT_SECONDS = Number(env.WORKER_BEAT_SECONDS ?? 10);
const GRACE_SECONDS = Number(env.WORKER_GRACE_SECONDS ?? 25); // from SIGTERM until running tasks are aborted
const MAX_DELAY_SECONDS = 15;
const HEADERS = { "Content-Type": "application/json" };
if (env.MAINSPRING_API_KEY) HEADERS.Authorization = `Bearer ${env.MAINSPRING_API_KEY}`;

const handlers = await import(pathToFileURL(resolve(process.argv[2] ?? "handlers.mjs")).href);
const leaving = new AbortController(); // this worker is stopping: nothing more is claimed
const running = new Map(); // by run_id: its AbortController, and the promise of its end

/** 409: the claim was lost. Abandon the task. */
class ClaimLost extends Error {}

/** Another 4xx: invalid request (not retryable). */
class Refused extends Error {}

/** Call the server, with retries: every call is idempotent. */
async function call(path, body, signal) {
  for (let delay = 0.5; ; delay = Math.min(2 * delay, MAX_DELAY_SECONDS)) {
    let wait = delay * (0.5 + Math.random());
    let why;
    try {
      const timeout = AbortSignal.timeout(60_000);
      const response = await fetch(SERVER + path, {
        method: "POST",
        headers: HEADERS,
        body: JSON.stringify(body),
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      });
      const text = await response.text();
      if (response.ok) return JSON.parse(text);
      if (response.status === 409) throw new ClaimLost(text);
      if (response.status < 500 && response.status !== 429) throw new Refused(`${path}: ${response.status} ${text}`);
      wait = Math.max(wait, Number(response.headers.get("Retry-After") ?? 0));
      why = response.status;
    } catch (error) {
      if (error instanceof ClaimLost || error instanceof Refused || signal?.aborted) throw error;
      why = error.cause?.code ?? error.message;
    }
    console.error(`${path}: ${why}; retrying in ${wait.toFixed(1)}s`);
    await sleep(1_000 * wait, undefined, { signal });
  }
}

/** Claim runs for the free slots, until this worker is stopped. */
async function main() {
  const served = Object.keys(handlers).filter((name) => typeof handlers[name] === "function");
  const request = { worker_id: WORKER, claim_duration_seconds: CLAIM_SECONDS, wait_seconds: 20, handlers: served };
  if (env.MAINSPRING_POOL) request.pool = env.MAINSPRING_POOL;
  console.log(`${WORKER} serves ${served.join(", ")} at ${SERVER}`);
  while (!leaving.signal.aborted) {
    const slots = Math.min(SLOTS - running.size, 100);
    if (slots <= 0) {
      await Promise.race([...running.values()].map((one) => one.end));
      continue;
    }
    const answer = await call("/scheduler/claim-runs", { ...request, max_claims: slots }, leaving.signal);
    for (const run of answer.claimed_runs) {
      const stop = new AbortController();
      running.set(run.run_id, { stop, end: work(run, stop).finally(() => running.delete(run.run_id)) });
    }
  }
}

/** Start a claimed run, execute it, and report its result. */
async function work(run, stop) {
  const at = `/pipeline-runs/${encodeURIComponent(run.run_id)}`;
  const ended = new AbortController();
  const updates = { stage: {}, log: "" };
  const heartbeat = async (signal) => {
    const log = updates.log;
    updates.log = "";
    return call(`${at}/heartbeat`, { worker_id: WORKER, ...updates.stage, log: log.slice(0, 100_000) }, signal);
  };
  try {
    const context = { node: process.version, pid: process.pid };
    await call(`${at}/start`, { worker_id: WORKER, execution_context: context });
    const heartbeats = sendHeartbeats(heartbeat, stop, ended.signal);
    const end = await execute(run, stop.signal, updates);
    ended.abort();
    await heartbeats;
    if (stop.signal.reason instanceof ClaimLost) throw stop.signal.reason;
    if (updates.log) await heartbeat();
    await call(`${at}/${end.call}`, { worker_id: WORKER, ...end.body });
    console.log(`${run.run_id} ${run.task}: ${end.call}`);
  } catch (error) {
    console.error(`${run.run_id} ${run.task}: dropped: ${error.message}`);
  } finally {
    ended.abort();
  }
}

/** Call the function, and return the call that reports its result. */
async function execute(run, signal, updates) {
  const report = (stage) => (updates.stage = stage);
  const log = (line) => (updates.log += `${line}\n`);
  try {
    const handler = handlers[run.work.handler];
    if (!handler) throw Object.assign(new Error(`no function ${run.work.handler}`), { permanent: true });
    const output = await handler(run.work.args ?? {}, { ...run, signal, report, log });
    return { call: "complete", body: { status: "SUCCESS", result_summary: output ?? null } };
  } catch (error) {
    const details = { message: String(error.message ?? error), stack: String(error.stack ?? "").slice(0, 4_000) };
    const body = { error_type: String(error.name ?? "Error").slice(0, 200), error_details: details };
    return { call: "fail", body: { ...body, should_retry: error.permanent !== true } };
  }
}

/** Send heartbeats until the run has ended; stop it if the response requests it, or if the claim was lost. */
async function sendHeartbeats(heartbeat, stop, ended) {
  try {
    while (!ended.aborted) {
      await sleep(1_000 * BEAT_SECONDS, undefined, { signal: ended });
      const answer = await heartbeat(ended);
      if (answer.stop) stop.abort(new Error(answer.why));
    }
  } catch (error) {
    if (!ended.aborted) stop.abort(error);
  }
}

for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => leaving.abort());
try {
  await main();
} catch (error) {
  if (!leaving.signal.aborted) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
// Running tasks finish; those that take too long are aborted, fail, and are retried elsewhere.
const abortAll = () => running.forEach((one) => one.stop.abort(new Error("the worker is stopping")));
const deadline = setTimeout(abortAll, 1_000 * GRACE_SECONDS);
await Promise.all([...running.values()].map((one) => one.end));
clearTimeout(deadline);
