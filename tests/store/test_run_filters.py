"""Filters of runs: implemented again in Python, for comparison with the lists and counts of both stores."""

from __future__ import annotations

from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from random import Random

import msgspec
import pytest

from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run, RunState
from mainspring.core.model.task import Priority
from mainspring.protocol.ids import new_id
from mainspring.store.ports.front import RunFilter
from mainspring.store.ports.store import Store
from mainspring.store.sql import run_lists
from tests.store.builders import NOW, Leader, a_job, a_run, adopted, ended

S = RunState
MINUTE = timedelta(minutes=1)
FILTERS = {
    "all": RunFilter(),
    "a tenant": RunFilter(tenant="acme"),
    "a job": RunFilter(job="etl-a"),
    "a job of a tenant": RunFilter(job="etl-a", tenant="other"),
    "no such job": RunFilter(job="etl-"),
    "names": RunFilter(job="etl-*"),
    "names with what a pattern means elsewhere": RunFilter(job="50%_[a]?*"),
    "case matters": RunFilter(job="ETL*"),
    "every name": RunFilter(job="*"),
    "a label": RunFilter(labels=(("team", "ml"),)),
    "labels": RunFilter(labels=(("team", "*"), ("cost", "4*")), tenant="acme"),
    "a label and a name": RunFilter(labels=(("team", "m*"),), job="*b"),
    "failed": RunFilter(states=(S.FAILED,)),
    "failed of a tenant": RunFilter(states=(S.FAILED, S.CANCELLED), tenant="acme"),
    "failed of a job": RunFilter(states=(S.FAILED, S.TIMED_OUT), job="etl-*"),
    "over": RunFilter(states=(S.FAILED, S.SUCCEEDED)),
    "under way": RunFilter(states=(S.RUNNING, S.PAUSED)),
    "under way of jobs": RunFilter(states=(S.RUNNING,), job="etl*", tenant="acme"),
    "waiting": RunFilter(states=(S.PENDING,)),
    "waiting or failed": RunFilter(states=(S.PENDING, S.FAILED), tenant="other"),
    "a priority": RunFilter(priority=Priority.P0),
    "a priority of a job": RunFilter(priority=Priority.P0, job="etl-a"),
    "a schedule": RunFilter(schedule_id="sch_1"),
    "failed of a schedule": RunFilter(schedule_id="sch_1", states=(S.FAILED,), tenant="acme"),
    "since": RunFilter(created_since=NOW + 20 * MINUTE),
    "before": RunFilter(created_before=NOW + 20 * MINUTE, tenant="acme"),
    "between": RunFilter(created_since=NOW + 10 * MINUTE, created_before=NOW + 30 * MINUTE, job="etl-*"),
    "failed between": RunFilter(created_since=NOW, created_before=NOW + 30 * MINUTE, states=(S.FAILED,)),
    "not in history": RunFilter(with_history=False, job="etl-*"),
}


def means(wanted: RunFilter, run: Run, job: JobRow, *, in_history: bool) -> bool:
    """Whether a filter matches a run."""
    labels = msgspec.json.decode(job.labels, type=dict[str, str])
    return (
        (wanted.tenant is None or run.tenant == wanted.tenant)
        and (wanted.job is None or _matches(job.name, wanted.job))
        and all(name in labels and _matches(labels[name], value) for name, value in wanted.labels)
        and (not wanted.states or run.state in wanted.states)
        and (wanted.priority is None or run.priority is wanted.priority)
        and (wanted.schedule_id is None or run.schedule_id == wanted.schedule_id)
        and (wanted.created_since is None or run.created_at >= wanted.created_since)
        and (wanted.created_before is None or run.created_at < wanted.created_before)
        and (wanted.with_history or not in_history)
    )


def ids_of(wanted: RunFilter, runs: dict[str, tuple[Run, JobRow, bool]]) -> list[str]:
    """The ids of the matching runs."""
    return [run.id for run, job, archived in runs.values() if means(wanted, run, job, in_history=archived)]


def _matches(text: str, pattern: str) -> bool:
    return fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]"))


async def some_jobs(store: Store) -> list[JobRow]:
    """Two versions of some jobs of two tenants, of which the second has labels."""
    return [
        await store.insert_job(a_job(tenant=tenant, name=name, definition=labels, labels=labels))
        for tenant, name in (("acme", "etl-a"), ("acme", "etl-b"), ("acme", "50%_[a]?b"), ("other", "etl-a"))
        for labels in ("{}", '{"team":"ml","cost":"42"}')
    ]


async def some_runs(store: Store) -> dict[str, tuple[Run, JobRow, bool]]:
    """Runs of all states, one created per minute, half of the ended ones in history; newest first."""
    leader, random = await Leader.of(store), Random(7)
    jobs = await some_jobs(store)
    runs: list[tuple[Run, JobRow, bool]] = []
    for number in range(60):
        job, state, at = random.choice(jobs), random.choice(list(S)), NOW + number * MINUTE
        run = a_run(
            id=new_id("run", at, random), tenant=job.tenant, job_id=job.id, priority=random.choice(list(Priority)),
            created_at=at, start_at=at, schedule_id=random.choice([None, "sch_1", "sch_2"]),
        )  # fmt: skip
        now = _in_state(run, state, at)
        runs.append((now, job, now.ended_at is not None and random.random() < 0.5))
        await store.insert_runs([run])
    await leader.commit(runs=[run for run, _, _ in runs if run.state is not S.PENDING])
    await leader.commit(archived=[run.id for run, _, archived in runs if archived])
    return {run.id: (run, job, archived) for run, job, archived in reversed(runs)}


def _in_state(run: Run, state: RunState, at: datetime) -> Run:
    if state is S.PENDING:
        return run
    return adopted(run, state=state) if state in (S.RUNNING, S.PAUSED) else ended(run, state=state, ended_at=at)


async def test_each_filter_lists_and_counts_what_it_means_on_pages_of_any_size(store: Store) -> None:
    runs = await some_runs(store)

    for name, wanted in FILTERS.items():
        meant = ids_of(wanted, runs)
        assert [one.run.id for one in await store.list_runs(wanted, 100)] == meant, name
        assert await paged(store, wanted, 3) == meant, name
        assert await store.count_runs(wanted, 100) == len(meant), name
        assert await store.count_runs(msgspec.structs.replace(wanted, before="run_"), 2) == min(2, len(meant)), name
    assert [one.in_history for one in await store.list_runs(RunFilter(), 100)] == [run[2] for run in runs.values()]


async def paged(store: Store, wanted: RunFilter, limit: int) -> list[str]:
    """The ids of a list, page by page."""
    found: list[str] = []
    while page := await store.list_runs(
        msgspec.structs.replace(wanted, before=found[-1] if found else None), limit
    ):  # fmt: skip
        found += [one.run.id for one in page]
    return found


async def test_jobs_of_more_versions_than_are_walked_along_are_listed_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = await some_runs(store)
    monkeypatch.setattr(run_lists, "MAX_VERSIONS", 3)

    for name in ("names", "labels", "between"):
        wanted = FILTERS[name]
        meant = ids_of(wanted, runs)
        assert await paged(store, wanted, 4) == meant, name
        assert await store.count_runs(wanted, 100) == len(meant), name


async def test_a_run_made_in_the_last_millisecond_of_a_time_is_in_it_and_the_next_one_is_not(store: Store) -> None:
    random, microsecond = Random(1), timedelta(microseconds=1)
    border = NOW.replace(microsecond=123_500)
    early, late = [
        a_run(id=new_id("run", at, random), created_at=at, start_at=at) for at in (border - microsecond, border)
    ]
    await store.insert_runs([early, late])

    assert await paged(store, RunFilter(created_before=border), 5) == [early.id]
    assert await paged(store, RunFilter(created_since=border), 5) == [late.id]
