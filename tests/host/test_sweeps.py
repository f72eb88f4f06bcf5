"""Maintenance: finished runs move to history, old rows are pruned, unexplained tasks are checked (OPS-7, STA-7)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from mainspring.core.model.run import RunState
from mainspring.core.model.settings import USUAL_RETENTION, Retention
from mainspring.host.maintenance.sweeper import Sweeper
from mainspring.shard.effects import Reply
from mainspring.shard.events import ReopenTask
from mainspring.store.ports.store import PRUNABLE
from tests.host.hall import Hall
from tests.shard.jobs import chain, job, task

DAY = 86_400.0


@pytest.fixture
def sweeper(hall: Hall) -> Sweeper:
    """The sweeper of one host."""
    return Sweeper(
        hall.store, hall.clock, lambda: [one for host in hall.hosts.values() for one in host.leaders.values()]
    )


async def sweep(hall: Hall, sweeper: Sweeper, seconds: float) -> None:
    """Run the sweeper for a while."""
    running = asyncio.create_task(sweeper.run())
    await hall.wait(seconds)
    running.cancel()


async def test_a_finished_run_moves_to_history_after_a_day(hall: Hall, sweeper: Sweeper) -> None:
    """OPS-7: with its tasks, in a batch of its shard; it stays readable."""
    await hall.lead()
    hall.play()
    (run,) = await hall.submit(chain("a", "b"))
    await hall.ended(run)
    await sweep(hall, sweeper, 60.0)
    assert hall.rows("SELECT count(*) FROM runs_history") == [(0,)]

    hall.clock.skew += USUAL_RETENTION.stay()
    await sweep(hall, sweeper, 30.0)

    assert hall.rows("SELECT count(*) FROM runs_history") == [(1,)]
    assert hall.rows("SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM tasks)") == [(0,)]
    assert (await hall.run(run)).state is RunState.SUCCEEDED
    assert len(await hall.tasks(run)) == 2


async def test_an_active_run_stays_however_old_it_is(hall: Hall, sweeper: Sweeper) -> None:
    """OPS-7."""
    await hall.lead()
    await hall.submit(job(task("a")))
    await hall.until(lambda: hall.rows("SELECT count(*) FROM tasks") == [(1,)])

    hall.clock.skew += timedelta(days=400)
    await sweep(hall, sweeper, 30.0)

    assert hall.rows("SELECT count(*) FROM runs") == [(1,)]
    assert hall.rows("SELECT count(*) FROM transitions") == [(2,)]


async def test_runs_that_are_reported_twice_are_archived_once(hall: Hall, sweeper: Sweeper) -> None:
    """Two passes run before the shard has archived the first ones."""
    leader = await hall.lead()
    hall.play()
    ids = await hall.submit(job(task("a")), runs=5)
    for run in ids:
        await hall.ended(run)
    hall.clock.skew += USUAL_RETENTION.stay()
    hall.store.commit_seconds = 0.1

    for _ in range(3):
        await sweeper.age_runs(leader)
        await hall.wait(0.03)
    await hall.until(lambda: hall.rows("SELECT count(*) FROM runs_history") == [(5,)])
    await hall.wait(2.0)

    assert hall.rows("SELECT count(*) FROM rejected_events") == [(0,)]


async def test_a_run_that_is_retried_meanwhile_stays(hall: Hall, sweeper: Sweeper) -> None:
    """The retry came before the archiving."""
    leader = await hall.lead()
    hall.play(cores=1)
    (run,) = await hall.submit(chain("a"))
    await hall.ended(run)
    hall.clock.skew += USUAL_RETENTION.stay()
    hall.store.commit_seconds = 0.2

    asking = asyncio.create_task(hall.ask(ReopenTask, run, task_id=f"task_{run[4:]}.0"))
    await hall.wait(0.25)
    await sweeper.age_runs(leader)
    answer = await asking
    await hall.wait(5.0)

    in_history = hall.rows("SELECT count(*) FROM runs_history") == [(1,)]
    assert in_history is (answer.reply is Reply.NOT_FOUND)
    assert hall.rows("SELECT count(*) FROM rejected_events") == [(0,)]


async def test_old_rows_are_pruned_and_recent_ones_stay(hall: Hall, sweeper: Sweeper) -> None:
    """OPS-7: by the retention of each kind."""
    await hall.lead()
    hall.play()
    (run,) = await hall.submit(chain("a"), watched=True)
    await hall.ended(run)
    hall.clock.skew += timedelta(days=2)
    await sweep(hall, sweeper, 30.0)
    assert hall.rows("SELECT count(*) > 0 FROM transitions") == [(1,)]

    hall.clock.skew += timedelta(days=100)
    await sweeper.prune()

    for table in ("transitions", "attempts", "runs_history", "tasks_history"):
        assert hall.rows(f"SELECT count(*) FROM {table}") == [(0,)], table


async def test_everything_prunable_has_a_retention(sweeper: Sweeper) -> None:
    """OPS-7: nothing grows without bound."""
    assert set(USUAL_RETENTION.ages()) == set(PRUNABLE)


async def test_the_sweep_requests_a_check_of_invariants(hall: Hall, sweeper: Sweeper) -> None:
    """STA-7: a stuck task is found within ten seconds, and continues."""
    leader = await hall.lead()
    (run,) = await hall.submit(job(task("a")))
    await hall.until(lambda: hall.rows("SELECT state FROM tasks") == [("QUEUED",)])
    memory = leader.shard.memory
    (held,) = memory.runs[run].tasks
    memory.queues.take(held.priority, held.tenant, memory.shape(held), 1)
    hall.play()
    await hall.wait(5.0)
    assert (await hall.run(run)).ended_at is None

    await sweep(hall, sweeper, 11.0)

    assert (await hall.run(run)).state is RunState.SUCCEEDED
    assert len(hall.rows("SELECT 1 FROM outbox WHERE kind = 'alert'")) == 1


async def test_retention_is_read_for_each_pass(hall: Hall) -> None:
    """OPS-5: a change applies to the next pass."""
    leader = await hall.lead()
    hall.play()
    (run,) = await hall.submit(job(task("a")))
    await hall.ended(run)
    kept = Retention()
    sweeper = Sweeper(hall.store, hall.clock, lambda: [leader], lambda: kept)
    hall.clock.skew += timedelta(hours=2)
    assert await sweeper.age_runs(leader) == 0

    kept = Retention(finished_runs_hours=1.0, transitions_days=1)
    assert await sweeper.age_runs(leader) == 1

    hall.clock.skew += timedelta(days=3)
    await sweeper.prune()
    assert hall.rows("SELECT count(*) FROM transitions") == [(0,)]
    assert hall.rows("SELECT count(*) FROM attempts") == [(1,)]
