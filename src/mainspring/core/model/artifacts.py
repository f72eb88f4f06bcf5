"""Files that a task leaves for others: how they are named, and what is remembered of them (WRK-11).

Whoever runs the attempt stores them itself; a server only lists them. The key of one in its storage is made of whose it
is, so that no attempt can reach another's:

    <tenant>/<run>/<task>/<attempt>/<path>

A place is a URL that ends in the key: `file:///srv/artifacts/<key>`, `s3://bucket/prefix/<key>`. One that does not is
not read by us (`client/artifact_files.py`): a worker could name any file that way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec

from mainspring.protocol.errors import Fault

MOST_ARTIFACTS = 1_000
"""So many an attempt may leave."""
MOST_FETCHES = 100
"""So many texts a task may name them by."""
MOST_FETCHED = 10_000
"""So many files a task may fetch."""
LONGEST_PATH = 512
LONGEST_PATH_BYTES = 800
"""With the rest of its key it is shorter than the 1,024 bytes that S3 allows."""
LONGEST_NAME_BYTES = 255
LONGEST_PLACE = 4_096
_NOT_IN_A_PATH = re.compile(r"[\x00-\x1f\x7f\\#\ud800-\udfff]")
_TASK_NAME = re.compile(r"[^/*?\[\]\x00-\x1f]{1,200}")


class ArtifactRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A file that an attempt left, once its result was applied."""

    run_id: str
    task_id: str
    attempt_id: str
    path: str
    """Below the folder that the attempt left it in."""
    task: str
    """The task's name."""
    partition: int | None
    """Which of a fan-out the task is, from 0; None if it is of none."""
    tenant: str
    size_bytes: int
    sha256: str
    place: str
    keep_seconds: int
    """So long after the run's end it is kept at least; 0: nobody takes it away."""
    succeeded: bool
    """Whether the attempt was a success."""
    stored_at: datetime


def fault_in_path(path: str) -> str | None:
    """Why an artifact can't have this path; None if it can."""
    if not path:
        return "is empty"
    if len(path) > LONGEST_PATH or len(path.encode(errors="surrogatepass")) > LONGEST_PATH_BYTES:
        return f"is longer than {LONGEST_PATH} characters or {LONGEST_PATH_BYTES} bytes"
    if _NOT_IN_A_PATH.search(path):
        return "has a control character, a backslash or a #"
    names = path.split("/")
    if any(name in {"", ".", ".."} for name in names):
        return "has an empty part, or one that leads elsewhere"
    if any(len(name.encode()) > LONGEST_NAME_BYTES for name in names):
        return f"has a name of more than {LONGEST_NAME_BYTES} bytes"
    return None


def key_of(tenant: str, run: str, task: str, attempt: str, path: str) -> str:
    """Where an artifact is, within its storage."""
    return f"{tenant}/{run}/{task}/{attempt}/{path}"


def is_over(row: ArtifactRow, run_ended_at: datetime | None, now: datetime) -> bool:
    """Whether its time is over: its worker may have taken it away."""
    if not row.keep_seconds or run_ended_at is None:
        return False
    return now >= run_ended_at + timedelta(seconds=row.keep_seconds)


def fault_in_fetch(text: str) -> str | None:
    """Why this names no artifacts, such as `extract` or `extract/*.csv`; None if it does."""
    task, slash, pattern = text.partition("/")
    if not _TASK_NAME.fullmatch(task):
        return "must begin with the name of a task"
    return fault_in_path(pattern) if slash else None


def faults_in_fetches(fetches: Sequence[str], where: str) -> Iterator[Fault]:
    """What is wrong with the texts that say what is fetched."""
    if len(fetches) > MOST_FETCHES:
        yield Fault(where=where, why=f"has {len(fetches)} entries, {MOST_FETCHES} are allowed")
        return
    for number, text in enumerate(fetches):
        if (fault := fault_in_fetch(text)) is not None:
            yield Fault(where=f"{where}[{number}]", why=fault)


def task_of(fetch: str) -> str:
    """The task whose artifacts are fetched."""
    return fetch.partition("/")[0]


def wanted(fetches: Iterable[str], task: str, path: str) -> bool:
    """Whether some of these name this artifact of a task. `*` is any part of a name, `**` any folders."""
    for fetch in fetches:
        name, slash, pattern = fetch.partition("/")
        if name == task and (not slash or _matching(pattern).fullmatch(path)):
            return True
    return False


@lru_cache(maxsize=256)
def _matching(pattern: str) -> re.Pattern[str]:
    """A pattern for paths as a regular expression: only `*`, `**` and `?` are special."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    meanings = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meanings.get(part, re.escape(part)) for part in parts))
