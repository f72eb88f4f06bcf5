"""The leader client without a network, and the timeout of file probes."""

from __future__ import annotations

import pytest

from mainspring.core.explain.diagnosis import STALE_SECONDS, Reason
from mainspring.core.explain.what_if import NO_CHANGES
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.host.leader_client import _SLOTS, FILE_PROBE_SECONDS, LocalLeaderClient
from mainspring.protocol.errors import NotLeading, Overloaded, Unavailable
from mainspring.protocol.wire import ProbeFile
from mainspring.shard.events import CancelRun
from tests.host.host_harness import SHARD, HostHarness, ScriptedWorker, Trouble

ONE_TASK = JobSpec(name="one", tasks=(TaskSpec(name="only"),))


async def test_a_shard_without_a_leader_raises_not_leading(harness: HostHarness) -> None:
    """The caller retries later."""
    leader_client = LocalLeaderClient(await harness.start())
    with pytest.raises(NotLeading):
        await leader_client.ask(SHARD, CancelRun(run_id="run_1", by="ann"))
    with pytest.raises(NotLeading):
        await leader_client.probe_file(SHARD, "/data/ready")
    with pytest.raises(NotLeading):
        await leader_client.diagnose(SHARD, "run_1")


async def test_a_leader_that_is_still_loading_gives_no_diagnosis(harness: HostHarness) -> None:
    harness.store.read_seconds = 2.0
    leader = await harness.lead()
    leader_client = LocalLeaderClient(harness.hosts["h1"])
    with pytest.raises(NotLeading) as caught:
        await leader_client.diagnose(SHARD, "run_1")
    assert caught.value.reason == "not_ready"
    with pytest.raises(NotLeading) as caught:
        await leader_client.what_if(SHARD, "task_1.0", NO_CHANGES)
    assert caught.value.reason == "not_ready"
    with pytest.raises(NotLeading) as caught:
        await leader_client.summarize_waiting(SHARD, None)
    assert caught.value.reason == "not_ready"
    await harness.until(lambda: leader.is_ready)
    assert await leader_client.diagnose(SHARD, "run_1") is None


async def test_a_leader_that_can_not_write_reports_its_age_and_gives_no_advice(harness: HostHarness) -> None:
    """With a lease that is long enough for it to lead still."""
    await harness.start(lease=60.0)
    leader = await harness.leader()
    (run,) = await harness.submit(ONE_TASK)
    await harness.until(lambda: run in leader.shard.memory.runs)
    leader_client = LocalLeaderClient(harness.hosts["h1"])
    fresh = await leader_client.diagnose(SHARD, run)
    harness.store.trouble = lambda term, number, batch: Trouble.GONE
    await harness.wait(STALE_SECONDS + 5)
    stale = await leader_client.diagnose(SHARD, run)

    assert fresh is not None
    assert (fresh.reason, fresh.is_stale()) == (Reason.NO_MATCHING_WORKER, False)
    assert stale is not None
    assert (stale.reason, stale.is_stale(), stale.suggestions) == (Reason.SCHEDULER_LAG, True, ())


async def test_a_probe_of_a_hanging_disk_times_out(harness: HostHarness) -> None:
    """The worker was asked, and does not answer."""
    scripted_worker = await ScriptedWorker("w1", await harness.lead(), "s1").welcome()
    began = harness.clock.monotonic()
    with pytest.raises(Unavailable) as caught:
        await LocalLeaderClient(harness.hosts["h1"]).probe_file(SHARD, "/data/ready")
    assert caught.value.reason == "no_answer"
    assert harness.clock.monotonic() - began == pytest.approx(FILE_PROBE_SECONDS, abs=0.1)
    assert (await scripted_worker.expect(ProbeFile)).path == "/data/ready"


async def test_concurrent_simulations_are_limited_and_the_diagnosis_comes_without_one(harness: HostHarness) -> None:
    leader = await harness.lead()
    (run,) = await harness.submit(ONE_TASK)
    await harness.until(lambda: run in leader.shard.memory.runs)
    leader_client = LocalLeaderClient(harness.hosts["h1"])
    task = leader.shard.memory.runs[run].tasks[0].id
    taken = 0
    while _SLOTS.acquire(blocking=False):
        taken += 1
    try:
        found = await leader_client.diagnose(SHARD, run)
        with pytest.raises(Overloaded):
            await leader_client.what_if(SHARD, task, NO_CHANGES)
    finally:
        for _ in range(taken):
            _SLOTS.release()

    assert found is not None
    assert (found.reason, found.suggestions) == (Reason.NO_MATCHING_WORKER, ())
    assert await leader_client.what_if(SHARD, task, NO_CHANGES) is not None
