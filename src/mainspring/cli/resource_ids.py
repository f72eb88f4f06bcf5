"""What people type for a thing: an id, the beginning of one, `@latest`, or the address of its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.protocol.errors import NotFound, Refused

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.protocol.rest.schedules import ScheduleView

LATEST = "@latest"
_RUN, _TASK = "run_", "task_"
_LOOKED_THROUGH = 1_000
"""Runs among which the beginning of an id is looked for."""
_NAMED = 3
_LENGTH_OF_RUN = len("run_018f3c2e9a41-9d2c44e1f0a7b35c")


def is_run(word: str) -> bool:
    """Whether it can only mean a run."""
    return word == LATEST or word.startswith(_RUN)


def is_task(word: str) -> bool:
    """Whether it can only mean a task."""
    return word.startswith(_TASK)


def without_address(word: str) -> str:
    """The id at the end of a page's address, or the word itself."""
    return word.rstrip("/").rpartition("/")[2] if "://" in word else word


def find_run(client: Client, word: str) -> str:
    """The id of the run that is meant. Raises NotFound, or Refused if several could be."""
    word = without_address(word)
    if word == LATEST:
        for run in client.runs(limit=1):
            return run.id
        raise NotFound("there is no run yet")
    if len(word) >= _LENGTH_OF_RUN:
        return word
    found = [run.id for run in client.runs(limit=_LOOKED_THROUGH) if run.id.startswith(word)]
    if len(found) > 1:
        raise Refused(
            f"{word} is the beginning of {len(found)} runs, such as {found[0]} and {found[1]}: say more of it"
        )
    if not found:
        raise NotFound(f"there is no run {word} among the latest {_LOOKED_THROUGH}")
    return found[0]


def find_schedule(client: Client, word: str) -> ScheduleView:
    """The schedule that is meant: by its name or id, or by a job that has only this one. Raises NotFound, Refused."""
    try:
        return client.schedule(word)
    except NotFound:
        of_job = list(client.schedules(job=word, limit=_NAMED + 1))
        if not of_job:
            raise
    if len(of_job) > 1:
        names = ", ".join(schedule.name for schedule in of_job[:_NAMED])
        raise Refused(f"{word} is a job with several schedules, such as {names}: name one of them")
    return client.schedule(of_job[0].id)


def lacks_job(refused: Refused) -> bool:
    """Whether a run was refused because there is no such job, and not for what the job is."""
    return any(fault.where == "/job" and fault.why.startswith("there is no job") for fault in refused.faults)


def find_task(client: Client, word: str) -> str:
    """The id of the task that is meant: an id, RUN/NAME, RUN/NAME[LABEL] for one of a fan-out, or JOB/NAME."""
    word = without_address(word) if "://" in word else word
    run, slash, name = word.partition("/")
    if not slash:
        return word
    run_id = find_run(client, run) if is_run(run) else _latest_run_of(client, run)
    plain, bracket, label = name.removesuffix("]").partition("[")
    for task in client.tasks(run=run_id, name=plain if bracket else name):
        if not bracket or task.label == label:
            return task.id
    raise NotFound(f"{run_id} has no task {name}")


def _latest_run_of(client: Client, job: str) -> str:
    for latest in client.runs(job=job, limit=1):
        return latest.id
    raise NotFound(f"there is no run of a job {job}")
