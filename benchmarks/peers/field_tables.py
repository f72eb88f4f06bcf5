"""Queues that are tables of PostgreSQL."""

from __future__ import annotations

from benchmarks.peers.peer import Peer, Service, Sizes, Variant, program

_NO_GRAPHS = "chains and fan-ins: a task can only enqueue others by itself"
_PROCRASTINATE = ("{bin}/procrastinate", "--app", "benchmarks.peers.programs.procrastinate.app")

PGQUEUER = Peer(
    name="pgqueuer",
    title="pgqueuer",
    driver=program("pgqueuer"),
    packages=("pgqueuer[asyncpg]", "uvloop"),
    lacks=_NO_GRAPHS,
    required=True,
    quick_start=(
        "pip install 'pgqueuer[asyncpg]'",
        "(start PostgreSQL, set PGHOST, PGUSER, PGDATABASE)",
        "pgq install",
        "pgq run consumer:main",
        "python producer.py",
    ),
    variants=(
        Variant(
            name="pgqueuer",
            store="postgres",
            settings="two worker processes on uvloop, 100 jobs taken at a time, durable tables",
            durable="A job when its insert is committed. Completions are collected in the worker and written together: "
            "jobs that have ended are run again if it dies before that.",
            prepare=((*program("pgqueuer"), "install"),),
            workers=(Service(words=(*program("pgqueuer"), "work")),) * 2,
            sizes=Sizes(tasks=20_000),
        ),
    ),
)

PROCRASTINATE = Peer(
    name="procrastinate",
    title="Procrastinate",
    driver=program("procrastinate"),
    packages=("procrastinate", "psycopg[binary]"),
    lacks=_NO_GRAPHS,
    required=True,
    quick_start=(
        "pip install procrastinate",
        "(start PostgreSQL, write app.py with its address)",
        "procrastinate --app=app.app schema --apply",
        "procrastinate --app=app.app worker",
        "python app.py",
    ),
    variants=(
        Variant(
            name="Procrastinate",
            store="postgres",
            settings="two worker processes, 20 jobs at a time each; ended jobs are kept, as it comes",
            durable="A job when its insert is committed; its start and its end each in a commit of its own, with "
            "events written by triggers.",
            prepare=((*_PROCRASTINATE, "schema", "--apply"),),
            workers=(Service(words=(*_PROCRASTINATE, "worker", "--concurrency", "20")),) * 2,
            sizes=Sizes(tasks=5_000),
        ),
    ),
)

_GRAPHILE = ("node", "{programs}/graphile_worker.cjs")

GRAPHILE_WORKER = Peer(
    name="graphile-worker",
    title="Graphile Worker",
    driver=(*_GRAPHILE, "drive"),
    modules=("graphile-worker",),
    lacks=_NO_GRAPHS,
    required=True,
    quick_start=(
        "npm install --save graphile-worker",
        "(start PostgreSQL) createdb example",
        "(write index.js) node index.js",
        "psql example -c \"SELECT graphile_worker.add_job('hello', json_build_object('name', 'Bobby Tables'))\"",
    ),
    variants=(
        Variant(
            name="Graphile Worker, batching",
            store="postgres",
            settings="one Node process, 24 jobs at a time, local queue of 500, completions in batches",
            durable="A job when its insert is committed. 500 jobs are taken at a time, and completions are written "
            "together: jobs that have ended are run again if it dies before that. A finished job is deleted: there is "
            "no history.",
            prepare=((*_GRAPHILE, "install"),),
            workers=(Service(words=(*_GRAPHILE, "work")),),
            sizes=Sizes(tasks=40_000),
        ),
    ),
)

TABLES: tuple[Peer, ...] = (PGQUEUER, PROCRASTINATE, GRAPHILE_WORKER)
