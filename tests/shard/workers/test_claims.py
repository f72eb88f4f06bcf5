"""HTTP workers (WRK-2): what they get, what they lose, and the replies."""

from __future__ import annotations

from mainspring.core.model.batch import WorkerRow
from mainspring.core.model.task import AttemptEnd, Priority, TaskState
from mainspring.core.model.worker import WorkerStatus
from mainspring.core.placement.feasibility import ObstacleKind, obstacles
from mainspring.protocol.wire import Offer, Outcome
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from mainspring.shard.explain import diagnose
from mainspring.shard.workers.claim_events import ClaimAbandoned, ClaimEnded
from mainspring.shard.workers.claims import MAX_CLAIMS_PER_WORKER
from tests.shard.claimants import NAME, beat, claim, claimed, end, open_claim, running, start
from tests.shard.jobs import GIB, cores, job, task, wide
from tests.shard.world import World

S = TaskState


def test_a_claim_gets_the_available_work_with_one_attempt_per_lease(world: World) -> None:
    """Short tasks are claimed one by one, not in groups."""
    world.submit(wide(5, expected_seconds=0.001))

    request_id = open_claim(world, 3)

    leases = {lease.id: list(lease.members) for lease in world.shard.memory.leases.values()}
    assert len(claimed(world, request_id)) == 3
    assert [len(members) for members in leases.values()] == [1, 1, 1]
    assert len(world.names(S.QUEUED)) == 2


def test_a_claim_waits_for_work_or_its_timeout(world: World) -> None:
    early = open_claim(world, wait=10)
    world.advance(seconds=9)
    assert early not in world.answers
    world.given_run(task("a"))
    assert claimed(world, early) == ["a"]

    late = open_claim(world, wait=10)
    world.advance(seconds=10)
    assert claimed(world, late) == []
    world.given_run(task("b"))
    assert world.task("b").state is S.QUEUED


def test_a_worker_without_a_claim_gets_nothing_and_diagnosis_names_it(world: World) -> None:
    running_attempt = (world.given_run(task("a")), running(world))[1]
    world.given_run(task("b"))

    worker = world.shard.memory.workers[NAME]
    (obstacle,) = obstacles(world.shard.memory.shape(world.task("b")), worker)[:1]
    found = diagnose.diagnose(world.shard.memory, world.task("b").id, world.now, batch=1, age_seconds=0)

    assert world.task("b").state is S.QUEUED
    assert (obstacle.kind, obstacle.detail) == (ObstacleKind.UNCLAIMED, f"{NAME} has no claim open")
    assert found is not None
    assert "no claim open" in found.verdict
    assert running_attempt in world.shard.memory.attempts


def test_a_p0_preempts_nothing_on_a_worker_without_a_claim(world: World) -> None:
    """Preemption there would free no capacity for it."""
    world.submit(job(task("low")), priority=Priority.P2)
    running(world)

    world.submit(job(task("high")), priority=Priority.P0)
    world.advance(seconds=10)

    assert world.task("low").stop is None
    assert world.task("high").reserved is None


def test_an_attempt_not_started_in_time_is_requeued_and_its_id_is_void(world: World) -> None:
    """LIV-3 by the claim's own time."""
    world.given_run(task("a"))
    (attempt,) = claim(world, hold=60)

    world.advance(seconds=59)
    assert world.task("a").attempt_id == attempt
    world.advance(seconds=1)

    assert world.task("a").state is S.QUEUED
    assert NAME in world.task("a").because
    assert start(world, attempt).reply is end(world, attempt).reply is ActionStatus.REFUSED
    assert world.task("a").state is S.QUEUED
    assert [one.end for one in world.ledger.attempts.values()] == [AttemptEnd.RETURNED]


def test_a_started_attempt_is_lost_only_after_a_long_silence(world: World) -> None:
    """LIV-1 for each attempt: the worker itself is never suspect."""
    world.given_run(task("a"))
    world.given_run(task("b"))
    kept, silent = running(world), running(world)
    names = {world.task(name).attempt_id: name for name in ("a", "b")}

    for _ in range(5):
        world.advance(seconds=59)
        assert beat(world, kept).reply is ActionStatus.DONE
    assert world.task(names[silent]).state is S.RUNNING
    assert world.shard.memory.workers[NAME].status is WorkerStatus.READY
    world.advance(seconds=5)

    assert NAME in world.task(names[silent]).because
    assert "300 s" in world.task(names[silent]).because
    assert world.task(names[silent]).losses == 1
    assert world.task(names[kept]).state is S.RUNNING
    assert beat(world, silent).reply is ActionStatus.REFUSED


def test_the_second_check_never_marks_an_http_worker_lost(world: World) -> None:
    world.given_run(task("a"))
    running(world)
    world.advance(seconds=100)

    world.settle(happened.WorkerSilent(row=world.ledger.workers[NAME]))

    assert world.task("a").state is S.RUNNING


def test_an_unknown_http_worker_is_gone_and_not_lost(world: World) -> None:
    row = WorkerRow(
        id=NAME, shard="pool", offer="{}", labels="{}", zone="", version="", status="ready", since=world.now,
        last_heartbeat_at=world.now,
    )  # fmt: skip
    world.advance(seconds=20)

    world.settle(happened.WorkerSilent(row=row))

    assert world.ledger.workers[NAME].status == WorkerStatus.GONE


def test_an_idle_http_worker_without_claims_is_forgotten(world: World) -> None:
    world.given_run(task("a"))
    attempt = running(world)
    world.advance(seconds=290)
    end(world, attempt)
    world.advance(seconds=290)
    assert NAME in world.shard.memory.workers

    world.advance(seconds=320)

    assert NAME not in world.shard.memory.workers
    assert world.ledger.workers[NAME].status == WorkerStatus.GONE
    assert world.shard.memory.workers.capacity.cpu_millis == 0


def test_a_new_leader_restarts_the_time_limits_of_claimed_attempts(world: World) -> None:
    world.given_run(task("a"))
    world.given_run(task("b"))
    begun = running(world)
    (waiting,) = claim(world, hold=60)
    names = {world.task(name).attempt_id: name for name in ("a", "b")}
    world.advance(seconds=50)

    world.new_leader()
    world.advance(seconds=250)

    assert beat(world, begun).reply is ActionStatus.DONE
    assert start(world, waiting).reply is ActionStatus.DONE
    world.advance(seconds=299)
    assert world.names(S.RUNNING) == [names[begun], names[waiting]]
    assert end(world, begun).reply is end(world, waiting).reply is ActionStatus.DONE


def test_a_new_leader_requeues_recalled_attempts_in_its_first_turn(world: World) -> None:
    """It is in the row: the attempt's time limit does not matter."""
    world.given_run(task("a"))
    (attempt,) = claim(world)
    world.turn_alone(happened.EvictWorker(worker=NAME, by="ann"))
    assert (world.task("a").attempt_id, world.task("a").stop is not None) == (attempt, True)

    world.new_leader()
    world.settle()

    assert world.task("a").state is S.QUEUED
    assert start(world, attempt).reply is ActionStatus.REFUSED


def test_claims_and_attempts_survive_a_reload(world: World) -> None:
    world.given_run(task("a"))
    begun = running(world)
    request_id = open_claim(world, 2, wait=30)

    world.reload()
    world.settle()
    world.given_run(task("b"))

    assert claimed(world, request_id) == ["b"]
    assert world.shard.memory.workers[NAME].claim_slots == 0
    assert beat(world, begun).reply is ActionStatus.DONE


def test_a_stop_request_is_in_the_heartbeat_reply_and_ends_after_the_grace_period(world: World) -> None:
    run = world.given_run(task("a"))
    attempt = running(world)
    world.action(happened.CancelRun, run)

    told = beat(world, attempt).stop
    assert told is not None
    assert told.grace_seconds == 30
    world.advance(seconds=30)

    assert beat(world, attempt).reply is ActionStatus.REFUSED
    assert world.task("a").state is S.CANCELLED


def test_a_failure_after_a_stop_request_counts_as_stopped(world: World) -> None:
    """Evicted: it is requeued, and the attempt does not count."""
    world.given_run(task("a"))
    attempt = running(world)
    world.settle(happened.EvictWorker(worker=NAME, by="ann"))

    end(world, attempt, Outcome.FAILED)

    assert (world.task("a").state, world.task("a").tries, world.task("a").losses) == (S.QUEUED, 0, 0)


def test_a_recalled_attempt_that_has_not_started_is_requeued_at_once(world: World) -> None:
    run = world.given_run(task("a"))
    (attempt,) = claim(world)

    world.action(happened.PauseRun, run)
    assert world.task("a").attempt_id is None
    assert start(world, attempt).reply is ActionStatus.REFUSED

    world.action(happened.ResumeRun, run)
    assert claim(world) != [attempt]


def test_a_cordoned_http_worker_gets_nothing(world: World) -> None:
    claim(world)
    world.settle(happened.CordonWorker(worker=NAME, by="ann"))
    world.given_run(task("a"))

    assert claim(world) == []
    assert world.task("a").state is S.QUEUED


def test_results_are_applied_once_and_only_from_their_worker(world: World) -> None:
    world.given_run(task("a"))
    attempt = running(world)

    foreign = end(world, attempt, name="http/token:t/other")
    assert (foreign.reply, world.task("a").state) == (ActionStatus.REFUSED, S.RUNNING)
    assert end(world, attempt).reply is ActionStatus.DONE
    assert end(world, attempt).reply is ActionStatus.REFUSED
    assert world.task("a").state is S.SUCCEEDED
    assert world.ledger.late == []
    end(world, attempt, is_late=True)
    assert [late.attempt_id for late in world.ledger.late] == [attempt]


def test_starting_twice_is_starting_once(world: World) -> None:
    world.given_run(task("a"))
    (attempt,) = claim(world)

    assert start(world, attempt).reply is ActionStatus.DONE
    began = world.task("a").started_at
    world.advance(seconds=1)

    assert start(world, attempt).reply is ActionStatus.ALREADY
    assert world.task("a").started_at == began


def test_an_abandoned_claim_is_closed_and_its_work_requeued(world: World) -> None:
    waiting = open_claim(world, 3)
    world.settle(ClaimAbandoned(worker=NAME, claim=waiting))
    world.given_run(task("a"))
    assert world.task("a").state is S.QUEUED
    (attempt,) = claim(world)

    world.settle(ClaimAbandoned(worker=NAME, claim=waiting, attempts=(attempt,)))

    assert world.task("a").state is S.QUEUED
    assert waiting not in world.answers


def test_claims_per_worker_are_limited(world: World) -> None:
    tickets = [open_claim(world) for _ in range(MAX_CLAIMS_PER_WORKER + 1)]

    assert world.answers[tickets[-1]].reply is ActionStatus.REFUSED
    assert world.shard.memory.workers[NAME].claim_slots == MAX_CLAIMS_PER_WORKER


def test_an_http_worker_gets_tasks_that_fit_its_reported_resources(world: World) -> None:
    """If it does not say: four cores and so on for each claim."""
    world.given_run(task("small"), task("large", resources=cores(9)))

    assert claimed(world, open_claim(world, 2, wait=0)) == ["small"]
    assert claimed(world, open_claim(world, 2, wait=0, offer=Offer(12_000, 12 * GIB))) == ["large"]
    assert world.shard.memory.workers.capacity.cpu_millis == 12_000


def test_a_rejected_report_quarantines_its_task_and_gets_a_reply(world: World) -> None:
    world.given_run(task("a"))
    attempt = running(world)
    event = ClaimEnded(worker=NAME, by="t", request_id=7, attempt=attempt, outcome=Outcome.SUCCEEDED, output="1")

    world.reject(event, "no store takes it")

    assert world.task("a").state is S.QUARANTINED
    assert world.answers[7].reply is ActionStatus.REFUSED
