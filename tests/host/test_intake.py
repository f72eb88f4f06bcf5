"""Intake: each run is handed over once, P0 first, as far as there is capacity."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from mainspring.core.model.run import RunState
from mainspring.core.model.task import Priority, TaskState
from mainspring.protocol.wire import Assign
from mainspring.shard.effects import ActionStatus
from mainspring.shard.events import CancelRun, PauseRun, ResumeRun, RunArrived, RunsExpired, RunUnreadable
from tests.host.host_harness import HostHarness, ScriptedWorker, Trouble
from tests.shard.jobs import chain, job, task, wide

P0, P1, P2 = Priority


async def test_a_run_is_never_handed_over_twice_though_reads_overlap_commits(harness: HostHarness) -> None:
    """Two thousand runs with a slow store: reads continue while adoptions are being written."""
    leader = await harness.lead()
    handed: Counter[str] = Counter()
    put = leader.inbox.put

    def count(event: object, *, urgent: bool = False) -> None:
        if isinstance(event, RunArrived):
            handed[event.run.id] += 1
        put(event, urgent=urgent)  # type: ignore[arg-type]

    leader.inbox.put = count  # type: ignore[method-assign]
    harness.store.commit_seconds = 0.05
    await harness.submit(job(task("a")), runs=2_000)
    await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks") == [(2_000,)], within=60)

    assert set(handed.values()) == {1}
    assert len(handed) == 2_000


async def test_a_run_is_adopted_at_once_and_not_at_the_next_poll(harness: HostHarness) -> None:
    """The store announces new work."""
    await harness.lead()
    await harness.wait(5.0)
    await harness.submit(job(task("a")))

    assert await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks") == [(1,)]) < 0.1


async def test_a_run_whose_announcement_was_lost_is_adopted_within_a_second(harness: HostHarness) -> None:
    """A hint may get lost."""
    await harness.lead()
    await harness.wait(5.0)
    harness.store._callbacks.clear()
    await harness.submit(job(task("a")))

    assert await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks") == [(1,)]) <= 1.1


async def test_a_run_waits_for_its_start_time(harness: HostHarness) -> None:
    """It is in intake from the start time on."""
    await harness.lead()
    (run,) = await harness.submit(job(task("a")), start_in=30.0)
    await harness.wait(29.0)
    assert (await harness.run(run)).adopted_at is None

    took = await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks") == [(1,)], within=3.0)
    assert took == pytest.approx(1.0, abs=0.1)


async def test_a_p0_overtakes_a_backlog(harness: HostHarness) -> None:
    """It is adopted although thousands of earlier runs still wait."""
    await harness.lead()
    harness.store.commit_seconds = 0.05
    await harness.submit(wide(50), runs=1_000, tenant="flood", priority=P2)
    await harness.wait(0.5)
    (urgent,) = await harness.submit(job(task("urgent")), priority=P0)

    async with asyncio.timeout(1.0):
        while (await harness.run(urgent)).adopted_at is None:
            await harness.wait(0.01)
    assert harness.rows("SELECT count(*) > 500 FROM runs WHERE adopted_at IS NULL") == [(1,)]


@pytest.mark.parametrize(
    "definition",
    ["{", '{"name": 1}', '{"name": "j", "tasks": [{"name": "a", "needs": [{"task": "b"}]}]}', "[]"],
    ids=["no JSON", "wrong types", "unknown edge", "a list"],
)
async def test_an_unreadable_definition_holds_its_run_only(harness: HostHarness, definition: str) -> None:
    """One bad value never stops a shard."""
    await harness.lead()
    harness.play()
    (bad,) = await harness.submit_definition(definition)
    (good,) = await harness.submit(chain("a"))

    assert await harness.ended(good) is RunState.SUCCEEDED
    await harness.until(lambda: bool(harness.rows("SELECT 1 FROM runs WHERE held IS NOT NULL")))
    held = await harness.run(bad)
    assert held.adopted_at is None
    await harness.wait(5.0)
    assert harness.rows("SELECT kind, subject FROM rejected_events") == [("RunUnreadable", bad)]


async def test_a_run_with_an_unreadable_definition_can_only_be_cancelled(harness: HostHarness) -> None:
    """It has no tasks; its end is reported."""
    leader = await harness.lead()
    (bad,) = await harness.submit_definition("{", watched=True)
    await harness.until(lambda: bool(harness.rows("SELECT 1 FROM runs WHERE held IS NOT NULL")))
    assert (await harness.ask(ResumeRun, bad)).reply is ActionStatus.REFUSED

    assert (await harness.ask(CancelRun, bad)).reply is ActionStatus.DONE

    run = await harness.run(bad)
    assert (run.state, run.cancelled_by) == (RunState.CANCELLED, "ann")
    assert len(harness.rows("SELECT 1 FROM outbox WHERE kind = 'run.ended'")) == 1

    leader.inbox.put(RunsExpired(run_ids=(bad,)))
    await harness.until(lambda: harness.rows("SELECT count(*) FROM runs_history") == [(1,)])
    assert len(harness.rows("SELECT 1 FROM rejected_events")) == 1


async def test_a_cancellation_of_an_unreadable_run_in_transit_is_kept(harness: HostHarness) -> None:
    """Intake had read it before, and hands over the old row."""
    leader = await harness.lead()
    (bad,) = await harness.submit_definition("{")
    await harness.until(lambda: bool(harness.rows("SELECT 1 FROM runs WHERE held IS NOT NULL")))
    before = await harness.run(bad)
    await harness.ask(CancelRun, bad)

    leader.inbox.put(RunUnreadable(run=before, fault="its definition can't be read"))
    await harness.wait(1.0)

    assert (await harness.run(bad)).state is RunState.CANCELLED


async def test_a_submission_to_an_idle_server_is_assigned_in_one_batch(harness: HostHarness) -> None:
    """Adopted and placed together: one commit between the insert and the assignment."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    await harness.wait(0.5)
    before = len(harness.store.calls)

    await harness.submit(chain("a", "b"))
    await scripted_worker.expect(Assign)

    written = [call.batch for call in harness.store.calls[before:] if call.batch.rows()]
    assert len(written) == 1
    assert [step.end for step in written[0].transitions if step.task_id.endswith(".0")] == [
        TaskState.PENDING,
        TaskState.QUEUED,
        TaskState.ASSIGNED,
    ]


async def test_a_definition_with_a_cycle_holds_its_run_only(harness: HostHarness) -> None:
    """Admission should have rejected it; here it affects one run."""
    await harness.lead()
    harness.play()
    cyclic = msgspec.json.encode(job(task("a", "b"), task("b", "a"))).decode()
    (bad,) = await harness.submit_definition(cyclic, tasks=2)
    (good,) = await harness.submit(chain("a"))

    assert await harness.ended(good) is RunState.SUCCEEDED
    await harness.until(lambda: bool(harness.rows("SELECT 1 FROM runs WHERE held IS NOT NULL")))
    assert (await harness.run(bad)).held is not None


async def test_a_missing_definition_holds_its_run_only(harness: HostHarness) -> None:
    """The job does not exist."""
    await harness.lead()
    (bad,) = await harness.submit(chain("a"))
    harness.store._writer.execute("DELETE FROM jobs")
    await harness.until(lambda: bool(harness.rows("SELECT 1 FROM runs WHERE held IS NOT NULL")))

    assert (await harness.run(bad)).adopted_at is None
    assert harness.rows("SELECT kind, subject FROM rejected_events") == [("RunUnreadable", bad)]


async def test_a_new_leader_holds_an_adopted_run_with_an_unreadable_definition(harness: HostHarness) -> None:
    """The rest of the shard is not affected."""
    await harness.lead("h1")
    (bad,) = await harness.submit(chain("a"))
    (good,) = await harness.submit(chain("b"))
    await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks") == [(2,)])
    job_id = (await harness.run(bad)).job_id
    harness.store._writer.execute("UPDATE jobs SET definition = '{' WHERE id = ?", (job_id,))
    await harness.stop("h1")

    await harness.lead("h2")
    harness.play("h2")

    assert await harness.ended(good) is RunState.SUCCEEDED
    assert (await harness.run(bad)).held is not None


async def test_a_pause_of_a_run_in_transit_is_kept(harness: HostHarness) -> None:
    """The run is in a long inbox, in the state before the pause."""
    leader = await harness.lead()
    harness.store.commit_seconds = 0.2
    ids = await harness.submit(wide(5), runs=800)
    run = ids[-1]
    await harness.until(lambda: len(leader.inbox) > 0)

    answer = await harness.ask(PauseRun, run)
    assert answer.reply is ActionStatus.DONE
    await harness.until(lambda: harness.rows("SELECT count(*) FROM runs WHERE adopted_at IS NULL") == [(0,)], within=60)

    assert (await harness.run(run)).paused
    assert (await harness.run(run)).state is RunState.PAUSED


async def test_a_cancellation_of_a_run_in_transit_is_kept(harness: HostHarness) -> None:
    """It is adopted once, for the cancellation."""
    leader = await harness.lead()
    harness.store.commit_seconds = 0.2
    ids = await harness.submit(wide(5), runs=800)
    run = ids[-1]
    await harness.until(lambda: len(leader.inbox) > 0)

    answer = await harness.ask(CancelRun, run)
    assert answer.reply is ActionStatus.DONE
    await harness.until(lambda: harness.rows("SELECT count(*) FROM runs WHERE adopted_at IS NULL") == [(0,)], within=60)

    assert (await harness.run(run)).state is RunState.CANCELLED
    assert harness.rows("SELECT count(*) FROM rejected_events") == [(0,)]


async def test_intake_continues_after_a_store_outage(harness: HostHarness) -> None:
    """HA-4."""
    await harness.lead()
    harness.store.trouble = lambda term, number, batch: Trouble.GONE
    await harness.submit(job(task("a")))
    await harness.wait(2.0)
    harness.store.trouble = lambda term, number, batch: None

    await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks") == [(1,)], within=3.0)


async def test_an_unreadable_row_does_not_stop_active_runs_and_is_adopted_once_fixed(
    harness: HostHarness,
) -> None:
    """It was written manually, or by a later release."""
    await harness.lead()
    (first,) = await harness.submit(job(task("a")))
    await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks") == [(1,)])
    harness.store._callbacks.clear()
    (bad,) = await harness.submit(job(task("b")))
    harness.store._writer.execute("UPDATE runs SET state = 'NEW' WHERE id = ?", (bad,))
    await harness.wait(3.0)
    harness.play()
    assert await harness.ended(first) is RunState.SUCCEEDED

    harness.store._writer.execute("UPDATE runs SET state = 'PENDING' WHERE id = ?", (bad,))
    assert await harness.ended(bad) is RunState.SUCCEEDED
