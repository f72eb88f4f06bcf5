// The worker's handlers: each exported function is one, by its name.

import { setTimeout as sleep } from "node:timers/promises";

/** {"handler": "greet", "args": {"name": "Ann"}} */
export function greet({ name }) {
  return { greeting: `Hello ${name}` };
}

/** {"handler": "count", "args": {"to": 100, "seconds": 0.1}}: slow, reports progress, and can be stopped. */
export async function count({ to, seconds }, { signal, report }) {
  for (let n = 1; n <= to; n++) {
    await sleep(1_000 * seconds, undefined, { signal });
    report({ current_stage: "counting", progress_percentage: (100 * n) / to, records_processed: n });
  }
  return { counted: to };
}

/** {"handler": "fail", "args": {"permanent": true}} */
export function fail({ permanent }) {
  throw Object.assign(new Error("failed as requested"), { permanent });
}
