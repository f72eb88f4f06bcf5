"""Metrics: valid for Prometheus' own parser, documented, and with bounded labels."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from mainspring.app.build import POOL, run_virtual_worker
from mainspring.core.fairness.quotas import Quota, QuotaRow
from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.model.batch import Batch, TaskChange
from mainspring.core.model.job import JobSpec, TaskSpec, compile_job
from mainspring.core.model.resources import Resources
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority, StopKind, StopRequest, Task, TaskState
from mainspring.core.placement.task_shapes import Shape
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.host.job_cache import JobCache
from mainspring.host.loop import Leader
from mainspring.protocol.wire import Offer
from mainspring.shard.state.leases import Leases
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.simulation.virtual_worker import VirtualWorker
from mainspring.store.ports.store import Term
from mainspring.telemetry.metrics import RefusalReason
from tests.api.api_harness import ApiHarness, submit, until

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
ALONE = compile_job("job_1", JobSpec(name="job", tasks=(TaskSpec(name="t"),)))
SMALL = Shape(resources=Resources(cpu_millis=1000, memory_bytes=1))


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ApiHarness]:
    harness = ApiHarness(tmp_path, open_locally=True)
    yield harness
    await harness.close()


def families(harness: ApiHarness) -> dict[str, Metric]:
    """Parse the metrics like Prometheus."""
    return {one.name: one for one in text_string_to_metric_families(harness.services.metrics.text().decode())}


def value(harness: ApiHarness, name: str, **labels: str) -> float:
    """Return one value; 0 if it is missing."""
    for family in families(harness).values():
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return 0.0


async def test_events_are_counted(harness: ApiHarness) -> None:
    """Runs end, tasks wait and run; an unknown job causes no failure."""
    async with harness.led(), harness.caller() as caller:
        playing = asyncio.create_task(
            run_virtual_worker(harness.engine, VirtualWorker("w1", Offer(4_000, 8 << 30), harness.clock))
        )
        for _ in range(3):
            await submit(caller)

        async def are_over() -> bool:
            return value(harness, "mainspring_runs_total", job="noop", result="SUCCEEDED") == 3

        await until(are_over)
        playing.cancel()

        assert value(harness, "mainspring_task_wait_seconds_count", priority="P2") == 3
        assert value(harness, "mainspring_task_run_seconds_count", priority="P2") == 3
        assert value(harness, "mainspring_run_seconds_count", result="SUCCEEDED") == 3
        assert value(harness, "mainspring_transitions_total", state="SUCCEEDED") == 3
        assert value(harness, "mainspring_leader", shard=POOL) == 1
        assert value(harness, "mainspring_worker_slots", zone="", state="free") == 4


async def test_the_page_lists_every_metric_and_no_other(harness: ApiHarness) -> None:
    """docs/reference/metrics.md lists what a busy server exports."""
    async with harness.led() as leader, harness.caller() as caller:
        playing = asyncio.create_task(
            run_virtual_worker(harness.engine, VirtualWorker("w1", Offer(4_000, 8 << 30), harness.clock))
        )
        await submit(caller)

        async def has_ended() -> bool:
            return value(harness, "mainspring_runs_total", job="noop", result="SUCCEEDED") == 1

        await until(has_ended)
        playing.cancel()
        assert leader.term.shard == POOL
        told = set(families(harness))

    listed = {
        f"mainspring_{name.removesuffix('_total')}"
        for row in DOCUMENT.read_text(encoding="utf-8").split("## OpenTelemetry")[0].splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([a-z_]+)(?:\{[a-z,]+\})?`", row.split("|")[1])
    }
    assert listed == told


def wait(memory: ShardMemory, task: Task, shape: Shape) -> None:
    """Queue a task of a run of its own."""
    run = Run(
        id=task.run_id, shard=POOL, tenant=task.tenant, job_id=ALONE.id, priority=task.priority, params="{}",
        task_count=1, submitted_by="user", created_at=task.since, start_at=task.since,
    )  # fmt: skip
    memory.runs.add(RunMemory(run=run, job=ALONE, tasks=[task], waiting=[0]))
    memory.queues.push(task, shape)


def idle_leader(harness: ApiHarness) -> Leader:
    """An idle leader: only the test changes its memory, without a time limit."""
    term = Term(shard=POOL, epoch=1, nonce=1, batch_no=0, granted_at=harness.clock.wall())
    leader = Leader(
        harness.store, harness.clock, term, timedelta(hours=1), JobCache(harness.store), began=harness.clock.monotonic()
    )
    harness.engine.host.leaders[POOL] = leader
    return leader


async def test_ten_thousand_tenants_have_few_labels(harness: ApiHarness) -> None:
    """However many there are, the output stays small and the sums are complete."""
    leader = idle_leader(harness)
    memory = leader.shard.memory
    for number in range(10_000):
        task = Task(
            id=f"task_{number}.0", run_id=f"run_{number}", shard=POOL, tenant=f"tenant-{number}", name="t",
            position=0, priority=Priority.P1, state=TaskState.QUEUED, since=leader.time.now(),
        )  # fmt: skip
        wait(memory, task, SMALL)
        memory.leases.load_usage({task.tenant: Resources(cpu_millis=1000 + number, memory_bytes=1)}, {}, {})
    queued = families(harness)["mainspring_tasks_queued"].samples
    slots = families(harness)["mainspring_tenant_slots"].samples

    assert len({sample.labels["tenant"] for sample in queued}) == 201
    assert sum(sample.value for sample in queued) == 10_000
    assert len(slots) == 201
    assert sum(sample.value for sample in slots) == sum(range(1000, 11_000)) / 1000
    assert max(slots, key=lambda sample: sample.value).labels["tenant"] == "_other"
    assert {sample.labels["tenant"] for sample in slots} >= {"tenant-9999", "tenant-9800"}


async def test_queued_tasks_have_their_reason(harness: ApiHarness) -> None:
    """No worker could ever take it, or none has capacity, or it is not its turn."""
    leader = idle_leader(harness)
    queues = leader.shard.memory.queues
    for name, shape in (
        ("big", Shape(resources=Resources(cpu_millis=9, memory_bytes=1), zone="moon")),
        ("s", SMALL),
    ):
        task = Task(
            id=f"task_{name}.0", run_id=f"run_{name}", shard=POOL, tenant=name, name="t", position=0,
            priority=Priority.P0, state=TaskState.QUEUED, since=leader.time.now() - timedelta(seconds=90),
        )  # fmt: skip
        wait(leader.shard.memory, task, shape)
    queues.park(Shape(resources=Resources(cpu_millis=9, memory_bytes=1), zone="moon"), "nowhere")
    queued = {
        sample.labels["tenant"]: sample.labels["reason"]
        for sample in families(harness)["mainspring_tasks_queued"].samples
    }
    age = value(harness, "mainspring_queue_oldest_age_seconds", priority="P0")

    assert queued == {"big": "NO_MATCHING_WORKER", "s": "PRIORITY_QUEUE_WAIT"}
    assert age >= 90


async def test_guarantees_and_burst_of_tenants_are_exported(harness: ApiHarness) -> None:
    """acme is guaranteed 4 cores and uses 6, beta is guaranteed 2 and uses none, carl has no guarantee."""
    promised = {"acme": 4_000, "beta": 2_000}
    async with harness.led() as leader:
        memory = leader.shard.memory
        quotas = {tenant: promise(tenant, millis) for tenant, millis in promised.items()}
        leader.set_rules(SharingRules(version=99, quotas=quotas))
        memory.set_rules(leader.rules)
        for tenant, millis in (("acme", 6_000), ("carl", 1_000)):
            memory.leases.load_usage({tenant: Resources(cpu_millis=millis, memory_bytes=1)}, {tenant: 3}, {})
        told = families(harness)
        memory.leases = Leases()

    slots = {(one.labels["tenant"], one.labels["kind"]): one.value for one in told["mainspring_tenant_slots"].samples}
    assert slots == {
        ("acme", "used"): 6, ("carl", "used"): 1, ("acme", "guaranteed"): 4, ("beta", "guaranteed"): 2,
        ("acme", "burst"): 2, ("beta", "burst"): 0,
    }  # fmt: skip
    leases = {one.labels["tenant"]: one.value for one in told["mainspring_tenant_leases"].samples}
    assert leases == {"acme": 3, "carl": 3}


async def test_a_preempted_task_is_counted_once(harness: ApiHarness) -> None:
    """However often its row is written until it has stopped."""
    async with harness.led() as leader:
        now = leader.time.now()
        task = Task(
            id="task_a.0", run_id="run_a", shard=POOL, tenant="acme", name="t", position=0, priority=Priority.P2,
            state=TaskState.RUNNING, since=now, attempt_id="att_1",
            stop=StopRequest(StopKind.PREEMPT, "shard", "preempted for another", now, "task_b.0"),
        )  # fmt: skip
        asked = Batch(tasks=[TaskChange(task, TaskState.RUNNING, 1)])
        for listener in leader._listeners * 2:
            listener(asked, 0.0)
    assert value(harness, "mainspring_preemptions_total", priority="P2") == 1


async def test_levels_and_what_was_refused_are_told(harness: ApiHarness) -> None:
    async with harness.led():
        await harness.engine.degradation.check_store()
        assert value(harness, "mainspring_level", shard=POOL) == 0
        assert "mainspring_runs_waiting" in families(harness)
        harness.services.metrics.refused(RefusalReason.SHED)
        assert value(harness, "mainspring_submissions_refused_total", reason="shed") == 1


def promise(tenant: str, cpu_millis: int) -> QuotaRow:
    """Give a tenant a guarantee."""
    quota = Quota(guaranteed=Resources(cpu_millis=cpu_millis))
    return QuotaRow(tenant=tenant, pool="", quota=quota, raised=None, version=1, updated_at=EPOCH, updated_by="ann")
