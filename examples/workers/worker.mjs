#!/usr/bin/env node
// A worker in plain JavaScript: Node 20 or later, no packages. It serves the functions of a module by their names.
//
//     MAINSPRING_API_KEY=msp_.. node worker.mjs ./handlers.mjs
//
//     {"name": "greet", "tasks": [{"name": "hello", "work": {"handler": "greet", "args": {"name": "Ann"}}}]}
//
// A function gets its `args`, and the claimed run with `signal` (aborted when it is to stop), `say` (how far it is) and
// `log`. What it returns is the task's output; what it throws is its error, which is final if it has `permanent: true`.
// docs/guides/worker-in-any-language.md explains every call.

import { hostname } from "node:os";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const env = process.env;
const SERVER = (env.MAINSPRING_SERVER_URL ?? "http://127.0.0.1:8484") + "/api/v1";
const WORKER = env.WORKER_ID ?? `${hostname()}-${process.pid}`;
const PLACES = Number(env.WORKER_PLACES ?? 4); // so many at a time
const CLAIM_SECONDS = Number(env.WORKER_CLAIM_SECONDS ?? 60); // what is claimed is started within this time
const BEAT_SECONDS = Number(env.WORKER_BEAT_SECONDS ?? 10);
const GRACE_SECONDS = Number(env.WORKER_GRACE_SECONDS ?? 25); // from SIGTERM until what runs is given up
const LONGEST_DELAY_SECONDS = 15;
const HEADERS = { "Content-Type": "application/json" };
if (env.MAINSPRING_API_KEY) HEADERS.Authorization = `Bearer ${env.MAINSPRING_API_KEY}`;

const handlers = await import(pathToFileURL(resolve(process.argv[2] ?? "handlers.mjs")).href);
const leaving = new AbortController(); // somebody ends this worker: nothing more is claimed
const running = new Map(); // by run_id: what stops it, and the promise of its end

/** 409: the attempt is over, or another worker's. There is nothing left to do for it. */
class NotOurs extends Error {}

/** Another 4xx: the request is wrong, and stays wrong. */
class Refused extends Error {}

/** Say something to the server, again and again until it hears it: every call may be repeated. */
async function call(path, body, signal) {
  for (let delay = 0.5; ; delay = Math.min(2 * delay, LONGEST_DELAY_SECONDS)) {
    let wait = delay * (0.5 + Math.random());
    let why;
    try {
      const patience = AbortSignal.timeout(60_000);
      const answer = await fetch(SERVER + path, {
        method: "POST",
        headers: HEADERS,
        body: JSON.stringify(body),
        signal: signal ? AbortSignal.any([signal, patience]) : patience,
      });
      const said = await answer.text();
      if (answer.ok) return JSON.parse(said);
      if (answer.status === 409) throw new NotOurs(said);
      if (answer.status < 500 && answer.status !== 429) throw new Refused(`${path}: ${answer.status} ${said}`);
      wait = Math.max(wait, Number(answer.headers.get("Retry-After") ?? 0));
      why = answer.status;
    } catch (error) {
      if (error instanceof NotOurs || error instanceof Refused || signal?.aborted) throw error;
      why = error.cause?.code ?? error.message;
    }
    console.error(`${path}: ${why}; once more in ${wait.toFixed(1)} s`);
    await sleep(1_000 * wait, undefined, { signal });
  }
}

/** Claim as much as there is room for, until somebody ends this worker. */
async function main() {
  const served = Object.keys(handlers).filter((name) => typeof handlers[name] === "function");
  const wish = { worker_id: WORKER, claim_duration_seconds: CLAIM_SECONDS, wait_seconds: 20, handlers: served };
  if (env.MAINSPRING_POOL) wish.pool = env.MAINSPRING_POOL;
  console.log(`${WORKER} serves ${served.join(", ")} at ${SERVER}`);
  while (!leaving.signal.aborted) {
    const room = Math.min(PLACES - running.size, 100);
    if (room <= 0) {
      await Promise.race([...running.values()].map((one) => one.end));
      continue;
    }
    const answer = await call("/scheduler/claim-runs", { ...wish, max_claims: room }, leaving.signal);
    for (const run of answer.claimed_runs) {
      const stop = new AbortController();
      running.set(run.run_id, { stop, end: work(run, stop).finally(() => running.delete(run.run_id)) });
    }
  }
}

/** Start what was claimed, carry it out, and say how it ended. */
async function work(run, stop) {
  const at = `/pipeline-runs/${encodeURIComponent(run.run_id)}`;
  const over = new AbortController();
  const news = { stage: {}, log: "" };
  const tell = async (signal) => {
    const log = news.log;
    news.log = "";
    return call(`${at}/heartbeat`, { worker_id: WORKER, ...news.stage, log: log.slice(0, 100_000) }, signal);
  };
  try {
    const context = { node: process.version, pid: process.pid };
    await call(`${at}/start`, { worker_id: WORKER, execution_context: context });
    const beating = beat(tell, stop, over.signal);
    const end = await carryOut(run, stop.signal, news);
    over.abort();
    await beating;
    if (stop.signal.reason instanceof NotOurs) throw stop.signal.reason;
    if (news.log) await tell();
    await call(`${at}/${end.call}`, { worker_id: WORKER, ...end.body });
    console.log(`${run.run_id} ${run.task}: ${end.call}`);
  } catch (error) {
    console.error(`${run.run_id} ${run.task}: dropped: ${error.message}`);
  } finally {
    over.abort();
  }
}

/** Call the function; how it ended, as the server is told. */
async function carryOut(run, signal, news) {
  const say = (stage) => (news.stage = stage);
  const log = (line) => (news.log += `${line}\n`);
  try {
    const handler = handlers[run.work.handler];
    if (!handler) throw Object.assign(new Error(`there is no function ${run.work.handler}`), { permanent: true });
    const output = await handler(run.work.args ?? {}, { ...run, signal, say, log });
    return { call: "complete", body: { status: "SUCCESS", result_summary: output ?? null } };
  } catch (error) {
    const details = { message: String(error.message ?? error), stack: String(error.stack ?? "").slice(0, 4_000) };
    const body = { error_type: String(error.name ?? "Error").slice(0, 200), error_details: details };
    return { call: "fail", body: { ...body, should_retry: error.permanent !== true } };
  }
}

/** Say that it goes on, until it is over; stop it if the answer says so, or if it is not ours any more. */
async function beat(tell, stop, over) {
  try {
    while (!over.aborted) {
      await sleep(1_000 * BEAT_SECONDS, undefined, { signal: over });
      const answer = await tell(over);
      if (answer.stop) stop.abort(new Error(answer.why));
    }
  } catch (error) {
    if (!over.aborted) stop.abort(error);
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
// What runs is finished; what takes too long is stopped, fails, and is tried again elsewhere.
const giveUp = () => running.forEach((one) => one.stop.abort(new Error("the worker ends")));
const late = setTimeout(giveUp, 1_000 * GRACE_SECONDS);
await Promise.all([...running.values()].map((one) => one.end));
clearTimeout(late);
