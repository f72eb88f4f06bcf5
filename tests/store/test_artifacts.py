"""Artifacts (WRK-11): written with the result, listed, and deleted with the history of the run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.core.model.artifacts import ArtifactRow
from mainspring.core.model.task import AttemptEnd
from mainspring.protocol.errors import Fenced
from mainspring.store.ports.artifacts import ArtifactFilter
from mainspring.store.ports.store import Store
from tests.store.builders import HOUR, NOW, Leader, a_run, an_artifact, an_attempt, ended

DAY = timedelta(days=1)


async def found(store: Store, run_id: str, limit: int = 100, **wanted: object) -> list[ArtifactRow]:
    return await store.list_artifacts(ArtifactFilter(run_id=run_id, **wanted), None, limit)  # type: ignore[arg-type]


async def test_artifacts_are_kept_as_they_were_and_listed_by_task_attempt_and_path(store: Store) -> None:
    leader = await Leader.of(store)
    first, second = await leader.adopt(a_run(), tasks=2)
    rows = [
        an_artifact(first, "Ümläut b.csv", attempt_id="att_1", keep_seconds=60),
        an_artifact(first, "a/b.csv", attempt_id="att_2", succeeded=False),
        an_artifact(second, "a.csv", size_bytes=2**53),
    ]

    await leader.commit(artifacts=rows[::-1])

    assert await found(store, first.run_id) == rows


async def test_a_list_goes_on_behind_the_last_one_of_a_page(store: Store) -> None:
    leader = await Leader.of(store)
    first, second = await leader.adopt(a_run(), tasks=2)
    rows = [an_artifact(task, name) for task in (first, second) for name in ("a", "b")]
    await leader.commit(artifacts=rows)

    page = await found(store, first.run_id, limit=3)
    last = page[-1]
    wanted = ArtifactFilter(run_id=first.run_id)
    rest = await store.list_artifacts(wanted, (last.task_id, last.attempt_id, last.path), 3)

    assert [*page, *rest] == rows


async def test_those_of_a_task_or_an_attempt_can_be_asked_for(store: Store) -> None:
    leader = await Leader.of(store)
    first, second = await leader.adopt(a_run(), tasks=2)
    (other,) = await leader.adopt(a_run())
    one, two = an_artifact(first), an_artifact(first, attempt_id="att_2")
    three = an_artifact(second)
    await leader.commit(artifacts=[one, two, three, an_artifact(other)])

    assert await found(store, first.run_id, task_id=first.id) == [one, two]
    assert await found(store, first.run_id, attempt_id="att_2") == [two]
    assert await found(store, first.run_id, tasks=(second.name,)) == [three]


async def test_those_of_the_last_success_are_told_from_those_of_other_attempts(store: Store) -> None:
    leader = await Leader.of(store)
    task, quiet, failed = await leader.adopt(a_run(), tasks=3)
    attempts = [
        an_attempt(task, ended_at=NOW),
        an_attempt(task, ended_at=NOW + HOUR),
        an_attempt(task, ended_at=NOW + 2 * HOUR, end=AttemptEnd.FAILED),
        an_attempt(quiet, ended_at=NOW),
        an_attempt(quiet, ended_at=NOW + HOUR),
        an_attempt(failed, ended_at=NOW, end=AttemptEnd.FAILED),
    ]
    rows = [
        an_artifact(task, attempt_id=attempts[0].id),
        an_artifact(task, attempt_id=attempts[1].id),
        an_artifact(task, attempt_id=attempts[2].id, succeeded=False),
        an_artifact(quiet, attempt_id=attempts[3].id),
        an_artifact(failed, attempt_id=attempts[5].id, succeeded=False),
    ]
    await leader.commit(attempts=attempts, artifacts=rows)

    assert await found(store, task.run_id, of_last_success=True) == [rows[1]]


async def test_a_batch_that_is_written_twice_has_its_artifacts_once(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    row = an_artifact(task)

    await leader.commit(artifacts=[row, row])
    leader.number -= 1
    await leader.commit(artifacts=[row])

    assert await found(store, task.run_id) == [row]


async def test_those_of_a_term_that_is_over_are_not_written(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    await store.release(leader.term)

    with pytest.raises(Fenced):
        await leader.commit(artifacts=[an_artifact(task)])

    assert await found(store, task.run_id) == []


async def test_old_ones_stay_as_long_as_their_run_is_kept(store: Store) -> None:
    """A run of several months stores a file on its first day, and moves to history on its last."""
    leader = await Leader.of(store)
    run = a_run()
    (task,) = await leader.adopt(run)
    now = await store.time()
    row = an_artifact(task, stored_at=now - 200 * DAY)
    await leader.commit(artifacts=[row])
    await store.prune("history", 90 * DAY)
    assert await found(store, run.id) == [row]

    await leader.commit(runs=[ended(run, ended_at=now - DAY)], archived=[run.id])
    await store.prune("history", 90 * DAY)
    assert await found(store, run.id) == [row]

    await store.prune("history", HOUR)
    await store.prune("history", HOUR)
    assert await found(store, run.id) == []
