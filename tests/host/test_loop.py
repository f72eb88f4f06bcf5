"""Outcomes of a commit, and no effect before its batch is durable."""

from __future__ import annotations

from datetime import datetime

import pytest

from mainspring.core.model.batch import Batch, BulkOperationKind
from mainspring.core.model.run import RunState
from mainspring.core.model.task import TaskState
from mainspring.host.loop import MAX_EVENTS_PER_STEP
from mainspring.protocol.errors import NotLeading
from mainspring.protocol.wire import Answer, Assign, Outcome, Result, Verdict
from mainspring.shard.effects import ActionStatus
from mainspring.shard.events import BulkOperationStep, CancelRun, Event, TimerDue, TimerKind, WorkerRegistered
from mainspring.store.ports.store import Term
from tests.host.host_harness import SHARD, HostHarness, ScriptedWorker, Trouble
from tests.shard.jobs import chain, job, task, wide

S = TaskState
POISON = [
    TimerDue(kind=TimerKind.RUN_LIMIT, subject="run_none"),
    WorkerRegistered(
        worker="w9", session="s", offer=None, labels={}, zone="", version="", holds=()  # type: ignore[arg-type]
    ),
]  # fmt: skip


async def test_a_run_goes_from_intake_to_its_end(harness: HostHarness) -> None:
    """With a worker."""
    await harness.lead()
    harness.play()
    (run,) = await harness.submit(chain("a", "b", "c"))

    assert await harness.ended(run) is RunState.SUCCEEDED
    assert [one.state for one in await harness.tasks(run)] == [S.SUCCEEDED] * 3


async def test_no_effect_is_released_during_its_commit(harness: HostHarness) -> None:
    """STA-3: the assignment waits for the store, however slow it is."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    (run,) = await harness.submit(job(task("a")))
    harness.store.commit_seconds = 1.0

    with pytest.raises(TimeoutError):
        await scripted_worker.expect(Assign, within=0.9)
    assert await harness.tasks(run) == []

    await scripted_worker.expect(Assign, within=3.0)
    (row,) = await harness.tasks(run)
    assert row.state is S.ASSIGNED


async def test_an_answer_follows_the_commit_of_its_result(harness: HostHarness) -> None:
    """STA-3, I-50: the result is durable before the worker may forget it."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    (run,) = await harness.submit(job(task("a")))
    attempt = (await scripted_worker.next_task()).attempt

    assert await scripted_worker.finish(attempt) is Verdict.APPLIED
    assert (await harness.tasks(run))[0].state is S.SUCCEEDED


async def test_during_an_outage_the_same_batch_is_retried_and_no_effect_released(harness: HostHarness) -> None:
    """HA-4: nothing has to be undone, and work resumes afterwards."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    harness.store.trouble = lambda term, number, batch: Trouble.GONE
    await harness.submit(job(task("a")))
    harness.store.calls.clear()
    with pytest.raises(TimeoutError):
        await scripted_worker.expect(Assign, within=3.0)
    calls = [call for call in harness.store.calls if call.batch.new_tasks]
    assert len(calls) > 3
    assert len({call.number for call in calls}) == 1
    assert all(call.batch is calls[0].batch for call in calls)

    harness.store.trouble = lambda term, number, batch: None
    await scripted_worker.expect(Assign, within=1.0)


async def test_a_batch_with_a_lost_answer_is_recognized_by_its_number(harness: HostHarness) -> None:
    """It is written once, and its effects are released once."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    lost: list[int] = []

    def lose_first(term: Term, number: int, batch: Batch) -> Trouble | None:
        if batch.new_tasks and not lost:
            lost.append(number)
            return Trouble.ANSWER_LOST
        return None

    harness.store.trouble = lose_first
    (run,) = await harness.submit(job(task("a")))
    attempt = (await scripted_worker.next_task()).attempt
    assert await scripted_worker.finish(attempt) is Verdict.APPLIED

    assert lost
    assert not [message for message in scripted_worker.received if isinstance(message, Assign)]
    assert harness.rows("SELECT count(*) FROM transitions") == [(5,)]
    assert await harness.ended(run) is RunState.SUCCEEDED


async def test_a_fenced_leader_drops_everything_and_releases_no_effect(harness: HostHarness) -> None:
    """HA-1: another host has taken the shard."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    (run,) = await harness.submit(job(task("a")))
    attempt = (await scripted_worker.next_task()).attempt
    await harness.until(lambda: harness.rows("SELECT state FROM tasks") == [("RUNNING",)])
    harness.store._writer.execute("UPDATE shards SET epoch = epoch + 1, nonce = 1")

    scripted_worker.send(Result(attempt, Outcome.SUCCEEDED, "1"))
    await harness.until(lambda: scripted_worker.link.closed)

    assert scripted_worker.received == []
    assert (await harness.tasks(run))[0].state is S.RUNNING
    assert SHARD not in harness.hosts["h1"].leaders


async def test_pending_replies_fail_at_the_end_of_the_term(harness: HostHarness) -> None:
    """No caller is left waiting."""
    await harness.lead()
    (run,) = await harness.submit(job(task("a")))
    harness.store._writer.execute("UPDATE shards SET epoch = epoch + 1, nonce = 1")

    with pytest.raises(NotLeading):
        await harness.ask(CancelRun, run)


async def test_a_result_that_the_store_rejects_is_isolated(harness: HostHarness) -> None:
    """Rejected: a lone surrogate passes as JSON at the edge, and no store accepts it."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    good, bad = [(await harness.submit(job(task(name))))[0] for name in ("good", "bad")]
    attempts = {}
    for _ in range(2):
        assigned = await scripted_worker.next_task()
        attempts[assigned.name] = assigned.attempt
    await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks WHERE state = 'RUNNING'") == [(2,)])

    poison = '"' + "\ud800" + '"'
    harness.store.commit_seconds = 0.05
    scripted_worker.send(
        Result(attempts["good"], Outcome.SUCCEEDED, "1"),
        Result(attempts["bad"], Outcome.SUCCEEDED, None, poison),
    )
    verdicts = {}
    for _ in range(2):
        answer = await scripted_worker.expect(Answer)
        verdicts[answer.attempt] = answer.verdict

    assert verdicts == {attempts["good"]: Verdict.APPLIED, attempts["bad"]: Verdict.REJECTED}
    assert await harness.ended(good) is RunState.SUCCEEDED
    assert (await harness.tasks(bad))[0].state is S.QUARANTINED
    assert len(harness.rows("SELECT * FROM rejected_events")) == 1


@pytest.mark.parametrize("poison", POISON, ids=lambda event: type(event).__name__)
async def test_an_event_that_makes_the_shard_fail_is_recorded_as_rejected(harness: HostHarness, poison: Event) -> None:
    """The other events of the turn are handled."""
    leader = await harness.lead()
    harness.play()
    harness.store.commit_seconds = 0.05
    (before,) = await harness.submit(chain("a", "b"))
    leader.inbox.put(poison)
    (after,) = await harness.submit(chain("c", "d"))
    leader.inbox.put(poison)

    assert await harness.ended(before) is RunState.SUCCEEDED
    assert await harness.ended(after) is RunState.SUCCEEDED
    assert harness.rows("SELECT kind FROM rejected_events") == [(type(poison).__name__,)] * 2
    assert len(harness.rows("SELECT * FROM outbox WHERE kind = 'alert'")) == 2


async def test_a_leader_that_fails_completely_is_followed_by_another_term(harness: HostHarness) -> None:
    """The event can't even be recorded. The shard is led again when the lease has expired."""
    leader = await harness.lead()
    harness.play()
    leader.inbox.put(BulkOperationStep(run_id=[], kind=BulkOperationKind.ADOPT))  # type: ignore[arg-type]
    await harness.until(lambda: SHARD not in harness.hosts["h1"].leaders)
    (run,) = await harness.submit(chain("a"))

    assert await harness.ended(run) is RunState.SUCCEEDED
    assert harness.rows("SELECT count(*) FROM terms") == [(2,)]


async def test_a_stale_memory_is_loaded_again(harness: HostHarness) -> None:
    """StaleWrite: a row differs from the memory. Only the turn is lost."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    (run,) = await harness.submit(job(task("a")))
    attempt = (await scripted_worker.next_task()).attempt
    await harness.until(lambda: harness.rows("SELECT state FROM tasks") == [("RUNNING",)])
    harness.store._writer.execute("UPDATE tasks SET seq = seq + 1")

    assert await scripted_worker.finish(attempt) is Verdict.APPLIED
    assert await harness.ended(run) is RunState.SUCCEEDED


async def test_open_sessions_stay_open_when_the_memory_is_loaded_again(harness: HostHarness) -> None:
    """Workers notice nothing."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    await harness.submit(job(task("a")))
    attempt = (await scripted_worker.next_task()).attempt
    await harness.until(lambda: harness.rows("SELECT state FROM tasks") == [("RUNNING",)])
    harness.store._writer.execute("UPDATE tasks SET seq = seq + 1")
    await scripted_worker.finish(attempt)

    await harness.submit(job(task("b")))
    await scripted_worker.next_task()
    assert not scripted_worker.link.closed


async def test_events_during_a_commit_share_the_next_one(harness: HostHarness) -> None:
    """Group commit without a timer."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1", cores=50).welcome()
    await harness.submit(wide(40))
    attempts: list[str] = []
    while len(attempts) < 40:
        attempts += [one.attempt for one in (await scripted_worker.expect(Assign)).group]
    harness.store.commit_seconds = 0.2
    harness.store.calls.clear()

    for attempt in attempts:
        scripted_worker.send(Result(attempt, Outcome.SUCCEEDED, "1"))
        await harness.wait(0.01)
    await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks WHERE state = 'SUCCEEDED'") == [(40,)])

    assert sum(1 for call in harness.store.calls if call.batch.attempts) <= 5


async def test_a_batch_is_sent_before_the_rest_of_the_inbox_is_handled(harness: HostHarness) -> None:
    """The store works while the shard handles the rest."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1", cores=400).welcome()
    await harness.submit(wide(400))
    attempts: list[str] = []
    while len(attempts) < 400:
        attempts += [one.attempt for one in (await scripted_worker.expect(Assign)).group]
    left: list[int] = []
    commit = harness.store.commit

    async def watched(term: Term, number: int, batch: Batch) -> datetime:
        left.append(len(leader.inbox))
        return await commit(term, number, batch)

    harness.store.commit_seconds = 0.2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harness.store, "commit", watched)
        scripted_worker.send(*(Result(attempt, Outcome.SUCCEEDED, "1") for attempt in attempts))
        await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks WHERE state = 'SUCCEEDED'") == [(400,)])

    assert left[0] >= 400 - 3 * MAX_EVENTS_PER_STEP


async def test_an_idle_leader_renews_its_lease_every_second(harness: HostHarness) -> None:
    """HA-2."""
    await harness.lead()
    harness.store.calls.clear()

    await harness.wait(10.0)

    assert 9 <= len(harness.store.calls) <= 14
    assert all(call.batch.rows() == 0 for call in harness.store.calls)


async def test_an_action_is_answered_when_it_is_durable(harness: HostHarness) -> None:
    """STA-3 for actions."""
    await harness.lead()
    (run,) = await harness.submit(job(task("a")))

    answer = await harness.ask(CancelRun, run)

    assert answer.reply is ActionStatus.DONE
    assert (await harness.run(run)).state is RunState.CANCELLED
