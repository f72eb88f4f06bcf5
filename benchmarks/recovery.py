"""Recovery time after a kill of a worker's agent, or of the leading server.

python -m benchmarks.recovery -o json

worker_killed_to_rerun_s    from kill -9 of an agent until its task has started again on another worker
leader_killed_to_work_s     from kill -9 of the leading server until a task submitted to the other one has ended
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.measure import Figures, percentile, run_benchmark
from mainspring.client.client import Client
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.rest.runs import RunView
from tests.e2e.cluster import ServerCluster, ended, in_state, submit, tasks_of, until
from tests.postgres import DURABLE, running_postgres
from tests.server_settings import GENEROUS

ROUNDS = 3
_LONG = {"name": "long", "tasks": [{"name": "long", "work": {"run": ["sleep", "600"]}}]}
_SHORT = {"name": "short", "tasks": [{"name": "short", "work": {"run": ["true"]}}]}


def main() -> Figures:
    """Measure both, several times."""
    workers, leaders = [], []
    for _ in range(ROUNDS):
        with (
            tempfile.TemporaryDirectory() as folder,
            running_postgres(DURABLE) as url,
            ServerCluster(Path(folder), url) as cluster,
        ):
            workers.append(_kill_worker(cluster))
        with (
            tempfile.TemporaryDirectory() as folder,
            running_postgres(DURABLE) as url,
            ServerCluster(Path(folder), url) as cluster,
        ):
            leaders.append(_kill_leader(cluster))
    return {
        "worker_killed_to_rerun_s": round(percentile(workers, 50), 1),
        "worker_killed_to_rerun_s_max": round(max(workers), 1),
        "leader_killed_to_work_s": round(percentile(leaders, 50), 1),
        "leader_killed_to_work_s_max": round(max(leaders), 1),
        "set": GENEROUS,
    }


def _kill_worker(cluster: ServerCluster) -> float:
    server = cluster.server()
    doomed = cluster.worker(server, name="doomed")
    with server.client() as client:
        run = submit(client, _LONG)
        in_state(client, run.id, "RUNNING", 1)
        cluster.worker(server, name="heir")
        doomed.kill()
        began = time.monotonic()
        until(lambda: any(one.worker == "heir" and one.started_at for one in tasks_of(client, run.id)), "it runs again")
        return time.monotonic() - began


def _kill_leader(cluster: ServerCluster) -> float:
    first, second = cluster.server(), cluster.server()
    cluster.worker(first, second, name="w")
    with first.client() as one, second.client() as other:
        ended(one, submit(one, _SHORT).id)
        leads = bool(one.server().leads)
        (first if leads else second).kill()
        began = time.monotonic()
        survivor = other if leads else one
        run = until(lambda: _try(survivor), "the other server takes work")
        ended(survivor, run.id)
        return time.monotonic() - began


def _try(client: Client) -> RunView | None:
    try:
        return submit(client, _SHORT)
    except Unavailable:
        return None


if __name__ == "__main__":
    run_benchmark(__doc__, main)
