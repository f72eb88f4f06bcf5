"""Actions of people through a leader, and their results."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.run import RunState
from mainspring.core.model.task import Priority, TaskState
from mainspring.host.loop import INBOX_LIMIT
from mainspring.protocol.errors import NotLeading, Overloaded
from mainspring.protocol.wire import Outcome, Result, Stop
from mainspring.shard.effects import ActionReply, ActionStatus
from mainspring.shard.events import (
    AttemptStarted,
    CancelRun,
    CancelTask,
    ChangePriority,
    PauseRun,
    ReopenTask,
    ResumeRun,
    WorkerHeartbeat,
)
from tests.host.host_harness import SHARD, HostHarness, ScriptedWorker, Trouble
from tests.shard.jobs import chain, job, task

S = TaskState


async def test_an_executed_action_is_done(harness: HostHarness) -> None:
    """Its repetition is "already done" (STA-2)."""
    await harness.lead()
    (run,) = await harness.submit(job(task("a")))

    assert (await harness.ask(PauseRun, run)).reply is ActionStatus.DONE
    assert (await harness.ask(PauseRun, run)).reply is ActionStatus.ALREADY
    assert (await harness.ask(ResumeRun, run)).reply is ActionStatus.DONE


async def test_an_action_on_an_unknown_run_is_not_found(harness: HostHarness) -> None:
    """The rows were looked up."""
    await harness.lead()

    answer = await harness.ask(CancelRun, "run_none")

    assert answer.reply is ActionStatus.NOT_FOUND
    assert "run_none" in answer.detail


async def test_an_impossible_action_is_refused(harness: HostHarness) -> None:
    """With the reason."""
    await harness.lead()
    (run,) = await harness.submit(job(task("a")))
    await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks") == [(1,)])

    answer = await harness.ask(ReopenTask, run, task_id=f"task_{run[4:]}.0")

    assert answer.reply is ActionStatus.REFUSED
    assert answer.detail


async def test_a_run_of_another_shard_is_not_found(harness: HostHarness) -> None:
    """Its own leader handles it."""
    await harness.store.ensure_shard("another")
    await harness.lead()
    (run,) = await harness.submit(job(task("a")))
    harness.store._writer.execute("UPDATE runs SET shard = 'another', start_at = start_at + 1000000000")

    assert (await harness.ask(CancelRun, run)).reply is ActionStatus.NOT_FOUND


async def test_a_finished_run_is_reloaded_for_a_retry(harness: HostHarness) -> None:
    """STA-1: from its rows."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    (run,) = await harness.submit(chain("a", max_attempts=1))
    scripted_worker.send(Result((await scripted_worker.next_task()).attempt, Outcome.FAILED, None, '"no"'))
    assert await harness.ended(run) is RunState.FAILED

    assert (await harness.ask(ReopenTask, run, task_id=f"task_{run[4:]}.0")).reply is ActionStatus.DONE
    await scripted_worker.finish((await scripted_worker.next_task()).attempt)

    assert await harness.ended(run) is RunState.SUCCEEDED
    assert (await harness.run(run)).generation == 2


async def test_a_cancelled_task_is_stopped_by_its_worker(harness: HostHarness) -> None:
    """STA-8: from the action to the worker and back."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    (run,) = await harness.submit(job(task("a")))
    attempt = (await scripted_worker.next_task()).attempt
    await harness.until(lambda: harness.rows("SELECT state FROM tasks") == [("RUNNING",)])

    assert (await harness.ask(CancelTask, run, task_id=f"task_{run[4:]}.0")).reply is ActionStatus.DONE
    stop = await scripted_worker.expect(Stop)
    assert (stop.attempt, stop.grace_seconds) == (attempt, 30.0)
    scripted_worker.send(Result(attempt, Outcome.STOPPED))

    assert await harness.ended(run) is RunState.CANCELLED


async def test_concurrent_actions_are_each_answered(harness: HostHarness) -> None:
    """Of ten cancellations one is "done"."""
    await harness.lead()
    (run,) = await harness.submit(job(task("a")))

    answers = await asyncio.gather(*(harness.ask(CancelRun, run) for _ in range(10)))

    assert sorted(answer.reply for answer in answers) == [ActionStatus.ALREADY] * 9 + [ActionStatus.DONE]


async def test_pending_actions_fail_when_the_term_ends(harness: HostHarness) -> None:
    """Their outcome is unknown here; the caller asks the next leader."""
    await harness.lead()
    (run,) = await harness.submit(job(task("a")))
    harness.store.trouble = lambda term, number, batch: Trouble.GONE
    asking = asyncio.create_task(harness.ask(CancelRun, run))

    with pytest.raises(NotLeading):
        await asking
    assert SHARD not in harness.hosts["h1"].leaders


async def test_pending_actions_fail_when_the_leader_stops(harness: HostHarness) -> None:
    """After a clean stop no caller is left waiting either."""
    await harness.lead()
    (run,) = await harness.submit(job(task("a")))
    await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks") == [(1,)])
    harness.store.commit_seconds = 0.2
    asking = [asyncio.create_task(harness.ask(kind, run)) for kind in (PauseRun, ResumeRun)]
    await harness.wait(0.05)

    await harness.stop("h1")

    answers = await asyncio.gather(*asking, return_exceptions=True)
    for one in answers:
        assert isinstance(one, NotLeading) or (isinstance(one, ActionReply) and one.reply is ActionStatus.DONE)


async def test_an_action_is_rejected_when_the_inbox_is_full(harness: HostHarness) -> None:
    """HA-3: at once, while messages of workers are still taken."""
    leader = await harness.lead()
    harness.store.trouble = lambda term, number, batch: Trouble.GONE
    await harness.wait(1.5)
    for n in range(INBOX_LIMIT + 5_000):
        leader.inbox.put(AttemptStarted(worker="w1", session="s", attempt=f"att_{n}"))
    assert leader.inbox.is_full()

    with pytest.raises(Overloaded):
        await harness.ask(CancelRun, "run_x")
    leader.inbox.put(WorkerHeartbeat(worker="w1", session="s"))


async def test_a_reply_without_a_waiting_caller_is_dropped(harness: HostHarness) -> None:
    """The caller gave up; the action is executed all the same."""
    await harness.lead()
    (run,) = await harness.submit(job(task("a")))
    await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks") == [(1,)])
    harness.store.commit_seconds = 0.5
    asking = asyncio.create_task(harness.ask(CancelRun, run))
    await harness.wait(0.1)
    asking.cancel()

    assert await harness.ended(run) is RunState.CANCELLED


def entry(number: int) -> AuditEntry:
    """The audit entry of a request."""
    return AuditEntry(id=f"req_{number}", tenant="acme", actor="ann", source="::1", action="action", object="it")


async def test_executed_actions_are_audited_once_and_refused_ones_are_not(harness: HostHarness) -> None:
    """I-73: also after a row lookup, and after a lost answer of the store."""
    await harness.lead()
    (run,) = await harness.submit(job(task("a")), start_in=1_000.0)
    losses = [Trouble.ANSWER_LOST]
    harness.store.trouble = lambda term, number, batch: losses.pop() if batch.audit and losses else None

    assert (await harness.ask(ChangePriority, run, priority=Priority.P0, audit=entry(1))).reply is ActionStatus.DONE
    assert (await harness.ask(ChangePriority, run, priority=Priority.P0, audit=entry(2))).reply is ActionStatus.ALREADY
    assert (
        await harness.ask(CancelTask, run, task_id=f"task_{run[4:]}.0", audit=entry(3))
    ).reply is ActionStatus.REFUSED
    assert (await harness.ask(CancelRun, "run_none", audit=entry(4))).reply is ActionStatus.NOT_FOUND

    reported = harness.rows("SELECT id, before, after FROM audit_unsealed ORDER BY id")
    assert reported == [
        ("req_1", '{"state":"PENDING","priority":"P1"}', '{"reply":"done","detail":"from P1 to P0"}'),
        (
            "req_2",
            '{"state":"PENDING","priority":"P0"}',
            '{"reply":"already","detail":"the run already has priority P0"}',
        ),
    ]
    assert harness.rows("SELECT priority, adopted_at FROM runs") == [(0, None)]
