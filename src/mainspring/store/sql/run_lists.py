"""Lists of runs, as SQL that both databases understand: by id, the newest first, those in history among the others.

A page costs the same whether there are a thousand runs or millions, and whichever page it is. So a list is a walk along
an index that has the ids of its runs in order, or several walks, each as long as a page at most:

    of a schedule                     `runs_of_schedule`
    that are under way                all of `runs_active`: as many as shards have in mind
    that did not succeed              `runs_unsuccessful`, or of a tenant `runs_unsuccessful_of_tenant`: a walk a state
    of jobs, by name or label         `runs_of_job`: a walk a version, of at most 1,000 versions
    of a tenant                       `runs_of_tenant`
    otherwise                         the primary key

`runs_history` has the same indexes, and the first runs of both are put in order together. What else a filter says is
looked at on the way: a list of what is rare among these takes as long as the walk to the last one on the page. If more
than 1,000 versions of jobs are meant, the list is such a walk too, along the ids of the tenant or of all: what so many
are meant by is not rare.

Times of creation are ranges of ids, which begin with them; what was made after a time has not ended before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

import msgspec

from mainspring.core.model.run import FINAL_RUN, Run, RunState
from mainspring.store.ports.front import RunFilter
from mainspring.store.sql.lists import ALL, LISTED_RUN, Conditions, Dialect, Listing, columns
from mainspring.store.sql.statements import ACTIVE

MAX_VERSIONS = 1000
"""So many versions of jobs are walked along one by one."""

_DAYS_TRIED = (1, 10)

_ADOPTED = frozenset(RunState) - FINAL_RUN - {RunState.PENDING}
_UNSUCCESSFUL = FINAL_RUN - {RunState.SUCCEEDED}
_IS_UNSUCCESSFUL = "runs.state IN ('CANCELLED', 'FAILED', 'PARTIAL', 'TIMED_OUT')"
"""What the indexes of those are for, in the same words: a new state needs a migration."""

_TENANT_AND_ID = "runs.tenant || '/' || runs.id"
"""What the index `runs_of_tenant` is on. Of one tenant it goes from `acme/` to `acme0`: 0 follows / in ASCII."""
_BEHIND_ALL = "~"
"""Behind the id of any run."""
_CLOCKS_DIFFER = timedelta(hours=1)
"""No run is said to have ended earlier than this before it was made, even if servers differ about the time."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class _Walks(NamedTuple):
    """Walks along an index that ends with a key and the id, one for each key."""

    column: str
    keys: Sequence[str]
    tenant: str | None = None
    """Comes before the key, if the index has it."""
    only: str = "true"
    """What the index is restricted to."""


def job_ids(wanted: RunFilter, dialect: Dialect) -> Listing | None:
    """The versions of jobs to walk along, and one more if there are too many; None if that is not the way."""
    if not _filters_jobs(wanted) or _walks(wanted, None) is not None or _is_active(wanted):
        return None
    where = Conditions(MAX_VERSIONS + 1)
    if wanted.tenant is not None:
        where.require("jobs.tenant = {}", wanted.tenant)
    _require_job(where, wanted, dialect)
    return Listing(f"SELECT jobs.id FROM jobs WHERE {where} LIMIT $1", where.parameters)


def runs(wanted: RunFilter, limit: int, jobs: Sequence[str] | None, dialect: Dialect) -> Listing:
    """The runs that are wanted, with their jobs, and 1 after them if they are in history.

    `jobs` is what `job_ids` found.
    """
    where = Conditions(limit)
    found = _found(wanted, partial(columns, Run), where, jobs, dialect, order="ORDER BY found.id DESC")
    return Listing(
        f"""SELECT {LISTED_RUN}, runs.in_history FROM ({found} ORDER BY id DESC LIMIT $1) AS runs
            LEFT JOIN jobs ON jobs.id = runs.job_id ORDER BY runs.id DESC""",
        where.parameters,
    )


def count_of_runs(wanted: RunFilter, most: int, jobs: Sequence[str] | None, dialect: Dialect) -> Listing:
    """How many runs are wanted, counted up to `most`."""
    where = Conditions(most)
    found = _found(msgspec.structs.replace(wanted, before=None), "{}.id".format, where, jobs, dialect, order="")
    return Listing(f"SELECT count(*) FROM ({found} LIMIT $1) AS counted", where.parameters)


def windows(wanted: RunFilter, now: datetime) -> Iterator[RunFilter]:
    """The same filter for the last day before the page, then for more, then for all time: a page that is full is right.

    For a store whose history is by day, and that need not look at days before.
    """
    if wanted.created_since is None and _is_in_history(wanted):
        for days in _DAYS_TRIED:
            at = (now if wanted.before is None else _time_of(wanted.before, now)) - timedelta(days=days)
            yield msgspec.structs.replace(wanted, created_since=at)
    yield wanted


def _time_of(run_id: str, otherwise: datetime) -> datetime:
    """When a run was made, as its id says."""
    try:
        return _EPOCH + int(run_id[4:16], 16) * _MILLISECOND
    except (ValueError, OverflowError):
        return otherwise


def _found(
    wanted: RunFilter,
    names: Callable[[str], str],
    where: Conditions,
    jobs: Sequence[str] | None,
    dialect: Dialect,
    *,
    order: str,
) -> str:
    """The first $1 runs of each table; of several walks in this order, or any $1. `where` gets what is true of them."""
    first, last = where.given(*_range(wanted))
    walks = _walks(wanted, jobs)
    _require(where, wanted)
    where.require("{{over}}")
    over = "true"
    if _is_in_history(wanted) and wanted.created_since is not None:
        over = f"runs.ended_at >= {where.given(wanted.created_since - _CLOCKS_DIFFER)[0]}"
    if _filters_jobs(wanted) and (walks is None or walks.column != "job_id"):
        _require_job(where, wanted, dialect, of="runs.job_id")
    if walks is not None:
        source = f"{_along(walks, first, last, where, dialect)} {order} LIMIT $1"
    elif _is_active(wanted):
        where.require(f"runs.id > {first} AND runs.id < {last}")
        active = f"(SELECT * FROM {{table}} WHERE shard > '' AND {ACTIVE} {ALL}) AS runs"
        source = f"{active} WHERE {where} ORDER BY runs.id DESC LIMIT $1"
    elif wanted.tenant is not None:
        key, (slash,) = _TENANT_AND_ID, where.given(f"{wanted.tenant}/")
        where.require(f"{key} > {slash} || {first} AND {key} < {slash} || {last}")
        source = f"{{table}} AS runs WHERE {where} ORDER BY {key} DESC LIMIT $1"
    else:
        where.require(f"runs.id > {first} AND runs.id < {last}")
        source = f"{{table}} AS runs WHERE {where} ORDER BY runs.id DESC LIMIT $1"
    what = names("runs" if walks is None else "found")
    live = f"SELECT * FROM (SELECT {what}, 0 AS in_history FROM {source.format(table='runs', over='true')}) AS live"
    if not _is_in_history(wanted):
        return live
    history = f"SELECT {what}, 1 AS in_history FROM {source.format(table='runs_history', over=over)}"
    return f"{live} UNION ALL SELECT * FROM ({history}) AS history"


def _is_in_history(wanted: RunFilter) -> bool:
    """Whether there can be any in history, which has only runs that are over."""
    return wanted.with_history and not (wanted.states and FINAL_RUN.isdisjoint(wanted.states))


def _is_active(wanted: RunFilter) -> bool:
    return bool(wanted.states) and _ADOPTED.issuperset(wanted.states)


def _filters_jobs(wanted: RunFilter) -> bool:
    return wanted.job is not None or bool(wanted.labels)


def _walks(wanted: RunFilter, jobs: Sequence[str] | None) -> _Walks | None:
    """Along which keys the list goes, if along several or along those of a schedule."""
    if _is_active(wanted):
        return None
    if wanted.schedule_id is not None:
        return _Walks("schedule_id", [wanted.schedule_id])
    if wanted.states and _UNSUCCESSFUL.issuperset(wanted.states):
        return _Walks("state", [state.value for state in wanted.states], wanted.tenant, _IS_UNSUCCESSFUL)
    if jobs is not None and len(jobs) <= MAX_VERSIONS:
        return _Walks("job_id", jobs)
    return None


def _along(walks: _Walks, first: str, last: str, where: Conditions, dialect: Dialect) -> str:
    """The first $1 runs of each walk."""
    key = [(f"runs.{walks.column}", dialect.key)]
    if walks.tenant is not None:
        (tenant,) = where.given(walks.tenant)
        key.insert(0, ("runs.tenant", tenant))
    between, order = dialect.walk(key, first, last)
    where.require(between)
    where.require(walks.only)
    (keys,) = where.given(msgspec.json.encode(walks.keys).decode())
    each = dialect.first_of_each.format(table="{table}", where=where, order=order)
    return f"{dialect.keys.format(keys)} {each}"


def _range(wanted: RunFilter) -> tuple[str, str]:
    """Between which ids the list is."""
    first = "" if wanted.created_since is None else _id_at(wanted.created_since)
    # Of the last millisecond some may be wanted and some not.
    last = _BEHIND_ALL if wanted.created_before is None else _id_at(wanted.created_before + _MILLISECOND)
    return first, min(last, wanted.before or _BEHIND_ALL)


def _id_at(at: datetime) -> str:
    """What the ids of runs of this millisecond begin with."""
    return f"run_{max(0, (at - _EPOCH) // _MILLISECOND):012x}"


def _require(where: Conditions, wanted: RunFilter) -> None:
    """What a run itself says."""
    if wanted.tenant is not None:
        where.require("runs.tenant = {}", wanted.tenant)
    if wanted.states:
        where.among("runs.state", [state.value for state in wanted.states])
    if wanted.priority is not None:
        where.require("runs.priority = {}", int(wanted.priority))
    if wanted.schedule_id is not None:
        where.require("runs.schedule_id = {}", wanted.schedule_id)
    if wanted.created_since is not None:
        where.require("runs.created_at >= {}", wanted.created_since)
    if wanted.created_before is not None:
        where.require("runs.created_at < {}", wanted.created_before)


def _require_job(where: Conditions, wanted: RunFilter, dialect: Dialect, of: str | None = None) -> None:
    """What a job says: the job of `jobs`, or the one with the id `of`."""
    job = Conditions(*where.parameters)
    if wanted.job is not None:
        job.match("jobs.name", wanted.job, dialect)
    for name, value in wanted.labels:
        label = Conditions(*job.parameters)
        label.require("label.key = {}", name)
        label.match("label.value", value, dialect)
        job.parameters = label.parameters
        job.require(f"EXISTS (SELECT 1 FROM {dialect.labels} AS label WHERE {label})")
    where.parameters = job.parameters
    where.require(str(job) if of is None else f"(SELECT count(*) FROM jobs WHERE jobs.id = {of} AND {job}) = 1")
