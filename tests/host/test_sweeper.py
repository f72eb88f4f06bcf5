"""Maintenance: finished runs move to history, old rows are pruned, unexplained tasks are checked (OPS-7, STA-7)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from mainspring.core.model.run import RunState
from mainspring.core.model.settings import DEFAULT_RETENTION, Retention
from mainspring.host.maintenance.sweeper import Sweeper
from mainspring.shard.effects import ActionStatus
from mainspring.shard.events import ReopenTask
from mainspring.store.ports.store import PRUNABLE
from tests.host.host_harness import HostHarness
from tests.shard.jobs import chain, job, task

DAY = 86_400.0


@pytest.fixture
def sweeper(harness: HostHarness) -> Sweeper:
    """The sweeper of one host."""
    return Sweeper(
        harness.store, harness.clock, lambda: [one for host in harness.hosts.values() for one in host.leaders.values()]
    )


async def sweep(harness: HostHarness, sweeper: Sweeper, seconds: float) -> None:
    """Run the sweeper for a while."""
    running = asyncio.create_task(sweeper.run())
    await harness.wait(seconds)
    running.cancel()


async def test_a_finished_run_moves_to_history_after_a_day(harness: HostHarness, sweeper: Sweeper) -> None:
    """OPS-7: with its tasks, in a batch of its shard; it stays readable."""
    await harness.lead()
    harness.play()
    (run,) = await harness.submit(chain("a", "b"))
    await harness.ended(run)
    await sweep(harness, sweeper, 60.0)
    assert harness.rows("SELECT count(*) FROM runs_history") == [(0,)]

    harness.clock.skew += DEFAULT_RETENTION.stay()
    await sweep(harness, sweeper, 30.0)

    assert harness.rows("SELECT count(*) FROM runs_history") == [(1,)]
    assert harness.rows("SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM tasks)") == [(0,)]
    assert (await harness.run(run)).state is RunState.SUCCEEDED
    assert len(await harness.tasks(run)) == 2


async def test_an_active_run_stays_however_old_it_is(harness: HostHarness, sweeper: Sweeper) -> None:
    """OPS-7."""
    await harness.lead()
    await harness.submit(job(task("a")))
    await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks") == [(1,)])

    harness.clock.skew += timedelta(days=400)
    await sweep(harness, sweeper, 30.0)

    assert harness.rows("SELECT count(*) FROM runs") == [(1,)]
    assert harness.rows("SELECT count(*) FROM transitions") == [(2,)]


async def test_runs_that_are_reported_twice_are_archived_once(harness: HostHarness, sweeper: Sweeper) -> None:
    """Two passes run before the shard has archived the first ones."""
    leader = await harness.lead()
    harness.play()
    ids = await harness.submit(job(task("a")), runs=5)
    for run in ids:
        await harness.ended(run)
    harness.clock.skew += DEFAULT_RETENTION.stay()
    harness.store.commit_seconds = 0.1

    for _ in range(3):
        await sweeper.archive_runs(leader)
        await harness.wait(0.03)
    await harness.until(lambda: harness.rows("SELECT count(*) FROM runs_history") == [(5,)])
    await harness.wait(2.0)

    assert harness.rows("SELECT count(*) FROM rejected_events") == [(0,)]


async def test_a_run_that_is_retried_meanwhile_stays(harness: HostHarness, sweeper: Sweeper) -> None:
    """The retry came before the archiving."""
    leader = await harness.lead()
    harness.play(cores=1)
    (run,) = await harness.submit(chain("a"))
    await harness.ended(run)
    harness.clock.skew += DEFAULT_RETENTION.stay()
    harness.store.commit_seconds = 0.2

    asking = asyncio.create_task(harness.ask(ReopenTask, run, task_id=f"task_{run[4:]}.0"))
    await harness.wait(0.25)
    await sweeper.archive_runs(leader)
    answer = await asking
    await harness.wait(5.0)

    in_history = harness.rows("SELECT count(*) FROM runs_history") == [(1,)]
    assert in_history is (answer.reply is ActionStatus.NOT_FOUND)
    assert harness.rows("SELECT count(*) FROM rejected_events") == [(0,)]


async def test_old_rows_are_pruned_and_recent_ones_stay(harness: HostHarness, sweeper: Sweeper) -> None:
    """OPS-7: by the retention of each kind."""
    await harness.lead()
    harness.play()
    (run,) = await harness.submit(chain("a"), watched=True)
    await harness.ended(run)
    harness.clock.skew += timedelta(days=2)
    await sweep(harness, sweeper, 30.0)
    assert harness.rows("SELECT count(*) > 0 FROM transitions") == [(1,)]

    harness.clock.skew += timedelta(days=100)
    await sweeper.prune()

    for table in ("transitions", "attempts", "runs_history", "tasks_history"):
        assert harness.rows(f"SELECT count(*) FROM {table}") == [(0,)], table


async def test_everything_prunable_has_a_retention(sweeper: Sweeper) -> None:
    """OPS-7: nothing grows without bound."""
    assert set(DEFAULT_RETENTION.ages()) == set(PRUNABLE)


async def test_the_sweep_requests_a_check_of_invariants(harness: HostHarness, sweeper: Sweeper) -> None:
    """STA-7: a stuck task is found within ten seconds, and continues."""
    leader = await harness.lead()
    (run,) = await harness.submit(job(task("a")))
    await harness.until(lambda: harness.rows("SELECT state FROM tasks") == [("QUEUED",)])
    memory = leader.shard.memory
    (held,) = memory.runs[run].tasks
    memory.queues.take(held.priority, held.tenant, memory.shape(held), 1)
    harness.play()
    await harness.wait(5.0)
    assert (await harness.run(run)).ended_at is None

    await sweep(harness, sweeper, 11.0)

    assert (await harness.run(run)).state is RunState.SUCCEEDED
    assert len(harness.rows("SELECT 1 FROM outbox WHERE kind = 'alert'")) == 1


async def test_retention_is_read_for_each_pass(harness: HostHarness) -> None:
    """OPS-5: a change applies to the next pass."""
    leader = await harness.lead()
    harness.play()
    (run,) = await harness.submit(job(task("a")))
    await harness.ended(run)
    kept = Retention()
    sweeper = Sweeper(harness.store, harness.clock, lambda: [leader], lambda: kept)
    harness.clock.skew += timedelta(hours=2)
    assert await sweeper.archive_runs(leader) == 0

    kept = Retention(finished_runs_hours=1.0, transitions_days=1)
    assert await sweeper.archive_runs(leader) == 1

    harness.clock.skew += timedelta(days=3)
    await sweeper.prune()
    assert harness.rows("SELECT count(*) FROM transitions") == [(0,)]
    assert harness.rows("SELECT count(*) FROM attempts") == [(1,)]
