"""Evaluation of schedules: selection, context, and a decision that is written as a whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import (
    MAX_ENDED_RUNS,
    MAX_UPSTREAM_FIRES,
    EvaluationBatch,
    FireRow,
    ScheduleDecision,
    ScheduleRow,
    ScheduleSnapshot,
)
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.errors import Broken, JobMissing, StaleWrite
from mainspring.store.ports.schedules import FireFilter
from mainspring.store.ports.store import Store
from tests.store.builders import DAY, HOUR, JOB, NOW, a_job, a_run, an_outgoing
from tests.store.conftest import look
from tests.store.schedule_builders import (
    MINUTE,
    a_backfill,
    a_change_of,
    a_fire,
    a_schedule,
    fire_once,
    given,
    given_fires,
    rule,
)
from tests.store.test_damage import write


class Watching:
    """Decides nothing, and records its input."""

    def __init__(self) -> None:
        self.evaluation_batches: list[EvaluationBatch] = []

    def __call__(self, evaluation_batch: EvaluationBatch) -> Sequence[ScheduleDecision]:
        self.evaluation_batches.append(evaluation_batch)
        return [ScheduleDecision(schedule=case.schedule) for case in evaluation_batch.cases]

    @property
    def case(self) -> ScheduleSnapshot:
        """The only snapshot."""
        ((case,),) = [evaluation_batch.cases for evaluation_batch in self.evaluation_batches]
        return case


async def case_of(store: Store, schedule: ScheduleRow) -> ScheduleSnapshot:
    """The context of an evaluation."""
    watching = Watching()
    await store.evaluate_schedules([schedule.id], watching)
    return watching.case


async def fires_of(store: Store, schedule: ScheduleRow) -> list[FireRow]:
    """The outcomes of its windows."""
    return await store.fires(FireFilter(schedule_id=schedule.id), 1000)


# selection


async def test_what_is_due_is_taken_the_most_overdue_first(store: Store) -> None:
    now = await store.time()
    overdue, due, later, never = (a_schedule(next_at=at) for at in (now - HOUR, now, now + HOUR, None))
    gone = a_schedule(next_at=now - HOUR, deleted_at=now)
    await given(store, later, due, never, gone, overdue)
    watching = Watching()

    evaluated = await store.evaluate_due(10, watching)

    assert [case.schedule for case in watching.evaluation_batches[0].cases] == [overdue, due]
    assert evaluated.schedules == 2
    assert watching.evaluation_batches[0].now == evaluated.now >= now


async def test_at_most_so_many_are_taken_as_were_asked_for(store: Store) -> None:
    schedules = [a_schedule(next_at=NOW + n * MINUTE) for n in range(3)]
    await given(store, *schedules)

    evaluated = await store.evaluate_due(2, rule(fire_once))

    assert evaluated.schedules == 2
    assert [decision.schedule.id for decision in evaluated.decisions] == [schedule.id for schedule in schedules[:2]]
    assert (await store.evaluate_due(2, rule(fire_once))).schedules == 1
    assert (await store.evaluate_due(2, rule(fire_once))).schedules == 0


async def test_nothing_is_decided_when_nothing_is_due(store: Store) -> None:
    watching = Watching()

    evaluated = await store.evaluate_due(10, watching)

    assert (evaluated.schedules, evaluated.decisions, watching.evaluation_batches) == (0, (), [])
    assert abs(evaluated.now - await store.time()) < MINUTE


async def test_what_waits_is_taken_if_it_was_not_looked_at_for_so_long(store: Store) -> None:
    now = await store.time()
    long_ago, never, lately = (a_schedule(has_waiting_windows=True, evaluated_at=at) for at in (now - HOUR, None, now))
    await given(store, long_ago, lately, never, a_schedule(has_waiting_windows=False, evaluated_at=now - HOUR))
    watching = Watching()

    evaluated = await store.evaluate_waiting(10, 600.0, watching)

    assert [case.schedule for case in watching.evaluation_batches[0].cases] == [never, long_ago]
    assert evaluated.schedules == 2
    assert (await store.evaluate_waiting(1, 600.0, watching)).schedules == 1


async def test_schedules_that_are_named_are_taken_and_what_is_not_there_is_left_out(store: Store) -> None:
    first, second, gone = a_schedule(next_at=None), a_schedule(), a_schedule(deleted_at=NOW)
    await given(store, first, second, gone)
    watching = Watching()

    evaluated = await store.evaluate_schedules([second.id, first.id, gone.id, "sched_unknown", second.id], watching)

    assert [case.schedule for case in watching.evaluation_batches[0].cases] == [first, second]
    assert evaluated.schedules == 2
    assert (await store.evaluate_schedules([], watching)).schedules == 0


# context


async def test_a_case_has_the_latest_version_of_its_job(store: Store) -> None:
    await store.insert_job(a_job(tenant=JOB.tenant, name="load"))
    latest = await store.insert_job(a_job(tenant=JOB.tenant, name="load", definition='{"a": 2}'))
    await store.insert_job(a_job(tenant="other", name="load", definition='{"a": 3}'))
    schedules = [a_schedule(job="load"), a_schedule(job="load"), a_schedule(job="unknown"), a_schedule()]
    await given(store, *schedules)
    watching = Watching()

    await store.evaluate_schedules([schedule.id for schedule in schedules], watching)

    assert [case.job for case in watching.evaluation_batches[0].cases] == [
        latest,
        latest,
        None,
        await store.insert_job(JOB),
    ]


async def test_a_case_has_the_windows_that_wait_and_those_whose_run_is_not_over_oldest_first(store: Store) -> None:
    schedule, other = a_schedule(), a_schedule()
    await given(store, schedule, other)
    waiting = [a_fire(schedule, window_at=NOW + n * HOUR, outcome=Outcome.WAITING) for n in (1, 3)]
    active = [a_fire(schedule, window_at=NOW + n * HOUR, outcome=Outcome.RAN, run_id=f"run_{n}") for n in (2, 4)]
    active.append(replace(active[1], generation=2, run_id="run_5"))
    over = a_fire(
        schedule, window_at=NOW, outcome=Outcome.RAN, run_id="run_0", run_state=RunState.SUCCEEDED, run_ended_at=NOW
    )
    skipped = a_fire(schedule, window_at=NOW + 9 * HOUR)
    await given_fires(store, schedule, *reversed(active), skipped, *reversed(waiting), over)
    await given_fires(store, other, a_fire(other, outcome=Outcome.WAITING))

    case = await case_of(store, schedule)

    assert list(case.waiting) == waiting
    assert list(case.active) == active


async def test_a_case_has_how_its_latest_runs_ended_newest_first_since_it_was_enabled(store: Store) -> None:
    schedule = a_schedule(enabled_since=NOW + 2 * HOUR, next_at=NOW)
    await given(store, schedule)
    states = [RunState.FAILED, RunState.PARTIAL, RunState.TIMED_OUT, RunState.SUCCEEDED, RunState.FAILED]
    await given_fires(
        store,
        schedule,
        *(
            a_fire(
                schedule, window_at=NOW + n * HOUR, outcome=Outcome.RAN, run_id=f"run_{n}", run_state=state,
                run_ended_at=NOW + n * HOUR,
            )
            for n, state in enumerate(states)
        ),
    )  # fmt: skip
    watching = Watching()

    assert (await case_of(store, schedule)).ended == (RunState.FAILED, RunState.SUCCEEDED, RunState.TIMED_OUT)
    await store.evaluate_due(10, watching)
    assert watching.case.ended == ()


async def test_a_case_has_at_most_so_many_ends(store: Store) -> None:
    schedule = a_schedule()
    await given(store, schedule)
    fires = [
        a_fire(schedule, window_at=NOW + n * MINUTE, run_state=RunState.FAILED, run_ended_at=NOW + n * MINUTE)
        for n in range(MAX_ENDED_RUNS + 5)
    ]
    await given_fires(store, schedule, *fires)

    assert len((await case_of(store, schedule)).ended) == MAX_ENDED_RUNS


async def test_a_case_has_the_backfills_of_its_open_windows(store: Store) -> None:
    schedule = a_schedule()
    await given(store, schedule)
    going_on, over = a_backfill(schedule), a_backfill(schedule)
    await given_fires(
        store,
        schedule,
        a_fire(schedule, window_at=NOW, outcome=Outcome.WAITING, backfill_id=going_on.id),
        a_fire(schedule, window_at=NOW + HOUR, outcome=Outcome.RAN, run_id="run_1", backfill_id=going_on.id),
        a_fire(schedule, window_at=NOW + DAY, backfill_id=over.id),
        backfills=(going_on, over),
    )

    assert (await case_of(store, schedule)).backfills == (going_on,)


async def test_a_case_has_what_is_known_of_the_job_that_it_waits_for(store: Store) -> None:
    schedule = a_schedule(after_job="load")
    oldest = a_schedule(job="load", created_at=NOW - HOUR)
    await given(
        store,
        a_schedule(job="load", created_at=NOW - DAY, deleted_at=NOW),
        a_schedule(job="load", created_at=NOW - DAY, tenant="other"),
        a_schedule(job="load"),
        schedule,
        oldest,
    )
    ends = [RunState.SUCCEEDED, RunState.SUCCEEDED, RunState.FAILED]
    ran = [
        a_fire(
            oldest, window_at=NOW + n * HOUR, outcome=Outcome.RAN, run_id=f"run_{n}", run_state=state,
            run_ended_at=NOW + n * HOUR + MINUTE,
        )
        for n, state in enumerate(ends)
    ]  # fmt: skip
    await given_fires(store, oldest, *ran)

    other = (await case_of(store, schedule)).other

    assert other is not None
    assert other.schedule == oldest
    assert list(other.fires) == ran[::-1]
    assert other.succeeded_at == NOW + HOUR + MINUTE


async def test_a_case_has_the_latest_fires_of_the_other_and_none_if_there_is_no_other(store: Store) -> None:
    schedule, lonely, other = a_schedule(after_job="load"), a_schedule(after_job="none"), a_schedule(job="load")
    await given(store, schedule, lonely, other)
    await given_fires(store, other, *(a_fire(other, window_at=NOW + n * MINUTE) for n in range(MAX_UPSTREAM_FIRES + 3)))

    found = (await case_of(store, schedule)).other

    assert found is not None
    assert [fire.window_at for fire in found.fires] == [NOW + n * MINUTE for n in range(MAX_UPSTREAM_FIRES + 2, 2, -1)]
    assert found.succeeded_at is None
    assert (await case_of(store, lonely)).other is None
    assert (await case_of(store, other)).other is None


# decisions


async def test_everything_that_was_decided_is_written_together(store: Store) -> None:
    await store.ensure_shard("main")
    schedule = a_schedule()
    await given(store, schedule)
    change, backfill, outgoing = a_change_of(schedule, action="backfilled"), a_backfill(schedule), an_outgoing()

    def decide(case: ScheduleSnapshot) -> ScheduleDecision:
        return replace(fire_once(case), changes=(change,), backfills=(backfill,), outgoing=(outgoing,))

    evaluated = await store.evaluate_due(10, rule(decide))

    (decision,) = evaluated.decisions
    (run,) = decision.runs
    assert await store.find_schedule(None, schedule.id) == decision.schedule
    assert await fires_of(store, schedule) == list(decision.fires)
    assert await store.run(run.id) == run
    assert (run.schedule_id, run.window_at) == (schedule.id, NOW + MINUTE)
    assert (await store.schedule_changes(schedule.id, 1)) == [change]
    assert await store.backfills(schedule.id, 10) == [backfill]
    assert await store.claim_outbox("host", 10, HOUR) == [outgoing]


async def test_a_fire_takes_the_place_of_the_one_with_its_key(store: Store) -> None:
    schedule, run = a_schedule(), a_run()
    await given(store, schedule)
    waits = a_fire(schedule, outcome=Outcome.WAITING)
    runs = replace(waits, outcome=Outcome.RAN, because="its turn", run_id=run.id)
    over = replace(runs, run_state=RunState.SUCCEEDED, run_ended_at=NOW)

    await given_fires(store, schedule, waits, a_fire(schedule, generation=2))
    await given_fires(store, schedule, runs, runs=(run,))
    await given_fires(store, schedule, runs, over)

    assert await fires_of(store, schedule) == [a_fire(schedule, generation=2), over]


async def test_a_window_that_has_a_run_never_gets_another(store: Store) -> None:
    """I-30, for any decision: the second evaluation writes nothing."""
    schedule, first, second = a_schedule(), a_run(), a_run()
    await given(store, schedule)
    fire = a_fire(schedule, outcome=Outcome.RAN, run_id=first.id)
    await given_fires(store, schedule, fire, runs=(first,))

    for other in (replace(fire, run_id=second.id), replace(fire, run_id=None)):
        with pytest.raises(StaleWrite):
            await given_fires(store, schedule, other, runs=(second,), outgoing=(an_outgoing(),))

    assert await fires_of(store, schedule) == [fire]
    assert await store.run(second.id) is None
    assert await look(store, "SELECT count(*) FROM outbox") == [(0,)]


async def test_a_decision_about_a_schedule_outside_the_batch_is_refused(store: Store) -> None:
    schedule, other = a_schedule(), a_schedule()
    await given(store, schedule, other)

    with pytest.raises(Broken):
        await store.evaluate_schedules([schedule.id], lambda _: [ScheduleDecision(schedule=other)])
    with pytest.raises(Broken):
        await store.evaluate_schedules(
            [schedule.id], lambda _: [ScheduleDecision(schedule=schedule, fires=(a_fire(other),))]
        )


class Halt(Exception):
    """Fails."""


async def test_a_failed_evaluation_writes_nothing_and_can_be_repeated(store: Store) -> None:
    schedules = [a_schedule(), a_schedule()]
    await given(store, *schedules)

    def halt(evaluation_batch: EvaluationBatch) -> Sequence[ScheduleDecision]:
        fire_once(evaluation_batch.cases[0])
        raise Halt

    def invent(case: ScheduleSnapshot) -> ScheduleDecision:
        decision = fire_once(case)
        return replace(decision, runs=(replace(decision.runs[0], job_id="job_unknown"),))

    with pytest.raises(Halt):
        await store.evaluate_due(10, halt)
    with pytest.raises(JobMissing):
        await store.evaluate_due(10, rule(invent))
    assert await look(store, "SELECT count(*) FROM fires") == [(0,)]
    assert await look(store, "SELECT count(*) FROM runs") == [(0,)]

    assert (await store.evaluate_due(10, rule(fire_once))).schedules == 2
    assert [len(await fires_of(store, schedule)) for schedule in schedules] == [1, 1]


async def test_new_runs_are_made_known(store: Store) -> None:
    told: list[str] = []
    store.on_work(lambda shard, _: told.append(shard))
    schedule = a_schedule()
    await given(store, schedule)

    await store.evaluate_schedules([schedule.id], Watching())
    assert told == []
    await store.evaluate_due(10, rule(fire_once))
    assert told == ["main"]


async def test_a_schedule_that_can_not_be_read_is_put_off_and_holds_nobody_up(store: Store) -> None:
    damaged, sound = a_schedule(next_at=NOW, has_waiting_windows=True), a_schedule(has_waiting_windows=True)
    await given(store, damaged, sound)
    await given_fires(store, damaged, a_fire(damaged, outcome=Outcome.WAITING))
    await write(store, f"UPDATE fires SET run_state = 'MELTED' WHERE schedule_id = '{damaged.id}'")

    evaluated = await store.evaluate_due(10, rule(fire_once))

    assert evaluated.schedules == 2
    assert [decision.schedule.id for decision in evaluated.decisions] == [sound.id]
    assert (await store.evaluate_due(10, rule(fire_once))).schedules == 0
    row = await store.find_schedule(None, damaged.id)
    assert row is not None
    assert row.next_at is not None
    assert row.next_at > evaluated.now
    assert row.planned_through == damaged.planned_through
    assert (await store.evaluate_waiting(10, 600.0, Watching())).schedules == 1
    assert (await store.evaluate_schedules([damaged.id], Watching())).decisions == ()
