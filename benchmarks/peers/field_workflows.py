"""Engines for durable steps, and for graphs of tasks."""

from __future__ import annotations

from benchmarks.peers.peer import Peer, Service, Sizes, Variant, program

_DBOS_DURABLE = (
    "A workflow when its row is committed; the result of each step in a commit of its own before the next one begins."
)

DBOS = Peer(
    name="dbos",
    title="DBOS",
    driver=program("dbos"),
    packages=("dbos",),
    required=True,
    quick_start=("pip install dbos", "(start PostgreSQL, set its address)", "(write main.py) python main.py"),
    variants=(
        Variant(
            name="DBOS, queue",
            store="postgres",
            variant="queue",
            settings="workflows of one step; two worker processes, 100 workflows at a time each, the queue looked at "
            "every 50 ms instead of every second",
            durable=_DBOS_DURABLE,
            prepare=((*program("dbos"), "install"),),
            workers=(
                Service(words=(*program("dbos"), "work", "worker-0")),
                Service(words=(*program("dbos"), "work", "worker-1")),
            ),
            sizes=Sizes(tasks=3_000),
        ),
        Variant(
            name="DBOS, direct",
            store="postgres",
            variant="direct",
            settings="workflows of one step, started and run inside one process, as it comes",
            durable=_DBOS_DURABLE,
            driver_works=True,
            sizes=Sizes(tasks=2_000),
        ),
    ),
)

_RESTATE_ADDRESSES = {
    "RESTATE_BASE_DIR": "{folder}/restate",
    "RESTATE_BIND_IP": "127.0.0.1",
    "RESTATE_INGRESS__BIND_ADDRESS": "127.0.0.1:{port0}",
    "RESTATE_ADMIN__BIND_ADDRESS": "127.0.0.1:{port1}",
    "RESTATE_BIND_ADDRESS": "127.0.0.1:{port2}",
    "RESTATE_ADVERTISED_ADDRESS": "http://127.0.0.1:{port2}/",
    "RESTATE_LOG_FILTER": "warn",
    "RESTATE_DISABLE_TELEMETRY": "true",
}

RESTATE = Peer(
    name="restate",
    title="Restate",
    driver=program("restate"),
    packages=("restate-sdk", "hypercorn"),
    modules=("@restatedev/restate-server",),
    quick_start=(
        "npx @restatedev/restate-server",
        "pip install restate-sdk hypercorn",
        "(write greeter.py) hypercorn greeter:app",
        "npx @restatedev/restate deployments register http://localhost:9080",
        'curl localhost:8080/Greeter/greet --json \'{"name": "Sarah"}\'',
    ),
    variants=(
        Variant(
            name="Restate",
            store="its own",
            settings="one server, one partition log on RocksDB; the service in a process per core; 16 clients enqueue",
            durable="An invocation and the result of each step when they are in the log of the server, which is "
            "written to disk, and made durable in groups.",
            services=(
                Service(words=(*program("restate"), "server"), ready="http://127.0.0.1:{port1}/health"),
                Service(
                    words=(
                        "{bin}/hypercorn",
                        "benchmarks.peers.programs.restate:app",
                        "--bind",
                        "127.0.0.1:{port3}",
                        "-w",
                        "{cores}",
                        "--log-level",
                        "warning",
                    ),
                    ready="http://127.0.0.1:{port3}/discover",
                ),
            ),
            sizes=Sizes(tasks=3_000),
            environment=_RESTATE_ADDRESSES,
        ),
    ),
)

_PREFECT_SETTINGS = {
    "PREFECT_HOME": "{folder}/prefect",
    "PREFECT_API_URL": "http://127.0.0.1:{port0}/api",
    "PREFECT_LOGGING_LEVEL": "ERROR",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_SERVER_API_HOST": "127.0.0.1",
}

PREFECT = Peer(
    name="prefect",
    title="Prefect",
    driver=program("prefect"),
    # It asks for FastAPI below 1, and does not start with those that no longer know `min_items`.
    packages=("prefect", "asyncpg", "fastapi<0.143"),
    lacks="a queue of tasks that is filled beforehand: tasks belong to a flow that runs",
    required=True,
    quick_start=(
        "pip install prefect",
        "prefect server start",
        "(write flow.py) python flow.py",
        "(see it at http://127.0.0.1:4200)",
    ),
    variants=(
        Variant(
            name="Prefect",
            store="postgres",
            settings="a server; tasks of one flow on 10 threads of one process; a start is that of a served "
            "deployment, which looks for work every 10 s, as it comes",
            durable="States of flows and tasks are sent to the server, which writes them in batches after the task has "
            "continued; results are not kept by default.",
            services=(
                Service(
                    words=(*program("prefect"), "server"),
                    ready="http://127.0.0.1:{port0}/api/health",
                ),
                Service(
                    words=(*program("prefect"), "serve"),
                    ready="http://127.0.0.1:{port0}/api/deployments/name/served/peers",
                ),
            ),
            driver_works=True,
            sizes=Sizes(tasks=1_000, probes=5, drains=1, timeout_seconds=60),
            environment=_PREFECT_SETTINGS,
        ),
    ),
)

DAGSTER = Peer(
    name="dagster",
    title="Dagster",
    driver=program("dagster"),
    packages=("dagster", "dagster-postgres", "psycopg2-binary"),
    lacks="a queue of tasks that is filled beforehand: ops belong to a job that runs",
    quick_start=(
        "pip install create-dagster",
        "create-dagster project my-project",
        "cd my-project && python -m venv .venv && . .venv/bin/activate && pip install --editable . --group dev",
        "dg dev",
        "(materialize in the browser at http://localhost:3000)",
    ),
    variants=(
        Variant(
            name="Dagster, in process",
            store="postgres",
            settings="jobs are executed in one process, with no daemon and no process per op, which is the fastest way",
            durable="Each event of an op in a commit of its own, before it continues.",
            driver_works=True,
            sizes=Sizes(tasks=300, drains=1, chains=10, probes=30, timeout_seconds=60),
        ),
    ),
)

_AIRFLOW_SETTINGS = {
    "AIRFLOW_HOME": "{folder}/airflow",
    "AIRFLOW__CORE__DAGS_FOLDER": "{folder}/airflow/dags",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__CORE__PARALLELISM": "8",
    "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": "2000",
    "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG": "100",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": "http://127.0.0.1:{port0}/execution/",
    "AIRFLOW__API__BASE_URL": "http://127.0.0.1:{port0}",
    "AIRFLOW__API__HOST": "127.0.0.1",
    "AIRFLOW__API__PORT": "{port0}",
    "AIRFLOW__API__WORKERS": "1",
    "AIRFLOW__SCHEDULER__MAX_TIS_PER_QUERY": "64",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": "{port1}",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
}
_AIRFLOW = program("airflow")

AIRFLOW = Peer(
    name="airflow",
    title="Airflow",
    driver=_AIRFLOW,
    packages=("apache-airflow", "asyncpg", "psycopg2-binary"),
    lacks="a queue of tasks that is filled beforehand: tasks belong to a run of a DAG",
    required=True,
    quick_start=(
        "pip install apache-airflow==VERSION --constraint CONSTRAINTS",
        "airflow standalone",
        "(log in at http://localhost:8080, enable example_bash_operator, trigger it)",
    ),
    variants=(
        Variant(
            name="Airflow",
            store="postgres",
            settings="API server, scheduler and DAG processor; LocalExecutor with 8 processes; no examples",
            durable="Each state of a task in a commit of its own, before it continues.",
            prepare=((*_AIRFLOW, "install"),),
            services=(
                Service(words=(*_AIRFLOW, "api-server"), ready="http://127.0.0.1:{port0}/api/v2/monitor/health"),
                Service(words=(*_AIRFLOW, "scheduler")),
                Service(words=(*_AIRFLOW, "dag-processor")),
            ),
            sizes=Sizes(tasks=100, drains=1, probes=8, chains=3, width=100, timeout_seconds=90),
            environment=_AIRFLOW_SETTINGS,
        ),
    ),
)

WORKFLOWS: tuple[Peer, ...] = (DBOS, PREFECT, AIRFLOW, RESTATE, DAGSTER)
