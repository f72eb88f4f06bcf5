"""The leader client without a network, and the timeout of file probes."""

from __future__ import annotations

import pytest

from mainspring.core.explain.diagnosis import STALE_SECONDS, Reason
from mainspring.core.explain.what_if import AS_IT_IS
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.host.leader_client import _PLACES, LOOK_SECONDS, HostReach
from mainspring.protocol.errors import NotLeading, Overloaded, Unavailable
from mainspring.protocol.wire import Look
from mainspring.shard.events import CancelRun
from tests.host.hall import SHARD, Hall, Hand, Trouble

ONE_TASK = JobSpec(name="one", tasks=(TaskSpec(name="only"),))


async def test_a_shard_without_a_leader_raises_not_leading(hall: Hall) -> None:
    """The caller retries later."""
    reach = HostReach(await hall.start())
    with pytest.raises(NotLeading):
        await reach.ask(SHARD, CancelRun(run_id="run_1", by="ann"))
    with pytest.raises(NotLeading):
        await reach.look(SHARD, "/data/ready")
    with pytest.raises(NotLeading):
        await reach.diagnose(SHARD, "run_1")


async def test_a_leader_that_is_still_loading_gives_no_diagnosis(hall: Hall) -> None:
    hall.store.read_seconds = 2.0
    leader = await hall.lead()
    reach = HostReach(hall.hosts["h1"])
    with pytest.raises(NotLeading) as caught:
        await reach.diagnose(SHARD, "run_1")
    assert caught.value.reason == "not_ready"
    with pytest.raises(NotLeading) as caught:
        await reach.suppose(SHARD, "task_1.0", AS_IT_IS)
    assert caught.value.reason == "not_ready"
    with pytest.raises(NotLeading) as caught:
        reach.waiting_sums(SHARD, None)
    assert caught.value.reason == "not_ready"
    await hall.until(lambda: leader.is_ready)
    assert await reach.diagnose(SHARD, "run_1") is None


async def test_a_leader_that_can_not_write_reports_its_age_and_gives_no_advice(hall: Hall) -> None:
    """With a lease that is long enough for it to lead still."""
    await hall.start(lease=60.0)
    leader = await hall.leader()
    (run,) = await hall.submit(ONE_TASK)
    await hall.until(lambda: run in leader.shard.memory.runs)
    reach = HostReach(hall.hosts["h1"])
    fresh = await reach.diagnose(SHARD, run)
    hall.store.trouble = lambda term, number, batch: Trouble.GONE
    await hall.wait(STALE_SECONDS + 5)
    stale = await reach.diagnose(SHARD, run)

    assert fresh is not None
    assert (fresh.reason, fresh.is_stale()) == (Reason.NO_MATCHING_WORKER, False)
    assert stale is not None
    assert (stale.reason, stale.is_stale(), stale.acts) == (Reason.SCHEDULER_LAG, True, ())


async def test_a_probe_of_a_hanging_disk_times_out(hall: Hall) -> None:
    """The worker was asked, and does not answer."""
    hand = await Hand("w1", await hall.lead(), "s1").welcome()
    began = hall.clock.monotonic()
    with pytest.raises(Unavailable) as caught:
        await HostReach(hall.hosts["h1"]).look(SHARD, "/data/ready")
    assert caught.value.reason == "no_answer"
    assert hall.clock.monotonic() - began == pytest.approx(LOOK_SECONDS, abs=0.1)
    assert (await hand.hear(Look)).path == "/data/ready"


async def test_concurrent_simulations_are_limited_and_the_diagnosis_comes_without_one(hall: Hall) -> None:
    leader = await hall.lead()
    (run,) = await hall.submit(ONE_TASK)
    await hall.until(lambda: run in leader.shard.memory.runs)
    reach = HostReach(hall.hosts["h1"])
    task = leader.shard.memory.runs[run].tasks[0].id
    taken = 0
    while _PLACES.acquire(blocking=False):
        taken += 1
    try:
        found = await reach.diagnose(SHARD, run)
        with pytest.raises(Overloaded):
            await reach.suppose(SHARD, task, AS_IT_IS)
    finally:
        for _ in range(taken):
            _PLACES.release()

    assert found is not None
    assert (found.reason, found.acts) == (Reason.NO_MATCHING_WORKER, ())
    assert await reach.suppose(SHARD, task, AS_IT_IS) is not None
