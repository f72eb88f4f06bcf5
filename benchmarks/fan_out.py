"""Duration of a fan-out with its join on a real server and worker, and its effect on P0 latency (DAG-2).

    python -m benchmarks.fan_out --store postgres -o json

Measured on an otherwise idle worker (8 slots for the fan-out, one per core for P0):

    fan_out_1000_s       from sending the submission to the call of the fan-in: one task that returns a
                         list, a task for each of its 1,000 items, and one that waits for them all
    from_list_1000_s     the same from the return of the list
    p0_start_ms_quiet    from the response to a P0 submission to the call, of another tenant, on an idle system
    p0_start_ms_flood    the same while fan-outs of 10,000 are created and run: worker and tasks share the cores
                         with the server, and waiting for a core counts
    p0_assigned_ms_..    the same two from the response to the durable assignment, with virtual workers:
                         the part of the scheduler
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import uvloop

from benchmarks.end_to_end import HANDLERS, promises, temporary_cluster
from benchmarks.load import p0_waits, submit
from benchmarks.measure import Figures, fresh_store, milliseconds, percentile, run_benchmark
from mainspring.client.client import Client
from mainspring.core.model.job import Edge, JobSpec, TaskSpec
from mainspring.host.loop import Leader
from tests.e2e.cluster import Server, ended
from tests.server_settings import GENEROUS

WIDE, VERY_WIDE = 1_000, 10_000
ROUNDS = 10
SLOTS = 8
PROBES = 200
PROBE_SECONDS = 0.02
FLOODS = 3
_URGENT = {"name": "urgent", "tasks": [{"name": "urgent", "work": {"handler": "stamp"}}]}


def main(kind: str) -> Figures:
    """All figures for one kind of store."""
    with _serving(kind, slots=SLOTS) as server, server.client() as client:
        wide = client.submit_job(_job(WIDE)).id
        _measure(client, wide)
        rounds = [_measure(client, wide) for _ in range(ROUNDS)]
    with _serving(kind, slots=2) as server, server.client() as client, server.client("other") as other:
        urgent = other.submit_job(_URGENT).id
        quiet = list(_probe(other, urgent))
        very_wide = client.submit_job(_job(VERY_WIDE)).id
        flood = [client.submit(very_wide).id for _ in range(FLOODS)]
        flooded = list(_probe(other, urgent))
        began = time.perf_counter()
        states = {ended(client, run, seconds=300).state for run in flood}
        left = time.perf_counter() - began
    assigned_quiet, assigned_flooded = uvloop.run(_assigned(kind, 0)), uvloop.run(_assigned(kind, FLOODS))
    return {
        **uvloop.run(promises(kind)),
        "set": GENEROUS,
        f"fan_out_{WIDE}_s": round(percentile([whole for whole, _ in rounds], 50), 3),
        f"from_list_{WIDE}_s": round(percentile([part for _, part in rounds], 50), 3),
        f"fan_out_{WIDE}_s_best": round(min(whole for whole, _ in rounds), 3),
        **{f"p0_start_ms_quiet_p{percent}": milliseconds(quiet, percent) for percent in (50, 95)},
        **{f"p0_start_ms_flood_p{percent}": milliseconds(flooded, percent) for percent in (50, 95)},
        **{f"p0_assigned_ms_quiet_p{percent}": milliseconds(assigned_quiet, percent) for percent in (50, 95)},
        **{f"p0_assigned_ms_flood_p{percent}": milliseconds(assigned_flooded, percent) for percent in (50, 95)},
        "flood_was_still_on_s": round(left, 1),
        "flood_states": sorted(states),
    }


@contextmanager
def _serving(kind: str, slots: int) -> Iterator[Server]:
    """A server with one worker with this number of slots, and a warm child for each core."""
    with temporary_cluster(kind) as (cluster, _):
        server = cluster.server()
        cluster.worker(server, name="w", cpu=slots, extra=["--handlers", HANDLERS])
        yield server


async def _assigned(kind: str, floods: int) -> list[float]:
    """Seconds until P0 runs are assigned while this number of fan-outs of 10,000 of another tenant run."""
    each = TaskSpec(name="each", for_each=str(VERY_WIDE), expected_seconds=0.001)
    spec = JobSpec(name="wide", tasks=(each, TaskSpec(name="all", needs=(Edge("each"),))))
    async with fresh_store(kind) as store:
        runs = {run.id for run in await submit(store, floods, ["wide"], spec=spec)}
        begun: set[str] = set()

        def is_over(leader: Leader) -> bool:
            begun.update(runs & leader.shard.memory.runs.keys())
            return bool(runs) and begun == runs and not runs & leader.shard.memory.runs.keys()

        return await p0_waits(store, PROBES, until=is_over)


def _job(width: int) -> dict[str, object]:
    return {
        "name": f"fan-out-{width}",
        "tasks": [
            {"name": "list", "work": {"handler": "spread", "args": {"count": width}}},
            {
                "name": "each",
                "needs": [{"task": "list"}],
                "for_each": "outputs.list.items",
                "work": {"handler": "noop"},
                "expected_seconds": 0.001,
            },
            {"name": "all", "needs": [{"task": "each"}], "work": {"handler": "stamp"}},
        ],
    }


def _measure(client: Client, job: str) -> tuple[float, float]:
    """Seconds from the submission, and from the list, to the call of the fan-in."""
    sent = time.time()
    run = ended(client, client.submit(job).id)
    assert (run.state, run.task_count) == ("SUCCEEDED", WIDE + 2), run
    given = _output(client, run.id, "list")["ended"]
    called = _output(client, run.id, "all")["began"]
    return called - sent, called - given


def _probe(client: Client, job: str) -> Iterator[float]:
    """Seconds from the response to a P0 submission to its call, sequentially."""
    for _ in range(PROBES):
        run = client.submit(job, priority="P0")
        answered = time.time()
        time.sleep(PROBE_SECONDS)
        ended(client, run.id)
        yield max(0.0, _output(client, run.id, "urgent")["began"] - answered)


def _output(client: Client, run_id: str, name: str) -> dict[str, float]:
    (task,) = (task for task in client.tasks_of(run_id) if task.name == name)
    found = msgspec.json.decode(task.output, type=dict[str, object])
    return {key: value for key, value in found.items() if isinstance(value, float)}


if __name__ == "__main__":
    run_benchmark(__doc__, main)
