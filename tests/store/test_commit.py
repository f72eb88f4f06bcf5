"""A batch: written whole, once, or not at all."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.core.model.batch import Batch, BulkOperation, BulkOperationKind, LateResult, RejectedEvent, WorkerRow
from mainspring.core.model.run import RunState
from mainspring.core.model.task import AttemptEnd, Priority, StopKind, StopRequest, TaskState
from mainspring.protocol.errors import Fenced, Rejected, StaleWrite
from mainspring.store.ports.store import Store
from tests.store.builders import (
    HOUR,
    NOW,
    Leader,
    a_change,
    a_decision,
    a_run,
    a_task,
    a_transition,
    adopted,
    an_attempt,
    an_outgoing,
    ended,
)
from tests.store.conftest import look

EVERYTHING = [
    "shards",
    "terms",
    "jobs",
    "runs",
    "tasks",
    "transitions",
    "attempts",
    "late_results",
    "bulk_operations",
    "outbox",
    "rejected_events",
    "workers",
    "decisions",
]


async def all_rows(store: Store) -> dict[str, list[str]]:
    """All rows, except the lease of the shard."""
    found = {table: sorted(map(repr, await look(store, f"SELECT * FROM {table}"))) for table in EVERYTHING}
    found["shards"] = [repr(shard.batch_no) for shard in await store.shards()]
    return found


async def test_what_was_committed_is_there(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run(watched=True, linked_run="run_0", priority=Priority.P0, task_count=2)
    await store.insert_runs([run])
    first = a_task(run, 0, state=TaskState.RUNNING, seq=4, attempt=1, tries=1, losses=2, attempt_id="att_1")
    first = msgspec.structs.replace(
        first, lease_id="lease_1", worker_id="w1", cause="task_x", because="it has started", due_at=NOW,
        assigned_at=NOW, started_at=NOW + HOUR, ended_at=NOW + 2 * HOUR, output='{"rows": [1, 2.50, "ü"]}', error="0",
        stop=StopRequest(StopKind.PREEMPT, "shard", "room for \"P0\"", NOW, for_task="task_y", cause="task_z"),
    )  # fmt: skip
    second = a_task(run, 1)
    changed = adopted(
        run, state=RunState.PAUSED, generation=3, ended_at=NOW, paused=True, held="look at me", cancelled_by="bob",
        failed_task="task_1", timed_out=True, because="requested",
    )  # fmt: skip

    await leader.commit(runs=[changed], new_tasks=[first, second])

    assert await store.run(run.id) == changed
    assert await store.tasks(run.id) == [first, second]


async def test_of_a_run_only_the_columns_that_a_shard_may_change_are_written(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    await store.insert_runs([run])

    await leader.commit(runs=[adopted(run, tenant="evil", params="{}", job_id="job_2", start_at=NOW + HOUR)])

    assert await store.run(run.id) == adopted(run)


async def test_priorities_and_the_times_of_a_run_are_written_with_it_and_go_to_history(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    (task,) = await leader.adopt(run)
    urgent = a_change(task, priority=Priority.P0, state=task.state)
    over = ended(run, priority=Priority.P0, started_at=NOW - HOUR, finish_by=NOW + HOUR, at_risk_at=NOW)

    await leader.commit(runs=[over], tasks=[urgent])

    (loaded,) = (await store.load_run(run.id)).runs
    assert loaded == over
    assert await store.tasks(run.id) == [urgent.task]
    await leader.commit(archived=[run.id])
    assert await store.run(run.id) == over
    assert await store.tasks(run.id) == [urgent.task]


async def test_a_change_replaces_the_row_of_its_task(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    change = a_change(
        task, state=TaskState.ASSIGNED, seq=3, attempt=1, attempt_id="att_1", lease_id="lease_1", worker_id="w1",
        because="w1 has room", since=NOW + HOUR, assigned_at=NOW + HOUR,
        stop=StopRequest(StopKind.CANCEL, "ann", "why not", NOW), output="[]", error='"x"',
    )  # fmt: skip

    await leader.commit(tasks=[change])

    assert await store.tasks(task.run_id) == [change.task]


async def test_a_change_can_take_values_away(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    full = a_change(task, attempt_id="att_1", due_at=NOW, stop=StopRequest(StopKind.CANCEL, "a", "b", NOW), output="1")
    await leader.commit(tasks=[full])
    empty = a_change(full.task, state=TaskState.PENDING, attempt_id=None, due_at=None, stop=None, output=None)

    await leader.commit(tasks=[empty])

    assert await store.tasks(task.run_id) == [empty.task]


async def test_many_rows_of_everything_in_one_batch(store: Store) -> None:
    leader = await Leader.of(store)
    runs = [a_run() for _ in range(300)]
    tasks = await leader.adopt(*runs, tasks=4)
    changes = [a_change(task, attempt_id=f"att_{task.id}") for task in tasks]

    await leader.commit(
        runs=[adopted(run, because="again") for run in runs],
        tasks=changes,
        transitions=[a_transition(change.task) for change in changes for _ in range(3)],
        attempts=[an_attempt(task) for task in tasks],
    )

    loaded = await store.load("main")
    assert loaded.tasks == [change.task for change in changes]
    assert [run.because for run in loaded.runs] == ["again"] * 300
    assert await look(store, "SELECT count(*) FROM transitions WHERE batch_no = 2") == [(3600,)]


async def test_transitions_are_keyed_by_shard_batch_and_place(store: Store) -> None:
    leader = await Leader.of(store)
    tasks = await leader.adopt(a_run(), tasks=2)
    await leader.commit(transitions=[a_transition(task, seq=2, start=TaskState.PENDING) for task in tasks])

    found = await look(store, "SELECT shard, batch_no, ordinal, task_id, seq, start FROM transitions ORDER BY 1, 2, 3")

    assert found == [
        ("main", 1, 0, tasks[0].id, 1, None),
        ("main", 1, 1, tasks[1].id, 1, None),
        ("main", 2, 0, tasks[0].id, 2, "PENDING"),
        ("main", 2, 1, tasks[1].id, 2, "PENDING"),
    ]


async def test_records_of_all_kinds_are_kept(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    attempt = an_attempt(task, end=AttemptEnd.LOST, started_at=None, error='{"text":"gone"}')

    await leader.commit(
        attempts=[attempt],
        late=[LateResult(attempt_id=attempt.id, outcome="succeeded", output="1", error=None, at=NOW)],
        rejected=[RejectedEvent(id="r1", shard="main", kind="Result", subject=task.id, event="{}", fault="f", at=NOW)],
        workers=[a_worker("w1", status="ready"), a_worker("w2", status="ready")],
    )

    assert await look(store, 'SELECT id, task_id, "end", started_at, error FROM attempts') == [
        (attempt.id, task.id, "lost", None, '{"text":"gone"}')
    ]
    assert await look(store, "SELECT attempt_id, outcome, output, error FROM late_results") == [
        (attempt.id, "succeeded", "1", None)
    ]
    assert await look(store, "SELECT id, subject FROM rejected_events") == [("r1", task.id)]
    assert await look(store, "SELECT id, status FROM workers ORDER BY id") == [("w1", "ready"), ("w2", "ready")]


async def test_a_workers_row_is_replaced(store: Store) -> None:
    leader = await Leader.of(store)
    await leader.commit(workers=[a_worker("w1", status="ready")])

    await leader.commit(workers=[a_worker("w1", status="lost"), a_worker("w1", status="gone")])

    assert await look(store, "SELECT id, status FROM workers") == [("w1", "gone")]


async def test_a_spread_goes_on_where_it_stopped(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    await leader.adopt(run)
    open_bulk_operation = a_bulk_operation(run.id, total=10, done=4)
    await leader.commit(bulk_operations=[a_bulk_operation(run.id, total=10, done=0)])

    await leader.commit(bulk_operations=[open_bulk_operation])

    assert (await store.load("main")).bulk_operations == [open_bulk_operation]


async def test_a_spread_whose_done_is_its_total_is_over_and_its_row_goes(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    await leader.adopt(run)
    other = a_bulk_operation(run.id, kind=BulkOperationKind.CANCEL, total=3, done=1)
    await leader.commit(bulk_operations=[a_bulk_operation(run.id, total=10, done=0), other])

    await leader.commit(
        bulk_operations=[
            a_bulk_operation(run.id, total=10, done=10),
            a_bulk_operation(run.id, generation=2, total=0, done=0),
        ]
    )

    assert (await store.load("main")).bulk_operations == [other]


async def test_a_batch_that_had_been_written_changes_nothing_and_answers_like_the_first_time(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    (task,) = await leader.adopt(run)
    batch = Batch(
        runs=[adopted(run, because="now")], tasks=[a_change(task)], new_tasks=[a_task(run, 1)],
        transitions=[a_transition(task)], attempts=[an_attempt(task)], outbox=[an_outgoing()],
        decisions=[a_decision(task)],
        bulk_operations=[a_bulk_operation(run.id, total=2, done=1)],
    )  # fmt: skip
    first = await store.commit(leader.term, 2, batch)
    before = await all_rows(store)

    again = await store.commit(leader.term, 2, batch)

    assert again >= first
    assert await all_rows(store) == before


async def test_an_old_batch_is_fenced_and_not_written_again(store: Store) -> None:
    leader = await Leader.of(store)
    await leader.commit(outbox=[an_outgoing()])
    await leader.commit()
    before = await all_rows(store)

    with pytest.raises(Fenced):
        await store.commit(leader.term, 1, Batch(outbox=[an_outgoing()]))

    assert await all_rows(store) == before


@pytest.mark.parametrize("wrong", ["state", "seq", "shard", "unknown"])
async def test_commit_raises_stale_write_if_a_tasks_row_is_not_as_its_change_says_it_was(
    store: Store, wrong: str
) -> None:
    leader = await Leader.of(store)
    other = await Leader.of(store, "other")
    run = a_run()
    good, bad = await leader.adopt(run, tasks=2)
    match wrong:
        case "state":
            change = a_change(msgspec.structs.replace(bad, state=TaskState.RUNNING))
        case "seq":
            change = a_change(bad)
            change = type(change)(change.task, change.was, 7)
        case "shard":
            leader, change = other, a_change(bad)
        case _:
            change = a_change(a_task(run, 5))
    before = await all_rows(store)

    with pytest.raises(StaleWrite):
        await leader.commit(tasks=[a_change(good), change], transitions=[a_transition(good)], outbox=[an_outgoing()])

    assert await all_rows(store) == before


async def test_commit_raises_stale_write_if_a_run_is_not_there(store: Store) -> None:
    leader = await Leader.of(store)
    before = await all_rows(store)

    with pytest.raises(StaleWrite):
        await leader.commit(runs=[adopted(a_run())], outbox=[an_outgoing()])

    assert await all_rows(store) == before


async def test_commit_raises_stale_write_if_a_run_is_of_another_shard(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run(shard="other")
    await store.insert_runs([run])

    with pytest.raises(StaleWrite):
        await leader.commit(runs=[adopted(run)])

    assert await store.run(run.id) == run


async def test_commit_raises_stale_write_if_a_new_task_is_there_already(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    before = await all_rows(store)

    with pytest.raises(StaleWrite):
        await leader.commit(new_tasks=[task], outbox=[an_outgoing()])

    assert await all_rows(store) == before


async def test_after_a_refusal_the_same_number_can_be_used_for_another_batch(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    with pytest.raises(StaleWrite):
        await leader.commit(tasks=[a_change(a_change(task).task)])

    await leader.commit(tasks=[a_change(task)])

    assert await store.tasks(task.run_id) == [a_change(task).task]


async def test_the_tasks_of_a_run_are_those_whose_id_begins_with_its_id(store: Store) -> None:
    """Tasks of a run are found by the prefix of their ids, so a task with another id is refused."""
    leader = await Leader.of(store)
    run = a_run()

    with pytest.raises(Rejected):
        await leader.commit(new_tasks=[a_task(run, id="task_of-another-run.0")])


async def test_an_outgoing_whose_id_is_there_is_not_added_again(store: Store) -> None:
    leader = await Leader.of(store)
    outgoing = an_outgoing()
    await leader.commit(outbox=[outgoing])

    await leader.commit(outbox=[msgspec.structs.replace(outgoing, payload="[2]"), an_outgoing(id=outgoing.id)])

    assert await look(store, "SELECT id, payload FROM outbox") == [(outgoing.id, "{}")]


async def test_archived_runs_move_to_history_with_their_tasks(store: Store) -> None:
    leader = await Leader.of(store)
    gone, kept = a_run(), a_run()
    tasks = await leader.adopt(gone, kept, tasks=3)
    await leader.commit(runs=[ended(gone)])

    await leader.commit(archived=[gone.id])

    assert await store.run(gone.id) == ended(gone)
    assert await store.tasks(gone.id) == tasks[:3]
    assert (await store.load_run(gone.id)).runs == []
    assert await look(store, "SELECT count(*) FROM tasks") == [(3,)]
    assert (await store.load("main")).tasks == tasks[3:]


async def test_a_run_can_be_archived_in_the_batch_that_changes_it(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    (task,) = await leader.adopt(run)
    change = a_change(task, state=TaskState.SUCCEEDED)

    await leader.commit(runs=[ended(run)], tasks=[change], archived=[run.id])

    assert await store.run(run.id) == ended(run)
    assert await store.tasks(run.id) == [change.task]


async def test_runs_that_are_not_final_are_not_archived(store: Store) -> None:
    leader = await Leader.of(store)
    over, going_on = a_run(), a_run()
    await leader.adopt(over, going_on)
    await leader.commit(runs=[ended(over)])
    before = await all_rows(store)

    with pytest.raises(StaleWrite):
        await leader.commit(archived=[over.id, going_on.id])

    assert await all_rows(store) == before


def a_worker(id: str, **changes: Any) -> WorkerRow:
    values: dict[str, Any] = {
        "id": id, "shard": "main", "offer": "{}", "labels": "{}", "zone": "a", "version": "1", "status": "ready",
        "since": NOW, "last_heartbeat_at": NOW,
    }  # fmt: skip
    return WorkerRow(**(values | changes))


def a_bulk_operation(run_id: str, **changes: Any) -> BulkOperation:
    values: dict[str, Any] = {
        "run_id": run_id, "parent": "", "generation": 1, "kind": BulkOperationKind.ADOPT, "shard": "main", "total": 10,
        "done": 0, "by": "shard", "why": "it is large",
    }  # fmt: skip
    return BulkOperation(**(values | changes))
