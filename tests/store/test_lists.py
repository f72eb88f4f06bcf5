"""Lists of the API: runs, tasks and their histories, jobs, workers."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import msgspec
import pytest

from mainspring.core.model.batch import TaskChange
from mainspring.core.model.run import Run, RunState
from mainspring.core.model.task import Origin, Priority, Task, TaskState
from mainspring.protocol.errors import Rejected
from mainspring.protocol.ids import new_id
from mainspring.store.ports.front import ListedRun, RunFilter, TaskFilter
from mainspring.store.ports.store import Store
from mainspring.store.sql.lists import MAX_LISTED
from tests.store.builders import (
    HOUR,
    NOW,
    Leader,
    a_change,
    a_job,
    a_run,
    a_task,
    a_transition,
    adopted,
    an_attempt,
    ended,
)
from tests.store.test_liveness import a_worker

S = TaskState
SECOND = timedelta(seconds=1)


async def ids_of_runs(store: Store, limit: int = 100, **wanted: object) -> list[str]:
    """The ids of the runs that a filter lists."""
    return [listed.run.id for listed in await store.list_runs(RunFilter(**wanted), limit)]  # type: ignore[arg-type]


async def ids_of_tasks(store: Store, limit: int = 100, **wanted: object) -> list[str]:
    """The ids of the tasks that a filter lists."""
    return [task.id for task in await store.list_tasks(TaskFilter(**wanted), limit)]  # type: ignore[arg-type]


# runs


async def test_runs_are_listed_by_id_the_newest_first(store: Store) -> None:
    runs = [a_run(id=new_id("run", NOW + seconds * SECOND, Random(seconds))) for seconds in range(4)]
    await store.insert_runs([runs[2], runs[0], runs[3], runs[1]])

    assert await ids_of_runs(store) == [run.id for run in reversed(runs)]
    assert await ids_of_runs(store, 2) == [runs[3].id, runs[2].id]


@pytest.mark.parametrize("tenant", [None, "acme"])
async def test_before_goes_on_behind_the_last_run_of_a_page(store: Store, tenant: str | None) -> None:
    await store.insert_runs([a_run() for _ in range(7)])
    everything = await store.list_runs(RunFilter(), 100)

    pages: list[ListedRun] = []
    while page := await store.list_runs(RunFilter(before=pages[-1].run.id if pages else None, tenant=tenant), 2):
        pages += page

    assert pages == everything
    assert len(pages) == 7


async def test_a_listed_run_is_whole_and_has_its_jobs_name_and_version(store: Store) -> None:
    await store.insert_job(a_job(definition="1"))
    job = await store.insert_job(a_job(definition="2"))
    run = a_run(job_id=job.id)
    await store.insert_runs([run])

    listed = ListedRun(run=run, job_name="report", job_version=2)
    assert await store.list_runs(RunFilter(), 10) == [listed]
    assert await store.find_run(run.id) == listed


async def test_runs_are_listed_by_tenant_job_state_and_priority(store: Store) -> None:
    leader = await Leader.of(store)
    jobs = [await store.insert_job(a_job(name=name, definition=text)) for name, text in ("a1", "a2", "b1")]
    runs = [a_run(job_id=job.id) for job in jobs]
    runs.append(a_run(tenant="other", priority=Priority.P0))
    await store.insert_runs(runs)
    await leader.commit(runs=[adopted(runs[0]), ended(runs[1], state=RunState.FAILED)])
    first, second, third, fourth = [run.id for run in runs]

    assert await ids_of_runs(store, tenant="acme") == [third, second, first]
    assert await ids_of_runs(store, tenant="nobody") == []
    assert await ids_of_runs(store, job="a") == [second, first]
    assert await ids_of_runs(store, job="a", tenant="other") == []
    assert await ids_of_runs(store, priority=Priority.P0) == [fourth]
    assert await ids_of_runs(store, states=(RunState.RUNNING, RunState.PAUSED)) == [first]
    assert await ids_of_runs(store, states=(RunState.FAILED, RunState.RUNNING)) == [second, first]
    assert await ids_of_runs(store, states=(RunState.PENDING,), tenant="acme") == [third]


async def test_each_state_of_a_run_can_be_listed(store: Store) -> None:
    leader = await Leader.of(store)
    runs = {state: a_run() for state in RunState}
    await store.insert_runs(list(runs.values()))
    await leader.commit(
        runs=[adopted(run, state=state) for state, run in runs.items() if state is not RunState.PENDING]
    )

    assert {state: await ids_of_runs(store, states=(state,)) for state in RunState} == {
        state: [run.id] for state, run in runs.items()
    }


async def test_runs_in_history_are_listed_among_the_others(store: Store) -> None:
    leader = await Leader.of(store)
    job = await store.insert_job(a_job())
    runs = [a_run(job_id=job.id) for _ in range(5)]
    await leader.adopt(*runs)
    over = [ended(run) for run in (runs[1], runs[3])]
    await leader.commit(runs=over, archived=[run.id for run in over])

    listed = await store.list_runs(RunFilter(), 10)
    assert [one.run.id for one in listed] == [run.id for run in reversed(runs)]
    assert [one.in_history for one in listed] == [False, True, False, True, False]
    assert listed[1] == ListedRun(run=over[1], job_name="report", job_version=1, in_history=True)
    assert await ids_of_runs(store, with_history=False) == [runs[4].id, runs[2].id, runs[0].id]
    assert await store.find_run(over[1].id) == listed[1]
    assert await store.find_run("run_unknown") is None


async def test_a_filter_that_no_store_takes_is_rejected(store: Store) -> None:
    with pytest.raises(Rejected):
        await ids_of_runs(store, tenant="a\0b")
    with pytest.raises(Rejected):
        await ids_of_tasks(store, name="\ud800")


# tasks


async def some_tasks(store: Store) -> tuple[Run, list[Task]]:
    """A run with a task in each state, and the task of another tenant's run, as they are stored, by id."""
    leader = await Leader.of(store)
    run, other = a_run(), a_run(tenant="other")
    tasks = [a_task(run, position) for position in range(len(S))] + [a_task(other)]
    await store.insert_runs([run, other])
    await leader.commit(runs=[adopted(run), adopted(other)], new_tasks=tasks)
    changes: list[TaskChange] = []
    for task, state in zip(tasks, [*S, S.RUNNING], strict=True):
        held = state in (S.ASSIGNED, S.RUNNING)
        changes.append(
            a_change(
                task,
                state=state,
                attempt_id=f"att_{task.id}" if held else None,
                worker_id="w1" if state is S.RUNNING else "w2" if held else None,
            )
        )
    await leader.commit(tasks=changes)
    return run, sorted((change.task for change in changes), key=lambda task: task.id)


async def test_tasks_are_listed_whole_and_by_id(store: Store) -> None:
    _, tasks = await some_tasks(store)

    assert await store.list_tasks(TaskFilter(), 100) == tasks
    assert await store.list_tasks(TaskFilter(), 3) == tasks[:3]


async def test_every_set_of_states_lists_the_tasks_that_are_in_it(store: Store) -> None:
    _, tasks = await some_tasks(store)
    sets = [(state,) for state in S] + [tuple(S), (S.QUEUED, S.RUNNING), (S.ASSIGNED, S.RUNNING), (S.PENDING, S.FAILED)]

    for states in sets:
        assert await ids_of_tasks(store, states=states) == [task.id for task in tasks if task.state in states], states


async def test_tasks_are_listed_by_tenant_run_worker_and_name(store: Store) -> None:
    run, tasks = await some_tasks(store)

    assert await ids_of_tasks(store, tenant="other") == [task.id for task in tasks if task.tenant == "other"]
    assert await ids_of_tasks(store, run_id=run.id) == [task.id for task in tasks if task.run_id == run.id]
    assert await ids_of_tasks(store, worker="w1") == [task.id for task in tasks if task.worker_id == "w1"]
    assert await ids_of_tasks(store, name="step-0") == [task.id for task in tasks if task.name == "step-0"]
    assert len(await ids_of_tasks(store, worker="w1", tenant="acme", run_id=run.id, states=(S.RUNNING,))) == 1
    assert await ids_of_tasks(store, worker="w1", states=(S.QUEUED,)) == []


async def test_tasks_are_listed_by_names_priority_and_how_long_they_are_in_their_state(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    names = ["load", "load[1]", "load[x*y]", "Load", "unload"]
    tasks = [
        a_task(run, position, name=name, priority=Priority(position % 2), since=NOW + position * SECOND)
        for position, name in enumerate(names)
    ]
    await store.insert_runs([run])
    await leader.commit(runs=[adopted(run)], new_tasks=tasks)

    def named(*names: str) -> list[str]:
        return [task.id for task in tasks if task.name in names]

    assert await ids_of_tasks(store, name="load*") == named("load", "load[1]", "load[x*y]")
    assert await ids_of_tasks(store, name="*load") == named("load", "unload")
    assert await ids_of_tasks(store, name="load[*]") == named("load[1]", "load[x*y]")
    assert await ids_of_tasks(store, name="*oad", run_id=run.id) == named("load", "Load", "unload")
    assert await ids_of_tasks(store, priority=Priority.P1) == named("load[1]", "Load")
    assert await ids_of_tasks(store, since_before=NOW + 2 * SECOND) == named("load", "load[1]")
    assert await ids_of_tasks(store, since_before=NOW + SECOND, states=(S.PENDING,)) == named("load")


async def test_tasks_are_counted_as_they_are_listed_up_to_a_number(store: Store) -> None:
    run, tasks = await some_tasks(store)

    for wanted in (
        TaskFilter(), TaskFilter(run_id=run.id), TaskFilter(worker="w1"), TaskFilter(states=(S.QUEUED, S.RUNNING)),
        TaskFilter(states=(S.FAILED,)), TaskFilter(tenant="other"), TaskFilter(name="step-*"),
    ):  # fmt: skip
        number = len(await store.list_tasks(wanted, 100))
        behind = msgspec.structs.replace(wanted, after=tasks[-1].id)
        assert await store.count_tasks(behind, 100) == number > 0
        assert await store.count_tasks(wanted, 1) == 1


async def test_states_are_counted_by_name_without_tasks_that_were_replaced(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    made = [("a", S.QUEUED), ("a", S.RUNNING), ("a", S.RUNNING), ("b", S.FAILED), ("b", S.CANCELLED)]
    births = [Origin(parent=0, generation=1, index=index, total=5, label='"replaced":true') for index in range(5)]
    births[4] = msgspec.structs.replace(births[4], replaced=True)
    tasks = [
        a_task(run, place, name=name, state=state, origin=births[place]) for place, (name, state) in enumerate(made)
    ]
    await store.insert_runs([run])
    await leader.commit(runs=[adopted(run)], new_tasks=[*tasks, a_task(run, 5, name="c")])
    states = {"a": {"QUEUED": 1, "RUNNING": 2}, "b": {"FAILED": 1}, "c": {"PENDING": 1}}

    assert await store.task_states(run.id, run.task_count) == states
    await leader.commit(runs=[ended(run)], archived=[run.id])
    assert await store.task_states(run.id, run.task_count) == states
    assert await store.task_states("run_unknown", 1) == {}


@pytest.mark.parametrize("states", [(), (S.RUNNING,), (S.QUEUED, S.PENDING, S.RUNNING), (S.SUCCEEDED, S.RUNNING)])
async def test_after_goes_on_behind_the_last_task_of_a_page(store: Store, states: tuple[TaskState, ...]) -> None:
    _, tasks = await some_tasks(store)

    found: list[str] = []
    while page := await ids_of_tasks(store, 2, states=states, after=found[-1] if found else ""):
        found += page

    assert found == [task.id for task in tasks if not states or task.state in states]


async def test_a_task_in_history_is_found_and_not_listed(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    first, second = await leader.adopt(run, tasks=2)
    await leader.commit(runs=[ended(run)], archived=[run.id])

    assert await ids_of_tasks(store) == await ids_of_tasks(store, run_id=run.id) == []
    assert await store.find_task(second.id) == second
    assert await store.find_task(first.id) == first


async def test_a_task_is_found_by_its_id(store: Store) -> None:
    leader = await Leader.of(store)
    _, second = await leader.adopt(a_run(), tasks=2)

    assert await store.find_task(second.id) == second
    assert await store.find_task(second.id + "0") is None
    assert await store.find_task("no id of a task") is None


# histories of tasks


async def test_attempts_are_those_of_the_task_that_are_over_oldest_first(store: Store) -> None:
    leader = await Leader.of(store)
    first, second = await leader.adopt(a_run(), tasks=2)
    attempts = [an_attempt(first, number=number, ended_at=NOW + number * HOUR) for number in (3, 1, 2)]
    await leader.commit(attempts=[*attempts, an_attempt(second)])

    assert await store.attempts_of(first.id) == [attempts[1], attempts[2], attempts[0]]
    assert await store.attempts_of("unknown") == []


async def test_at_most_1000_attempts_are_told_the_latest_ones(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    attempts = [an_attempt(task, number=number, ended_at=NOW + number * HOUR) for number in range(MAX_LISTED + 5)]
    await leader.commit(attempts=attempts)

    assert await store.attempts_of(task.id) == attempts[5:]


async def test_the_story_of_a_task_is_in_order_over_batches_days_and_archiving(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    first, second = await leader.adopt(run, tasks=2)
    (made,) = await store.transitions_of(first.id)
    await store.prepare_days(1)
    now = await store.time()
    story = [a_transition(first, seq=seq, at=at) for seq, at in ((2, now - HOUR), (3, now - HOUR), (4, now))]
    await leader.commit(transitions=[story[0], a_transition(second, seq=2), story[1]])
    await leader.commit(transitions=[story[2]], runs=[ended(run)])
    await leader.commit(archived=[run.id])

    assert await store.transitions_of(first.id) == [made, *story]
    assert await store.transitions_of("unknown") == []


async def test_at_most_1000_transitions_are_told_the_latest_ones(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    story = [a_transition(task, seq=seq) for seq in range(2, MAX_LISTED + 12)]
    await leader.commit(transitions=story)

    assert await store.transitions_of(task.id) == story[-MAX_LISTED:]


async def test_the_stream_of_a_shard_goes_on_behind_any_place_in_order(store: Store) -> None:
    leader, other = await Leader.of(store), await Leader.of(store, "other")
    (task,) = await leader.adopt(a_run())
    await other.adopt(a_run(shard="other"))
    story = [a_transition(task, seq=seq, at=NOW + HOUR * (9 - seq)) for seq in range(2, 7)]
    await leader.commit(transitions=story[:3])
    await leader.commit()
    await leader.commit(transitions=story[3:])

    told = await store.transitions_after("main", 0, 0, 100)
    assert [(tale.batch_no, tale.ordinal) for tale in told] == [(1, 0), (2, 0), (2, 1), (2, 2), (4, 0), (4, 1)]
    assert [tale.transition for tale in told[1:]] == story
    assert {tale.shard for tale in told} == {"main"}
    for place, tale in enumerate(told):
        assert await store.transitions_after("main", tale.batch_no, tale.ordinal, 100) == told[place + 1 :]
    assert await store.transitions_after("main", 1, 0, 2) == told[1:3]


# jobs and workers


async def test_jobs_are_listed_in_their_latest_version_by_tenant_and_name(store: Store) -> None:
    jobs = {
        (tenant, name): [await store.insert_job(a_job(tenant=tenant, name=name, definition=f"{n}")) for n in range(2)]
        for tenant, name in (("b", "x"), ("a", "z"), ("a", "y"), ("a", "y/1"))
    }
    latest = [*(jobs[key][1] for key in (("a", "y"), ("a", "y/1"), ("a", "z"), ("b", "x")))]
    latest += await store.list_jobs("builders", "", 10)

    assert await store.list_jobs(None, "", 10) == latest
    assert await store.list_jobs("a", "", 10) == latest[:3]
    assert await store.list_jobs(None, "", 2) == latest[:2]
    for place, job in enumerate(latest):
        assert await store.list_jobs(None, f"{job.tenant}/{job.name}", 10) == latest[place + 1 :]
    assert await store.list_jobs("a", "a/y", 10) == latest[1:3]


async def test_a_version_of_a_job_is_found_the_latest_if_none_is_named(store: Store) -> None:
    first, second = [await store.insert_job(a_job(definition=text)) for text in "12"]

    assert await store.find_job("acme", "report") == second
    assert await store.find_job("acme", "report", 1) == first
    assert await store.find_job("acme", "report", 3) is None
    assert await store.find_job("other", "report") is None


async def test_workers_are_listed_by_id_with_those_that_are_gone_or_lost(store: Store) -> None:
    leader, other = await Leader.of(store), await Leader.of(store, "other")
    rows = [
        a_worker("w1", status="gone"),
        a_worker("w2", status="lost"),
        a_worker("w3", hold="draining", hold_why="ann: moving"),
    ]
    await leader.commit(workers=rows[::-1])
    elsewhere = a_worker("w0", shard="other")
    await other.commit(workers=[elsewhere])

    assert await store.list_workers(None, "", 10) == [elsewhere, *rows]
    assert await store.list_workers("main", "", 10) == rows
    assert await store.list_workers("main", "", 2) == rows[:2]
    assert await store.list_workers(None, "w1", 10) == rows[1:]
    changed = msgspec.structs.replace(rows[2], hold="", hold_why="")
    await leader.commit(workers=[changed])
    assert await store.list_workers("main", "w2", 10) == [changed]
