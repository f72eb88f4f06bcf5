"""Versions of jobs, deleted jobs, and results of runs by day."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random

import msgspec
import pytest

from mainspring.core.lifecycle.duration_histogram import bucket_of
from mainspring.core.model.run import Run, RunState
from mainspring.protocol.errors import Conflict, Rejected
from mainspring.store.ports.admin import AuditFilter
from mainspring.store.ports.front import JobDay, RunFilter
from mainspring.store.ports.store import Store
from tests.store.admin_builders import an_entry
from tests.store.builders import Leader, a_job, a_run, adopted, ended
from tests.store.schedule_builders import a_change_of, a_schedule

DAY = timedelta(days=1)
MIDNIGHT = datetime(2025, 3, 1, tzinfo=UTC)


async def test_versions_are_listed_the_latest_first_page_by_page(store: Store) -> None:
    versions = [await store.insert_job(a_job(definition=f"{number}")) for number in range(5)]
    await store.insert_job(a_job(tenant="other"))

    assert await store.job_versions("acme", "report", None, 10) == versions[::-1]
    assert await store.job_versions("acme", "report", None, 2) == [versions[4], versions[3]]
    assert await store.job_versions("acme", "report", 3, 10) == [versions[1], versions[0]]
    assert await store.job_versions("acme", "unknown", None, 10) == []


async def test_a_job_that_is_deleted_is_left_out_of_lists_and_is_still_found_with_its_runs(store: Store) -> None:
    first, second, other = [
        await store.insert_job(a_job(name=name, definition=text)) for name, text in ("a1", "a2", "b1")
    ]
    await store.insert_runs([a_run(job_id=first.id)])

    assert await store.delete_job("acme", "a", an_entry(action="delete_job", object="a"))

    assert await store.list_jobs("acme", "", 10) == [other]
    found = await store.find_job("acme", "a")
    assert found is not None
    assert found.deleted_at is not None
    assert msgspec.structs.replace(found, deleted_at=None) == second
    assert {version.deleted_at for version in await store.job_versions("acme", "a", None, 10)} == {found.deleted_at}
    (listed,) = await store.list_runs(RunFilter(job="a"), 10)
    assert (listed.job_name, listed.job_version) == ("a", 1)
    assert [entry.object for entry in await store.list_audit(AuditFilter(action="delete_job"), None, 10)] == ["a"]


async def test_a_name_that_was_deleted_comes_back_with_the_next_version(store: Store) -> None:
    await store.insert_job(a_job(definition="1"))
    await store.delete_job("acme", "report", an_entry())

    again = await store.insert_job(a_job(definition="2"))

    assert again.version == 2
    assert await store.list_jobs("acme", "", 10) == [again]
    assert all(version.deleted_at is None for version in await store.job_versions("acme", "report", None, 10))


async def test_jobs_that_come_together_are_each_kept_as_one_alone_would_be(store: Store) -> None:
    await store.insert_job(a_job(name="b", definition="1"))
    await store.insert_job(a_job(name="c", definition="1"))
    names = {"c": "1", "b": "2", "a": "1"}

    kept = await store.insert_jobs(
        [(a_job(name=name, definition=text), an_entry(object=name)) for name, text in names.items()]
    )

    assert [(row.name, row.version) for row in kept] == [("c", 1), ("b", 2), ("a", 1)]
    assert sorted(entry.object for entry in await store.list_audit(AuditFilter(), None, 10)) == ["a", "b", "c"]
    assert await store.insert_jobs([]) == []


async def test_of_jobs_that_come_together_none_is_kept_if_one_is_refused(store: Store) -> None:
    with pytest.raises(Rejected):
        await store.insert_jobs([(a_job(name="a"), an_entry()), (a_job(name="b", definition="\0"), an_entry())])

    assert await store.list_jobs("acme", "", 10) == []
    assert await store.list_audit(AuditFilter(), None, 10) == []


async def test_the_latest_versions_are_found_by_name_also_of_names_that_are_deleted(store: Store) -> None:
    await store.insert_job(a_job(name="a", definition="1"))
    latest = await store.insert_job(a_job(name="a", definition="2"))
    await store.insert_job(a_job(name="gone", definition="1"))
    await store.delete_job("acme", "gone", an_entry())
    await store.insert_job(a_job(name="b", tenant="other"))

    found = {row.name: row for row in await store.latest_jobs("acme", ["a", "b", "gone", "never"])}

    assert found.keys() == {"a", "gone"}
    assert found["a"] == latest
    assert found["gone"].deleted_at is not None
    assert await store.latest_jobs("acme", []) == []


async def test_what_is_not_there_is_not_deleted_and_nothing_is_told_of_it(store: Store) -> None:
    await store.insert_job(a_job())

    assert not await store.delete_job("acme", "unknown", an_entry())
    assert not await store.delete_job("other", "report", an_entry())
    assert await store.delete_job("acme", "report", an_entry(object="first"))
    assert not await store.delete_job("acme", "report", an_entry())
    assert [entry.object for entry in await store.list_audit(AuditFilter(), None, 10)] == ["first"]


async def test_a_job_with_schedules_is_not_deleted_and_they_are_named(store: Store) -> None:
    job = await store.insert_job(a_job())
    schedules = [
        a_schedule(tenant="acme", job="report", name=name, deleted_at=deleted_at)
        for name, deleted_at in (("nightly", None), ("gone", MIDNIGHT), ("hourly", None))
    ]
    for schedule in schedules:
        await store.insert_schedule(schedule, a_change_of(schedule))

    with pytest.raises(Conflict, match="hourly, nightly"):
        await store.delete_job("acme", "report", an_entry())

    assert await store.list_jobs("acme", "", 10) == [job]
    assert await store.list_audit(AuditFilter(), None, 10) == []


def run_of(job_id: str, random: Random) -> Run:
    """An ended run with this day and duration."""
    due_at = MIDNIGHT + random.uniform(0, 4) * DAY
    started_at = due_at + timedelta(seconds=random.uniform(-5, 5000)) if random.random() < 0.8 else None
    ended_at = (started_at or due_at) + timedelta(seconds=random.lognormvariate(3, 3))
    in_window = random.random() < 0.3
    return ended(
        a_run(job_id=job_id, start_at=due_at + timedelta(hours=1) if in_window else due_at),
        window_at=due_at if in_window else None,
        started_at=started_at,
        ended_at=max(ended_at, MIDNIGHT),
        state=random.choice([RunState.SUCCEEDED, RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED]),
        retries=random.randrange(4),
    )


def days_of(runs: list[Run], since: datetime, before: datetime) -> list[JobDay]:
    """Compute the results of runs by day, for comparison."""
    by_day: dict[datetime, JobDay] = {}
    for run in runs:
        assert run.ended_at is not None
        if not since <= run.ended_at < before:
            continue
        at = run.ended_at.replace(hour=0, minute=0, second=0, microsecond=0)
        empty = JobDay(day=at, states=Counter(), durations=Counter(), lateness=Counter(), retries=0)
        day = by_day.setdefault(at, empty)
        day.states[run.state] += 1
        day.durations[bucket_of((run.ended_at - (run.started_at or run.start_at)).total_seconds())] += 1
        if run.started_at is not None:
            day.lateness[bucket_of((run.started_at - (run.window_at or run.start_at)).total_seconds())] += 1
        by_day[at] = msgspec.structs.replace(day, retries=day.retries + run.retries)
    return [by_day[at] for at in sorted(by_day)]


async def test_the_days_of_a_job_count_what_became_of_its_runs_of_all_versions_also_in_history(store: Store) -> None:
    leader, random = await Leader.of(store), Random(3)
    jobs = [await store.insert_job(a_job(definition=text)) for text in "12"]
    other = await store.insert_job(a_job(tenant="other"))
    runs = [run_of(random.choice(jobs).id, random) for _ in range(200)]
    await store.insert_runs([*runs, a_run(job_id=jobs[0].id), run := a_run(job_id=jobs[0].id)])
    await leader.commit(runs=[*runs, adopted(run)])
    await store.insert_runs([run_of(other.id, random)])
    await leader.commit(archived=[run.id for run in runs[::2]])

    for since, before in ((MIDNIGHT, MIDNIGHT + 90 * DAY), (MIDNIGHT + DAY, MIDNIGHT + 3 * DAY)):
        assert await store.job_days("acme", "report", since, before) == days_of(runs, since, before)
    assert await store.job_days("acme", "unknown", MIDNIGHT, MIDNIGHT + DAY) == []
