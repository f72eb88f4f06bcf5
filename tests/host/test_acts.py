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
from mainspring.shard.effects import Answered, Reply
from mainspring.shard.events import (
    AttemptStarted,
    CancelRun,
    CancelTask,
    ChangePriority,
    PauseRun,
    ReopenTask,
    ResumeRun,
    WorkerBeat,
)
from tests.host.hall import SHARD, Hall, Hand, Trouble
from tests.shard.jobs import chain, job, task

S = TaskState


async def test_an_executed_action_is_done(hall: Hall) -> None:
    """Its repetition is "already done" (STA-2)."""
    await hall.lead()
    (run,) = await hall.submit(job(task("a")))

    assert (await hall.ask(PauseRun, run)).reply is Reply.DONE
    assert (await hall.ask(PauseRun, run)).reply is Reply.ALREADY
    assert (await hall.ask(ResumeRun, run)).reply is Reply.DONE


async def test_an_action_on_an_unknown_run_is_not_found(hall: Hall) -> None:
    """The rows were looked up."""
    await hall.lead()

    answer = await hall.ask(CancelRun, "run_none")

    assert answer.reply is Reply.NOT_FOUND
    assert "run_none" in answer.detail


async def test_an_impossible_action_is_refused(hall: Hall) -> None:
    """With the reason."""
    await hall.lead()
    (run,) = await hall.submit(job(task("a")))
    await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks") == [(1,)])

    answer = await hall.ask(ReopenTask, run, task_id=f"task_{run[4:]}.0")

    assert answer.reply is Reply.REFUSED
    assert answer.detail


async def test_a_run_of_another_shard_is_not_found(hall: Hall) -> None:
    """Its own leader handles it."""
    await hall.store.ensure_shard("another")
    await hall.lead()
    (run,) = await hall.submit(job(task("a")))
    hall.store._writer.execute("UPDATE runs SET shard = 'another', start_at = start_at + 1000000000")

    assert (await hall.ask(CancelRun, run)).reply is Reply.NOT_FOUND


async def test_a_finished_run_is_reloaded_for_a_retry(hall: Hall) -> None:
    """STA-1: from its rows."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1").welcome()
    (run,) = await hall.submit(chain("a", max_attempts=1))
    hand.say(Result((await hand.next_task()).attempt, Outcome.FAILED, None, '"no"'))
    assert await hall.ended(run) is RunState.FAILED

    assert (await hall.ask(ReopenTask, run, task_id=f"task_{run[4:]}.0")).reply is Reply.DONE
    await hand.finish((await hand.next_task()).attempt)

    assert await hall.ended(run) is RunState.SUCCEEDED
    assert (await hall.run(run)).generation == 2


async def test_a_cancelled_task_is_stopped_by_its_worker(hall: Hall) -> None:
    """STA-8: from the action to the worker and back."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1").welcome()
    (run,) = await hall.submit(job(task("a")))
    attempt = (await hand.next_task()).attempt
    await hall.until(lambda: hall.rows("SELECT state FROM tasks") == [("RUNNING",)])

    assert (await hall.ask(CancelTask, run, task_id=f"task_{run[4:]}.0")).reply is Reply.DONE
    stop = await hand.hear(Stop)
    assert (stop.attempt, stop.grace_seconds) == (attempt, 30.0)
    hand.say(Result(attempt, Outcome.STOPPED))

    assert await hall.ended(run) is RunState.CANCELLED


async def test_concurrent_actions_are_each_answered(hall: Hall) -> None:
    """Of ten cancellations one is "done"."""
    await hall.lead()
    (run,) = await hall.submit(job(task("a")))

    answers = await asyncio.gather(*(hall.ask(CancelRun, run) for _ in range(10)))

    assert sorted(answer.reply for answer in answers) == [Reply.ALREADY] * 9 + [Reply.DONE]


async def test_pending_actions_fail_when_the_term_ends(hall: Hall) -> None:
    """Their outcome is unknown here; the caller asks the next leader."""
    await hall.lead()
    (run,) = await hall.submit(job(task("a")))
    hall.store.trouble = lambda term, number, batch: Trouble.GONE
    asking = asyncio.create_task(hall.ask(CancelRun, run))

    with pytest.raises(NotLeading):
        await asking
    assert SHARD not in hall.hosts["h1"].leaders


async def test_pending_actions_fail_when_the_leader_stops(hall: Hall) -> None:
    """After a clean stop no caller is left waiting either."""
    await hall.lead()
    (run,) = await hall.submit(job(task("a")))
    await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks") == [(1,)])
    hall.store.commit_seconds = 0.2
    asking = [asyncio.create_task(hall.ask(kind, run)) for kind in (PauseRun, ResumeRun)]
    await hall.wait(0.05)

    await hall.stop("h1")

    answers = await asyncio.gather(*asking, return_exceptions=True)
    for one in answers:
        assert isinstance(one, NotLeading) or (isinstance(one, Answered) and one.reply is Reply.DONE)


async def test_an_action_is_rejected_when_the_inbox_is_full(hall: Hall) -> None:
    """HA-3: at once, while messages of workers are still taken."""
    leader = await hall.lead()
    hall.store.trouble = lambda term, number, batch: Trouble.GONE
    await hall.wait(1.5)
    for n in range(INBOX_LIMIT + 5_000):
        leader.inbox.put(AttemptStarted(worker="w1", session="s", attempt=f"att_{n}"))
    assert leader.inbox.is_full()

    with pytest.raises(Overloaded):
        await hall.ask(CancelRun, "run_x")
    leader.inbox.put(WorkerBeat(worker="w1", session="s"))


async def test_a_reply_without_a_waiting_caller_is_dropped(hall: Hall) -> None:
    """The caller gave up; the action is executed all the same."""
    await hall.lead()
    (run,) = await hall.submit(job(task("a")))
    await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks") == [(1,)])
    hall.store.commit_seconds = 0.5
    asking = asyncio.create_task(hall.ask(CancelRun, run))
    await hall.wait(0.1)
    asking.cancel()

    assert await hall.ended(run) is RunState.CANCELLED


def entry(number: int) -> AuditEntry:
    """The audit entry of a request."""
    return AuditEntry(id=f"req_{number}", tenant="acme", actor="ann", source="::1", act="act", object="it")


async def test_executed_actions_are_audited_once_and_refused_ones_are_not(hall: Hall) -> None:
    """I-73: also after a row lookup, and after a lost answer of the store."""
    await hall.lead()
    (run,) = await hall.submit(job(task("a")), start_in=1_000.0)
    losses = [Trouble.ANSWER_LOST]
    hall.store.trouble = lambda term, number, batch: losses.pop() if batch.audit and losses else None

    assert (await hall.ask(ChangePriority, run, priority=Priority.P0, audit=entry(1))).reply is Reply.DONE
    assert (await hall.ask(ChangePriority, run, priority=Priority.P0, audit=entry(2))).reply is Reply.ALREADY
    assert (await hall.ask(CancelTask, run, task_id=f"task_{run[4:]}.0", audit=entry(3))).reply is Reply.REFUSED
    assert (await hall.ask(CancelRun, "run_none", audit=entry(4))).reply is Reply.NOT_FOUND

    told = hall.rows("SELECT id, before, after FROM audit_unsealed ORDER BY id")
    assert told == [
        ("req_1", '{"state":"PENDING","priority":"P1"}', '{"reply":"done","detail":"from P1 to P0"}'),
        (
            "req_2",
            '{"state":"PENDING","priority":"P0"}',
            '{"reply":"already","detail":"the run already has priority P0"}',
        ),
    ]
    assert hall.rows("SELECT priority, adopted_at FROM runs") == [(0, None)]
