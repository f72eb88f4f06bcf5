"""Loading the memory of a shard."""

from __future__ import annotations

from mainspring.core.model.batch import BulkOperation, BulkOperationKind
from mainspring.core.model.run import FINAL_RUN, RunState
from mainspring.core.model.task import AttemptEnd, RecordedAttempt, TaskState
from mainspring.store.ports.store import ShardRows, Store
from tests.store.builders import JOB, Leader, a_change, a_job, a_run, a_task, adopted, an_attempt, ended

NOTHING = ShardRows(runs=[], tasks=[], jobs=[], bulk_operations=[])


async def test_load_of_a_shard_without_work_is_empty(store: Store) -> None:
    await store.insert_runs([a_run()])

    assert await store.load("main") == NOTHING


async def test_load_gives_runs_that_are_adopted_and_not_final_with_tasks_jobs_and_open_spreads(store: Store) -> None:
    job = await store.insert_job(a_job())
    leader = await Leader.of(store)
    active, waiting = a_run(job_id=job.id), a_run(job_id=job.id)
    await store.insert_runs([waiting])
    tasks = await leader.adopt(active, tasks=2)
    bulk_operation = BulkOperation(
        run_id=active.id,
        parent="",
        generation=1,
        kind=BulkOperationKind.ADOPT,
        shard="main",
        total=9,
        done=2,
        by="b",
        why="w",
    )
    await leader.commit(bulk_operations=[bulk_operation])

    assert await store.load("main") == ShardRows(
        runs=[adopted(active)], tasks=tasks, jobs=[job], bulk_operations=[bulk_operation]
    )


async def test_load_leaves_out_every_final_state_and_no_other(store: Store) -> None:
    leader = await Leader.of(store)
    runs = {state: a_run() for state in RunState}
    await leader.adopt(*runs.values())
    await leader.commit(runs=[adopted(run, state=state) for state, run in runs.items()])

    loaded = await store.load("main")

    assert {run.state for run in loaded.runs} == set(RunState) - FINAL_RUN
    assert {task.run_id for task in loaded.tasks} == {run.id for run in loaded.runs}


async def test_load_gives_final_tasks_of_runs_that_are_not(store: Store) -> None:
    leader = await Leader.of(store)
    first, second = await leader.adopt(a_run(), tasks=2)
    change = a_change(first, state=TaskState.SUCCEEDED)
    await leader.commit(tasks=[change])

    assert (await store.load("main")).tasks == [change.task, second]


async def test_load_gives_one_shard_only(store: Store) -> None:
    mine, other = await Leader.of(store), await Leader.of(store, "other")
    await other.adopt(a_run(shard="other"))
    (task,) = await mine.adopt(a_run())

    loaded = await store.load("main")

    assert loaded.tasks == [task]
    assert [run.shard for run in loaded.runs] == ["main"]


async def test_loaded_tasks_are_ordered_by_run_then_position(store: Store) -> None:
    leader = await Leader.of(store)
    runs = [a_run() for _ in range(3)]
    await store.insert_runs(runs)
    tasks = [a_task(run, position) for position in (11, 2, 0, 10, 1) for run in reversed(runs)]
    await leader.commit(runs=[adopted(run) for run in runs], new_tasks=tasks)

    loaded = (await store.load("main")).tasks

    assert [(task.run_id, task.position) for task in loaded] == sorted((task.run_id, task.position) for task in tasks)


async def test_load_run_gives_one_run_whatever_its_state(store: Store) -> None:
    job, any_job = await store.insert_job(a_job()), await store.insert_job(JOB)
    leader = await Leader.of(store)
    waiting, over = a_run(), a_run(job_id=job.id)
    await store.insert_runs([waiting])
    tasks = await leader.adopt(over, tasks=2)
    await leader.commit(runs=[ended(over)])

    assert await store.load_run(waiting.id) == ShardRows(runs=[waiting], tasks=[], jobs=[any_job], bulk_operations=[])
    assert await store.load_run(over.id) == ShardRows(runs=[ended(over)], tasks=tasks, jobs=[job], bulk_operations=[])


async def test_load_run_gives_nothing_if_there_is_no_such_run(store: Store) -> None:
    assert await store.load_run("run_nowhere") == NOTHING


async def test_load_run_gives_nothing_from_history(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    await leader.adopt(run)
    await leader.commit(runs=[ended(run)], archived=[run.id])

    assert await store.load_run(run.id) == NOTHING


async def test_jobs_gives_the_definitions_with_these_ids_and_leaves_out_what_is_unknown(store: Store) -> None:
    first = await store.insert_job(a_job(name="one"))
    second = await store.insert_job(a_job(name="two"))
    await store.insert_job(a_job(name="three"))

    found = await store.jobs([second.id, "job_nowhere", first.id])

    assert {job.id: job for job in found} == {first.id: first, second.id: second}
    assert await store.jobs([]) == []


async def test_find_attempts_knows_current_ones_of_tasks_and_ended_ones_of_attempts(store: Store) -> None:
    leader = await Leader.of(store)
    current, retried = await leader.adopt(a_run(), tasks=2)
    old = an_attempt(retried, end=AttemptEnd.LOST)
    await leader.commit(
        tasks=[
            a_change(current, state=TaskState.RUNNING, attempt_id="att_now", worker_id="w7"),
            a_change(retried, state=TaskState.RUNNING, attempt_id="att_next", worker_id="w8"),
        ],
        attempts=[old],
    )

    found = await store.find_attempts(["att_now", old.id, "att_unknown"])

    assert sorted(found, key=lambda attempt: attempt.id) == sorted(
        [
            RecordedAttempt(id="att_now", task_id=current.id, worker_id="w7", end=None),
            RecordedAttempt(id=old.id, task_id=retried.id, worker_id="w1", end=AttemptEnd.LOST),
        ],
        key=lambda attempt: attempt.id,
    )


async def test_find_attempts_says_how_the_last_attempt_of_a_final_task_ended(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    attempt = an_attempt(task)
    await leader.commit(tasks=[a_change(task, state=TaskState.SUCCEEDED, attempt_id=attempt.id)], attempts=[attempt])

    (found,) = await store.find_attempts([attempt.id])

    assert found.end is AttemptEnd.SUCCEEDED


async def test_find_attempts_still_knows_those_of_archived_runs(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    (task,) = await leader.adopt(run)
    attempt = an_attempt(task)
    await leader.commit(runs=[ended(run)], attempts=[attempt], archived=[run.id])

    (found,) = await store.find_attempts([attempt.id])

    assert found.task_id == task.id
