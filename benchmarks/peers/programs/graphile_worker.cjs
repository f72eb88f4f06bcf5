// Graphile Worker. `install` makes its tables, `work` is a worker, `drive` answers questions as answering.py says.
//
// Node has no memory map: a task writes its moment into the file that others have mapped, which is the same memory.
// hrtime is the clock that Python calls monotonic.

'use strict';

const fs = require('node:fs');
const readline = require('node:readline');
const { Logger, makeWorkerUtils, run } = require('graphile-worker');
const { Pool } = require('pg');

const connectionString = process.env.PEERS_POSTGRES;
const JOBS_AT_A_TIME = 24;
const TAKEN_AT_ONCE = 500;
const silent = new Logger(() => () => {});
const now = () => Number(process.hrtime.bigint()) / 1e9;

async function install() {
  const utils = await makeWorkerUtils({ connectionString, logger: silent });
  await utils.migrate();
  await utils.release();
}

async function work() {
  const marks = fs.openSync(process.env.PEERS_MARKS, 'r+');
  const moment = Buffer.alloc(8);
  const noop = async ({ number }) => {
    moment.writeDoubleLE(now());
    fs.writeSync(marks, moment, 0, 8, number * 8);
  };
  const preset = {
    worker: {
      connectionString,
      concurrentJobs: JOBS_AT_A_TIME,
      maxPoolSize: JOBS_AT_A_TIME + 1,
      localQueue: { size: TAKEN_AT_ONCE },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  };
  const runner = await run({ preset, logger: silent, taskList: { noop } });
  await runner.promise;
}

async function drive() {
  const pool = new Pool({ connectionString });
  const utils = await makeWorkerUtils({ pgPool: pool, logger: silent });
  const actions = {
    async enqueue({ first, count }) {
      for (let number = first; number < first + count; number += 1) await utils.addJob('noop', { number });
    },
    async enqueue_many({ first, count }) {
      await pool.query(
        "SELECT count(graphile_worker.add_job('noop', json_build_object('number', i))) FROM generate_series($1::int, $2::int) i",
        [first, first + count - 1],
      );
    },
    async left() {
      const { rows } = await pool.query('SELECT count(*)::int AS left FROM graphile_worker.jobs');
      return rows[0].left;
    },
  };
  const say = (what) => fs.writeSync(1, `${JSON.stringify(what)}\n`);
  say({ actions: Object.keys(actions) });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { do: name, ...values } = JSON.parse(line);
    const began_at = now();
    const answer = await actions[name](values);
    say({ began_at, ended_at: now(), answer: typeof answer === 'number' ? answer : null });
  }
  await pool.end();
}

({ install, work, drive })[process.argv[2]]().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
