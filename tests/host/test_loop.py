"""Outcomes of a commit, and no effect before its batch is durable."""

from __future__ import annotations

from datetime import datetime

import pytest

from mainspring.core.model.batch import Batch, SpreadKind
from mainspring.core.model.run import RunState
from mainspring.core.model.task import TaskState
from mainspring.host.loop import EVENTS_AT_ONCE
from mainspring.protocol.errors import NotLeading
from mainspring.protocol.wire import Answer, Assign, Outcome, Result, Verdict
from mainspring.shard.effects import Reply
from mainspring.shard.events import CancelRun, Event, SpreadStep, TimerDue, TimerKind, WorkerRegistered
from mainspring.store.ports.store import Term
from tests.host.hall import SHARD, Hall, Hand, Trouble
from tests.shard.jobs import chain, job, task, wide

S = TaskState
POISON = [
    TimerDue(kind=TimerKind.RUN_LIMIT, subject="run_none"),
    WorkerRegistered(
        worker="w9", session="s", offer=None, labels={}, zone="", version="", holds=()  # type: ignore[arg-type]
    ),
]  # fmt: skip


async def test_a_run_goes_from_intake_to_its_end(hall: Hall) -> None:
    """With a worker."""
    await hall.lead()
    hall.play()
    (run,) = await hall.submit(chain("a", "b", "c"))

    assert await hall.ended(run) is RunState.SUCCEEDED
    assert [one.state for one in await hall.tasks(run)] == [S.SUCCEEDED] * 3


async def test_no_effect_is_released_during_its_commit(hall: Hall) -> None:
    """STA-3: the assignment waits for the store, however slow it is."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1").welcome()
    (run,) = await hall.submit(job(task("a")))
    hall.store.commit_seconds = 1.0

    with pytest.raises(TimeoutError):
        await hand.hear(Assign, within=0.9)
    assert await hall.tasks(run) == []

    await hand.hear(Assign, within=3.0)
    (row,) = await hall.tasks(run)
    assert row.state is S.ASSIGNED


async def test_an_answer_follows_the_commit_of_its_result(hall: Hall) -> None:
    """STA-3, I-50: the result is durable before the worker may forget it."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1").welcome()
    (run,) = await hall.submit(job(task("a")))
    attempt = (await hand.next_task()).attempt

    assert await hand.finish(attempt) is Verdict.APPLIED
    assert (await hall.tasks(run))[0].state is S.SUCCEEDED


async def test_during_an_outage_the_same_batch_is_retried_and_no_effect_released(hall: Hall) -> None:
    """HA-4: nothing has to be undone, and work resumes afterwards."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1").welcome()
    hall.store.trouble = lambda term, number, batch: Trouble.GONE
    await hall.submit(job(task("a")))
    hall.store.calls.clear()
    with pytest.raises(TimeoutError):
        await hand.hear(Assign, within=3.0)
    calls = [call for call in hall.store.calls if call.batch.new_tasks]
    assert len(calls) > 3
    assert len({call.number for call in calls}) == 1
    assert all(call.batch is calls[0].batch for call in calls)

    hall.store.trouble = lambda term, number, batch: None
    await hand.hear(Assign, within=1.0)


async def test_a_batch_with_a_lost_answer_is_recognized_by_its_number(hall: Hall) -> None:
    """It is written once, and its effects are released once."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1").welcome()
    lost: list[int] = []

    def lose_first(term: Term, number: int, batch: Batch) -> Trouble | None:
        if batch.new_tasks and not lost:
            lost.append(number)
            return Trouble.ANSWER_LOST
        return None

    hall.store.trouble = lose_first
    (run,) = await hall.submit(job(task("a")))
    attempt = (await hand.next_task()).attempt
    assert await hand.finish(attempt) is Verdict.APPLIED

    assert lost
    assert not [message for message in hand.received if isinstance(message, Assign)]
    assert hall.rows("SELECT count(*) FROM transitions") == [(5,)]
    assert await hall.ended(run) is RunState.SUCCEEDED


async def test_a_fenced_leader_drops_everything_and_releases_no_effect(hall: Hall) -> None:
    """HA-1: another host has taken the shard."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1").welcome()
    (run,) = await hall.submit(job(task("a")))
    attempt = (await hand.next_task()).attempt
    await hall.until(lambda: hall.rows("SELECT state FROM tasks") == [("RUNNING",)])
    hall.store._writer.execute("UPDATE shards SET epoch = epoch + 1, nonce = 1")

    hand.say(Result(attempt, Outcome.SUCCEEDED, "1"))
    await hall.until(lambda: hand.link.closed)

    assert hand.received == []
    assert (await hall.tasks(run))[0].state is S.RUNNING
    assert SHARD not in hall.hosts["h1"].leaders


async def test_pending_replies_fail_at_the_end_of_the_term(hall: Hall) -> None:
    """No caller is left waiting."""
    await hall.lead()
    (run,) = await hall.submit(job(task("a")))
    hall.store._writer.execute("UPDATE shards SET epoch = epoch + 1, nonce = 1")

    with pytest.raises(NotLeading):
        await hall.ask(CancelRun, run)


async def test_a_result_that_the_store_rejects_is_isolated(hall: Hall) -> None:
    """Rejected: a lone surrogate passes as JSON at the edge, and no store accepts it."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1").welcome()
    good, bad = [(await hall.submit(job(task(name))))[0] for name in ("good", "bad")]
    attempts = {}
    for _ in range(2):
        assigned = await hand.next_task()
        attempts[assigned.name] = assigned.attempt
    await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks WHERE state = 'RUNNING'") == [(2,)])

    poison = '"' + "\ud800" + '"'
    hall.store.commit_seconds = 0.05
    hand.say(
        Result(attempts["good"], Outcome.SUCCEEDED, "1"),
        Result(attempts["bad"], Outcome.SUCCEEDED, None, poison),
    )
    verdicts = {}
    for _ in range(2):
        answer = await hand.hear(Answer)
        verdicts[answer.attempt] = answer.verdict

    assert verdicts == {attempts["good"]: Verdict.APPLIED, attempts["bad"]: Verdict.REJECTED}
    assert await hall.ended(good) is RunState.SUCCEEDED
    assert (await hall.tasks(bad))[0].state is S.QUARANTINED
    assert len(hall.rows("SELECT * FROM rejected_events")) == 1


@pytest.mark.parametrize("poison", POISON, ids=lambda event: type(event).__name__)
async def test_an_event_that_makes_the_shard_fail_is_recorded_as_rejected(hall: Hall, poison: Event) -> None:
    """The other events of the turn are handled."""
    leader = await hall.lead()
    hall.play()
    hall.store.commit_seconds = 0.05
    (before,) = await hall.submit(chain("a", "b"))
    leader.inbox.put(poison)
    (after,) = await hall.submit(chain("c", "d"))
    leader.inbox.put(poison)

    assert await hall.ended(before) is RunState.SUCCEEDED
    assert await hall.ended(after) is RunState.SUCCEEDED
    assert hall.rows("SELECT kind FROM rejected_events") == [(type(poison).__name__,)] * 2
    assert len(hall.rows("SELECT * FROM outbox WHERE kind = 'alert'")) == 2


async def test_a_leader_that_fails_completely_is_followed_by_another_term(hall: Hall) -> None:
    """The event can't even be recorded. The shard is led again when the lease has expired."""
    leader = await hall.lead()
    hall.play()
    leader.inbox.put(SpreadStep(run_id=[], kind=SpreadKind.ADOPT))  # type: ignore[arg-type]
    await hall.until(lambda: SHARD not in hall.hosts["h1"].leaders)
    (run,) = await hall.submit(chain("a"))

    assert await hall.ended(run) is RunState.SUCCEEDED
    assert hall.rows("SELECT count(*) FROM terms") == [(2,)]


async def test_a_stale_memory_is_loaded_again(hall: Hall) -> None:
    """StaleWrite: a row differs from the memory. Only the turn is lost."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1").welcome()
    (run,) = await hall.submit(job(task("a")))
    attempt = (await hand.next_task()).attempt
    await hall.until(lambda: hall.rows("SELECT state FROM tasks") == [("RUNNING",)])
    hall.store._writer.execute("UPDATE tasks SET seq = seq + 1")

    assert await hand.finish(attempt) is Verdict.APPLIED
    assert await hall.ended(run) is RunState.SUCCEEDED


async def test_open_sessions_stay_open_when_the_memory_is_loaded_again(hall: Hall) -> None:
    """Workers notice nothing."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1").welcome()
    await hall.submit(job(task("a")))
    attempt = (await hand.next_task()).attempt
    await hall.until(lambda: hall.rows("SELECT state FROM tasks") == [("RUNNING",)])
    hall.store._writer.execute("UPDATE tasks SET seq = seq + 1")
    await hand.finish(attempt)

    await hall.submit(job(task("b")))
    await hand.next_task()
    assert not hand.link.closed


async def test_events_during_a_commit_share_the_next_one(hall: Hall) -> None:
    """Group commit without a timer."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1", cores=50).welcome()
    await hall.submit(wide(40))
    attempts: list[str] = []
    while len(attempts) < 40:
        attempts += [one.attempt for one in (await hand.hear(Assign)).group]
    hall.store.commit_seconds = 0.2
    hall.store.calls.clear()

    for attempt in attempts:
        hand.say(Result(attempt, Outcome.SUCCEEDED, "1"))
        await hall.wait(0.01)
    await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks WHERE state = 'SUCCEEDED'") == [(40,)])

    assert sum(1 for call in hall.store.calls if call.batch.attempts) <= 5


async def test_a_batch_is_sent_before_the_rest_of_the_inbox_is_handled(hall: Hall) -> None:
    """The store works while the shard handles the rest."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1", cores=400).welcome()
    await hall.submit(wide(400))
    attempts: list[str] = []
    while len(attempts) < 400:
        attempts += [one.attempt for one in (await hand.hear(Assign)).group]
    left: list[int] = []
    commit = hall.store.commit

    async def watched(term: Term, number: int, batch: Batch) -> datetime:
        left.append(len(leader.inbox))
        return await commit(term, number, batch)

    hall.store.commit_seconds = 0.2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hall.store, "commit", watched)
        hand.say(*(Result(attempt, Outcome.SUCCEEDED, "1") for attempt in attempts))
        await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks WHERE state = 'SUCCEEDED'") == [(400,)])

    assert left[0] >= 400 - 3 * EVENTS_AT_ONCE


async def test_an_idle_leader_renews_its_lease_every_second(hall: Hall) -> None:
    """HA-2."""
    await hall.lead()
    hall.store.calls.clear()

    await hall.wait(10.0)

    assert 9 <= len(hall.store.calls) <= 14
    assert all(call.batch.rows() == 0 for call in hall.store.calls)


async def test_an_action_is_answered_when_it_is_durable(hall: Hall) -> None:
    """STA-3 for actions."""
    await hall.lead()
    (run,) = await hall.submit(job(task("a")))

    answer = await hall.ask(CancelRun, run)

    assert answer.reply is Reply.DONE
    assert (await hall.run(run)).state is RunState.CANCELLED
