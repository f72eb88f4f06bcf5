"""Intake: each run is handed over once, P0 first, as far as there is capacity."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from mainspring.core.model.run import RunState
from mainspring.core.model.task import Priority, TaskState
from mainspring.protocol.wire import Assign
from mainspring.shard.effects import Reply
from mainspring.shard.events import CancelRun, PauseRun, ResumeRun, RunArrived, RunsAged, RunUnreadable
from tests.host.hall import Hall, Hand, Trouble
from tests.shard.jobs import chain, job, task, wide

P0, P1, P2 = Priority


async def test_a_run_is_never_handed_over_twice_though_reads_overlap_commits(hall: Hall) -> None:
    """Two thousand runs with a slow store: reads continue while adoptions are being written."""
    leader = await hall.lead()
    handed: Counter[str] = Counter()
    put = leader.inbox.put

    def count(event: object, *, urgent: bool = False) -> None:
        if isinstance(event, RunArrived):
            handed[event.run.id] += 1
        put(event, urgent=urgent)  # type: ignore[arg-type]

    leader.inbox.put = count  # type: ignore[method-assign]
    hall.store.commit_seconds = 0.05
    await hall.submit(job(task("a")), runs=2_000)
    await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks") == [(2_000,)], within=60)

    assert set(handed.values()) == {1}
    assert len(handed) == 2_000


async def test_a_run_is_adopted_at_once_and_not_at_the_next_poll(hall: Hall) -> None:
    """The store announces new work."""
    await hall.lead()
    await hall.wait(5.0)
    await hall.submit(job(task("a")))

    assert await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks") == [(1,)]) < 0.1


async def test_a_run_whose_announcement_was_lost_is_adopted_within_a_second(hall: Hall) -> None:
    """A hint may get lost."""
    await hall.lead()
    await hall.wait(5.0)
    hall.store._callbacks.clear()
    await hall.submit(job(task("a")))

    assert await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks") == [(1,)]) <= 1.1


async def test_a_run_waits_for_its_start_time(hall: Hall) -> None:
    """It is in intake from the start time on."""
    await hall.lead()
    (run,) = await hall.submit(job(task("a")), start_in=30.0)
    await hall.wait(29.0)
    assert (await hall.run(run)).adopted_at is None

    took = await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks") == [(1,)], within=3.0)
    assert took == pytest.approx(1.0, abs=0.1)


async def test_a_p0_overtakes_a_backlog(hall: Hall) -> None:
    """It is adopted although thousands of earlier runs still wait."""
    await hall.lead()
    hall.store.commit_seconds = 0.05
    await hall.submit(wide(50), runs=1_000, tenant="flood", priority=P2)
    await hall.wait(0.5)
    (urgent,) = await hall.submit(job(task("urgent")), priority=P0)

    async with asyncio.timeout(1.0):
        while (await hall.run(urgent)).adopted_at is None:
            await hall.wait(0.01)
    assert hall.rows("SELECT count(*) > 500 FROM runs WHERE adopted_at IS NULL") == [(1,)]


@pytest.mark.parametrize(
    "definition",
    ["{", '{"name": 1}', '{"name": "j", "tasks": [{"name": "a", "needs": [{"task": "b"}]}]}', "[]"],
    ids=["no JSON", "wrong types", "unknown edge", "a list"],
)
async def test_an_unreadable_definition_holds_its_run_only(hall: Hall, definition: str) -> None:
    """One bad value never stops a shard."""
    await hall.lead()
    hall.play()
    (bad,) = await hall.submit_definition(definition)
    (good,) = await hall.submit(chain("a"))

    assert await hall.ended(good) is RunState.SUCCEEDED
    await hall.until(lambda: bool(hall.rows("SELECT 1 FROM runs WHERE held IS NOT NULL")))
    held = await hall.run(bad)
    assert held.adopted_at is None
    await hall.wait(5.0)
    assert hall.rows("SELECT kind, subject FROM rejected_events") == [("RunUnreadable", bad)]


async def test_a_run_with_an_unreadable_definition_can_only_be_cancelled(hall: Hall) -> None:
    """It has no tasks; its end is reported."""
    leader = await hall.lead()
    (bad,) = await hall.submit_definition("{", watched=True)
    await hall.until(lambda: bool(hall.rows("SELECT 1 FROM runs WHERE held IS NOT NULL")))
    assert (await hall.ask(ResumeRun, bad)).reply is Reply.REFUSED

    assert (await hall.ask(CancelRun, bad)).reply is Reply.DONE

    run = await hall.run(bad)
    assert (run.state, run.cancelled_by) == (RunState.CANCELLED, "ann")
    assert len(hall.rows("SELECT 1 FROM outbox WHERE kind = 'run.ended'")) == 1

    leader.inbox.put(RunsAged(run_ids=(bad,)))
    await hall.until(lambda: hall.rows("SELECT count(*) FROM runs_history") == [(1,)])
    assert len(hall.rows("SELECT 1 FROM rejected_events")) == 1


async def test_a_cancellation_of_an_unreadable_run_in_transit_is_kept(hall: Hall) -> None:
    """Intake had read it before, and hands over the old row."""
    leader = await hall.lead()
    (bad,) = await hall.submit_definition("{")
    await hall.until(lambda: bool(hall.rows("SELECT 1 FROM runs WHERE held IS NOT NULL")))
    before = await hall.run(bad)
    await hall.ask(CancelRun, bad)

    leader.inbox.put(RunUnreadable(run=before, fault="its definition can't be read"))
    await hall.wait(1.0)

    assert (await hall.run(bad)).state is RunState.CANCELLED


async def test_a_submission_to_an_idle_server_is_assigned_in_one_batch(hall: Hall) -> None:
    """Adopted and placed together: one commit between the insert and the assignment."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1").welcome()
    await hall.wait(0.5)
    before = len(hall.store.calls)

    await hall.submit(chain("a", "b"))
    await hand.hear(Assign)

    written = [call.batch for call in hall.store.calls[before:] if call.batch.rows()]
    assert len(written) == 1
    assert [step.end for step in written[0].transitions if step.task_id.endswith(".0")] == [
        TaskState.PENDING,
        TaskState.QUEUED,
        TaskState.ASSIGNED,
    ]


async def test_a_definition_with_a_cycle_holds_its_run_only(hall: Hall) -> None:
    """Admission should have rejected it; here it affects one run."""
    await hall.lead()
    hall.play()
    cyclic = msgspec.json.encode(job(task("a", "b"), task("b", "a"))).decode()
    (bad,) = await hall.submit_definition(cyclic, tasks=2)
    (good,) = await hall.submit(chain("a"))

    assert await hall.ended(good) is RunState.SUCCEEDED
    await hall.until(lambda: bool(hall.rows("SELECT 1 FROM runs WHERE held IS NOT NULL")))
    assert (await hall.run(bad)).held is not None


async def test_a_missing_definition_holds_its_run_only(hall: Hall) -> None:
    """The job does not exist."""
    await hall.lead()
    (bad,) = await hall.submit(chain("a"))
    hall.store._writer.execute("DELETE FROM jobs")
    await hall.until(lambda: bool(hall.rows("SELECT 1 FROM runs WHERE held IS NOT NULL")))

    assert (await hall.run(bad)).adopted_at is None
    assert hall.rows("SELECT kind, subject FROM rejected_events") == [("RunUnreadable", bad)]


async def test_a_new_leader_holds_an_adopted_run_with_an_unreadable_definition(hall: Hall) -> None:
    """The rest of the shard is not affected."""
    await hall.lead("h1")
    (bad,) = await hall.submit(chain("a"))
    (good,) = await hall.submit(chain("b"))
    await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks") == [(2,)])
    job_id = (await hall.run(bad)).job_id
    hall.store._writer.execute("UPDATE jobs SET definition = '{' WHERE id = ?", (job_id,))
    await hall.stop("h1")

    await hall.lead("h2")
    hall.play("h2")

    assert await hall.ended(good) is RunState.SUCCEEDED
    assert (await hall.run(bad)).held is not None


async def test_a_pause_of_a_run_in_transit_is_kept(hall: Hall) -> None:
    """The run is in a long inbox, in the state before the pause."""
    leader = await hall.lead()
    hall.store.commit_seconds = 0.2
    ids = await hall.submit(wide(5), runs=800)
    run = ids[-1]
    await hall.until(lambda: len(leader.inbox) > 0)

    answer = await hall.ask(PauseRun, run)
    assert answer.reply is Reply.DONE
    await hall.until(lambda: hall.rows("SELECT count(*) FROM runs WHERE adopted_at IS NULL") == [(0,)], within=60)

    assert (await hall.run(run)).paused
    assert (await hall.run(run)).state is RunState.PAUSED


async def test_a_cancellation_of_a_run_in_transit_is_kept(hall: Hall) -> None:
    """It is adopted once, for the cancellation."""
    leader = await hall.lead()
    hall.store.commit_seconds = 0.2
    ids = await hall.submit(wide(5), runs=800)
    run = ids[-1]
    await hall.until(lambda: len(leader.inbox) > 0)

    answer = await hall.ask(CancelRun, run)
    assert answer.reply is Reply.DONE
    await hall.until(lambda: hall.rows("SELECT count(*) FROM runs WHERE adopted_at IS NULL") == [(0,)], within=60)

    assert (await hall.run(run)).state is RunState.CANCELLED
    assert hall.rows("SELECT count(*) FROM rejected_events") == [(0,)]


async def test_intake_continues_after_a_store_outage(hall: Hall) -> None:
    """HA-4."""
    await hall.lead()
    hall.store.trouble = lambda term, number, batch: Trouble.GONE
    await hall.submit(job(task("a")))
    await hall.wait(2.0)
    hall.store.trouble = lambda term, number, batch: None

    await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks") == [(1,)], within=3.0)


async def test_an_unreadable_row_does_not_stop_active_runs_and_is_adopted_once_fixed(
    hall: Hall,
) -> None:
    """It was written manually, or by a later release."""
    await hall.lead()
    (first,) = await hall.submit(job(task("a")))
    await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks") == [(1,)])
    hall.store._callbacks.clear()
    (bad,) = await hall.submit(job(task("b")))
    hall.store._writer.execute("UPDATE runs SET state = 'NEW' WHERE id = ?", (bad,))
    await hall.wait(3.0)
    hall.play()
    assert await hall.ended(first) is RunState.SUCCEEDED

    hall.store._writer.execute("UPDATE runs SET state = 'PENDING' WHERE id = ?", (bad,))
    assert await hall.ended(bad) is RunState.SUCCEEDED
