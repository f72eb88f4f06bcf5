"""Retry storms, poison pills and mass failures in virtual time (RTY-7)."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.model.alerts import AlertKind
from mainspring.core.model.resources import Resources
from mainspring.core.model.run import FailurePolicy, RunState
from mainspring.core.model.settings import DEFAULTS
from mainspring.core.model.task import Priority, RetryState, Task, TaskState
from mainspring.protocol.wire import Assign
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from tests.shard.jobs import GIB, job, task, wide
from tests.shard.mass_failures import DATABASE_DOWN, Storm
from tests.shard.world import World

S = TaskState


def down(task: Task) -> str:
    """The database can't be reached, in words that differ from task to task."""
    return DATABASE_DOWN % task.position


def well(task: Task) -> None:
    """Nothing is wrong."""


def test_a_retry_storm_is_spread_out_and_held_until_the_cause_is_fixed(world: World) -> None:
    """10,000 tasks find the database down: retries keep to their budgets, a few probe, and all succeed in the end."""
    storm = Storm(world, workers=4, cores=2500)
    storm.submit(wide(10, FailurePolicy.FAIL_AFTER_ALL, max_attempts=5), runs=1_000, tenants=50)
    storm.seconds(1, down)
    assert storm.count(S.PENDING) == 10_000
    (alert,) = storm.alerts(AlertKind.CIRCUIT_OPEN)
    assert not alert.resolved
    assert list(world.ledger.breakers) == [("signature", alert.details["subject"])]

    storm.seconds(45, down)
    assert max(storm.retries.values()) <= DEFAULTS.same_signature_retries_per_second
    probes = sum(storm.retries.values())
    assert 45 // 30 <= probes <= 45 / 30 + 0.01 * (10_000 * 45 / 15)
    assert storm.count(S.PENDING) + storm.count(S.ASSIGNED) == 10_000

    storm.until(lambda: not world.ledger.breakers, well, most_seconds=60)
    assert [alert.resolved for alert in storm.alerts(AlertKind.CIRCUIT_OPEN)] == [False, True]
    storm.until(lambda: not world.shard.memory.runs, well, most_seconds=400)
    assert storm.count(S.SUCCEEDED) == 10_000
    assert max(storm.retries.values()) <= DEFAULTS.same_signature_retries_per_second


def test_a_poison_pill_is_quarantined_after_three_workers(world: World) -> None:
    """One task fails everywhere in the same way, with attempts left; the others of its run and job continue."""
    storm = Storm(world, workers=5, cores=1)
    run = world.submit(
        job(
            task("pill", max_attempts=5, retry_delay_seconds=1.0),
            *(task(f"t{number}") for number in range(20)),
            on_failure=FailurePolicy.FAIL_AFTER_ALL,
        )
    )

    def pill_fails(task: Task) -> str | None:
        return '{"type":"ValueError","message":"bad row 17"}' if task.name == "pill" else None

    def report_and_retry() -> bool:
        pill = world.task("pill")
        for name in storm.names:  # so that it never meets a worker twice
            is_known = pill.trail is not None and name in pill.trail.workers
            world.turn((happened.CordonWorker if is_known else happened.UncordonWorker)(worker=name, by="ann"))
        return pill.state is S.QUARANTINED

    storm.until(report_and_retry, pill_fails, most_seconds=60)
    pill = world.task("pill")
    assert (pill.tries, pill.trail is not None and len(pill.trail.workers)) == (3, 3)
    assert storm.count(S.SUCCEEDED) == 20
    (alert,) = storm.alerts(AlertKind.QUARANTINED)
    assert (alert.tenant, alert.details["task"]) == ("acme", pill.id)
    assert world.run(run).state is RunState.PAUSED

    assert world.reply(happened.ClearTask, run, task="pill") is ActionStatus.DONE
    assert [alert.resolved for alert in storm.alerts(AlertKind.QUARANTINED)] == [False, True]
    trail = world.task("pill").trail
    assert trail is None or trail == RetryState(first_start=trail.first_start)
    storm.until(lambda: world.run(run).state is RunState.SUCCEEDED, well, most_seconds=5)


def test_a_task_that_kills_its_workers_is_quarantined_after_the_second(world: World) -> None:
    """Each worker falls silent while it runs there. The third one is spared."""
    storm = Storm(world, workers=3, cores=1)
    world.submit(job(task("pill")))
    for _ in range(2):
        world.start("pill")
        killed = world.holder("pill")[0]
        world.advance(seconds=15, heard=[name for name in storm.names if name != killed])
        storm.names.remove(killed)

    assert world.task("pill").state is S.QUARANTINED
    assert "were lost while running it" in world.task("pill").because
    assert len(storm.alerts(AlertKind.QUARANTINED)) == 1
    assert world.task("pill").tries == 0


def test_all_tasks_end_after_half_of_the_workers_are_lost(world: World) -> None:
    """A mass failure: tasks are requeued, no attempt is used, and none is quarantined."""
    storm = Storm(world, workers=20, cores=10)
    storm.submit(wide(20, max_attempts=1), runs=10)
    storm.seconds(1, lambda _: ...)
    for one in list(world.shard.memory.attempts.values()):
        world.turn(world.say(happened.AttemptStarted, str(one.worker_id), attempt=str(one.attempt_id)))
    lost = storm.names[:10]
    storm.names = storm.names[10:]
    storm.seconds(15, lambda _: ...)
    assert not any(name in world.shard.memory.workers for name in lost)

    storm.until(lambda: storm.count(S.SUCCEEDED) == 200, well, most_seconds=10)
    assert all(task.tries == 1 for task in world.ledger.tasks.values())
    assert not world.ledger.breakers
    assert storm.alerts(AlertKind.QUARANTINED) == []


def test_an_out_of_memory_task_is_retried_with_more_memory(world: World) -> None:
    """RTY-2: twice as much memory, and only on a worker that has it."""
    world.register("small", cores=1)
    half = Resources(cpu_millis=500, memory_bytes=3 * GIB // 4)
    world.submit(job(task("eats", resources=half, retry_delay_seconds=1.0)))
    world.start("eats")
    world.register("large", cores=4)
    world.fail("eats", error='{"type":"signal","signal":"SIGKILL","message":"killed by SIGKILL"}')
    assert world.task("eats").because.endswith("with 1536 MiB of memory")

    world.advance(seconds=2, heard=["small", "large"])

    assert world.holder("eats")[0] == "large"
    (assign,) = world.said_to("large", Assign)
    assert isinstance(assign, Assign)
    assert assign.needs.memory_bytes == assign.group[0].memory_bytes == 3 * GIB // 2
    world.run_through("eats")


def test_a_job_that_always_fails_is_paused_and_probed(world: World) -> None:
    """RTY-4: one task every ten minutes, until one succeeds; other jobs of the tenant never notice."""
    storm = Storm(world, workers=2, cores=100)
    storm.submit(wide(40, FailurePolicy.FAIL_AFTER_ALL, max_attempts=1), runs=2)
    storm.seconds(1, lambda task: '{"type":"ValueError","message":"no such column"}' if task.position < 25 else ...)
    (alert,) = storm.alerts(AlertKind.CIRCUIT_OPEN)
    assert (alert.details["circuit"], alert.details["subject"], alert.tenant) == ("job", "tenant0/job", "tenant0")
    failed = storm.count(S.FAILED)
    storm.seconds(1, well)  # Tasks that were running may continue, and prove nothing.
    assert world.ledger.breakers

    storm.submit(wide(30, FailurePolicy.FAIL_AFTER_ALL, max_attempts=1), runs=1)
    other = world.submit(wide(1), tenant="tenant1")
    storm.seconds(600, lambda task: None if task.run_id == other.id else down(task))
    assert world.run(other).state is RunState.SUCCEEDED
    storm.seconds(600, down)
    assert storm.count(S.FAILED) - failed == 2
    assert storm.count(S.PENDING) == 28

    world.new_leader()
    for name in storm.names:
        world.reconnect(name)
    assert list(world.shard.memory.limits.job_breakers.open) == ["tenant0/job"]

    storm.until(lambda: not world.ledger.breakers, well, most_seconds=700)
    assert [alert.resolved for alert in storm.alerts(AlertKind.CIRCUIT_OPEN)] == [False, True]
    came_back = storm.until(lambda: not world.shard.memory.runs, well, most_seconds=700)
    assert came_back > 60, "they did not come all at once"
    assert storm.count(S.SUCCEEDED) == 30 + 1 + 28


def test_queued_tasks_of_a_job_with_an_open_breaker_are_held_on_placement(world: World) -> None:
    """They stood in the queue before the circuit opened."""
    storm = Storm(world, workers=1, cores=25)
    storm.submit(wide(60, FailurePolicy.FAIL_AFTER_ALL, max_attempts=1), runs=1)
    assert storm.count(S.QUEUED) == 35

    storm.seconds(1, down)

    assert (storm.count(S.FAILED), storm.count(S.PENDING)) == (25, 35)
    held = next(task for task in world.ledger.tasks.values() if task.state is S.PENDING)
    assert "tenant0/job" in world.shard.memory.limits.job_breakers.open
    assert ("tenant0/job" in held.because, "20 of the latest 20 attempts failed" in held.because) == (True, True)


def test_fifty_thousand_tasks_become_ready_at_once_and_a_p0_of_another_tenant_does_not_wait(world: World) -> None:
    """RTY-7: other tenants' latency does not move. The P0 is placed in the very turn in which it arrives."""
    Storm(world, workers=2, cores=50_000)
    flood = world.put_in_intake(wide(50_000), tenant="flood")
    world.turn(world.arrival(flood))
    assert world.shard.has_more()

    for _ in range(10):
        world.now += timedelta(milliseconds=20)
        run = world.put_in_intake(wide(1), tenant="acme", priority=Priority.P0)
        world.urgent_turn(world.arrival(run))
        assert [one.state for one in world.ledger.tasks_of(run.id)] == [S.ASSIGNED]
    assert world.shard.has_more(), "the flood was not over before"
    assert len(world.ledger.tasks) > 3_000, "and continued meanwhile"
