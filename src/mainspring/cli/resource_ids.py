"""References to runs, tasks and schedules: an id, an id prefix, `@latest`, or the URL of a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainspring.protocol.errors import UNKNOWN_JOB, NotFound, Refused

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.protocol.rest.runs import RunView
    from mainspring.protocol.rest.schedules import ScheduleView

LATEST = "@latest"
_RUN, _TASK = "run_", "task_"
_MAX_SCANNED_RUNS = 1_000
"""How many of the latest runs are searched for an id prefix."""
_NAMED = 3
_RUN_ID_LENGTH = len("run_018f3c2e9a41-9d2c44e1f0a7b35c")


def is_run(word: str) -> bool:
    """Whether a reference can only name a run."""
    word = strip_url(word)
    return word == LATEST or (word.startswith(_RUN) and "/" not in word)


def is_task(word: str) -> bool:
    """Whether a reference can only name a task."""
    return word.startswith(_TASK)


def is_schedule(word: str) -> bool:
    """Whether a reference is the id of a schedule."""
    return word.startswith("sched_")


def strip_url(word: str) -> str:
    """Return the id at the end of a page's URL, or the reference itself."""
    return word.rstrip("/").rpartition("/")[2] if "://" in word else word


def find_run(client: Client, word: str) -> str:
    """Resolve a reference to the id of a run. Raises NotFound, or Refused if a prefix is ambiguous."""
    word = strip_url(word)
    if word == LATEST:
        for run in client.runs(limit=1):
            return run.id
        raise NotFound("there are no runs yet")
    if len(word) >= _RUN_ID_LENGTH:
        return word
    found = [run.id for run in client.runs(limit=_MAX_SCANNED_RUNS) if run.id.startswith(word)]
    if len(found) > 1:
        raise Refused(f"{word} matches {len(found)} runs, such as {found[0]} and {found[1]}; use a longer prefix")
    if not found:
        raise NotFound(f"there is no run {word} among the latest {_MAX_SCANNED_RUNS:,}")
    return found[0]


def find_schedule(client: Client, word: str) -> ScheduleView:
    """Find a schedule by its name or id, or by the name of a job with only one. Raises NotFound, Refused."""
    try:
        return client.schedule(word)
    except NotFound:
        of_job = list(client.schedules(job=word, limit=_NAMED + 1))
        if not of_job:
            raise
    if len(of_job) > 1:
        names = ", ".join(schedule.name for schedule in of_job[:_NAMED])
        raise Refused(f"job {word} has several schedules, such as {names}; name one of them")
    return client.schedule(of_job[0].id)


def submit_run(submit: Callable[[], RunView], missing: NotFound) -> RunView:
    """Submit a run. Raises `missing` if its job does not exist."""
    try:
        return submit()
    except Refused as refused:
        if any(fault.code == UNKNOWN_JOB for fault in refused.faults):
            raise missing from refused
        raise


def find_task(client: Client, word: str) -> str:
    """Resolve a task: an id, RUN/NAME, RUN/NAME[LABEL] for one task of a fan-out, or JOB/NAME for the latest run."""
    word = strip_url(word)
    run, slash, name = word.partition("/")
    if not slash:
        return word
    run_id = find_run(client, run) if is_run(run) else _latest_run_of(client, run)
    plain, bracket, label = name.removesuffix("]").partition("[")
    for task in client.tasks(run=run_id, name=plain if bracket else name):
        if not bracket or task.label == label:
            return task.id
    raise NotFound(f"{run_id} has no task {name}")


def find_run_or_task(client: Client, word: str) -> tuple[bool, str]:
    """Resolve a reference to the id of a run or task, and return whether it is a run."""
    is_whole_run = is_run(word)
    return is_whole_run, (find_run if is_whole_run else find_task)(client, word)


def find_run_or_schedule(client: Client, word: str) -> tuple[bool, str]:
    """Resolve a reference to the id of a run or schedule, and return whether it is a run."""
    if is_run(word):
        return True, find_run(client, word)
    return False, find_schedule(client, word).id


def _latest_run_of(client: Client, job: str) -> str:
    for latest in client.runs(job=job, limit=1):
        return latest.id
    raise NotFound(f"job {job} has no runs")
