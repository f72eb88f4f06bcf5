"""Artifacts: files that a task stores for other tasks, their keys and their metadata (WRK-11).

The worker that runs the attempt stores the files; the server only lists them. The key includes the owner, so an
attempt can't reach the artifacts of another:

    <tenant>/<run>/<task>/<attempt>/<path>

A location is a URL that ends in the key: `file:///srv/artifacts/<key>`, `s3://bucket/prefix/<key>`. Other locations are
not read (`client/artifact_files.py`): a worker could name any file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec

from mainspring.protocol.errors import Fault, faults_at

MAX_ARTIFACTS = 1_000
"""Per attempt."""
MAX_FETCHES = 100
"""Fetch patterns per task."""
MAX_FETCHED_FILES = 10_000
"""Files that a task may fetch."""
MAX_PATH_CHARS = 512
MAX_PATH_BYTES = 800
"""Keeps the key below the 1,024 bytes that S3 allows."""
MAX_NAME_BYTES = 255
_NOT_IN_A_PATH = re.compile(r"[\x00-\x1f\x7f\\#\ud800-\udfff]")
_TASK_NAME = re.compile(r"[^/*?\[\]\x00-\x1f]{1,200}")


class ArtifactRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A file stored by an attempt whose result was applied."""

    run_id: str
    task_id: str
    attempt_id: str
    path: str
    """Relative to the attempt's artifact folder."""
    task: str
    """Name of the task."""
    partition: int | None
    """Index in the fan-out, from 0; None outside of a fan-out."""
    tenant: str
    size_bytes: int
    sha256: str
    location: str
    keep_seconds: int
    """Minimum retention after the run's end; 0: never deleted."""
    succeeded: bool
    """Whether the attempt succeeded."""
    stored_at: datetime


def fault_in_path(path: str) -> str | None:
    """Return why a path is not allowed for an artifact, or None."""
    if not path:
        return "is empty"
    if len(path) > MAX_PATH_CHARS or len(path.encode(errors="surrogatepass")) > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_CHARS} characters or {MAX_PATH_BYTES} bytes"
    if _NOT_IN_A_PATH.search(path):
        return "has a control character, a backslash or a #"
    names = path.split("/")
    if any(name in {"", ".", ".."} for name in names):
        return "has an empty, `.` or `..` segment"
    if any(len(name.encode()) > MAX_NAME_BYTES for name in names):
        return f"has a name of more than {MAX_NAME_BYTES} bytes"
    return None


def storage_key(tenant: str, run: str, task: str, attempt: str, path: str) -> str:
    """Return the key of an artifact in its storage."""
    return f"{tenant}/{run}/{task}/{attempt}/{path}"


def is_expired(row: ArtifactRow, run_ended_at: datetime | None, now: datetime) -> bool:
    """Return whether the retention time has passed: the worker may have deleted the file."""
    if not row.keep_seconds or run_ended_at is None:
        return False
    return now >= run_ended_at + timedelta(seconds=row.keep_seconds)


def fault_in_fetch(text: str) -> str | None:
    """Return why a fetch pattern such as `extract` or `extract/*.csv` is invalid, or None."""
    task, slash, pattern = text.partition("/")
    if not _TASK_NAME.fullmatch(task):
        return "must begin with the name of a task"
    return fault_in_path(pattern) if slash else None


def faults_in_fetches(fetches: Sequence[str], where: str) -> Iterator[Fault]:
    """Yield the faults in a task's fetch patterns."""
    if len(fetches) > MAX_FETCHES:
        yield Fault(where, f"has {len(fetches)} entries; the maximum is {MAX_FETCHES}")
        return
    for number, text in enumerate(fetches):
        yield from faults_at(f"{where}[{number}]", fault_in_fetch(text))


def task_of(fetch: str) -> str:
    """Return the name of the task whose artifacts are fetched."""
    return fetch.partition("/")[0]


def is_fetched(fetches: Iterable[str], task: str, path: str) -> bool:
    """Return whether any pattern matches this artifact. `*` matches within a name, `**` across folders."""
    for fetch in fetches:
        name, slash, pattern = fetch.partition("/")
        if name == task and (not slash or _matching(pattern).fullmatch(path)):
            return True
    return False


@lru_cache(maxsize=256)
def _matching(pattern: str) -> re.Pattern[str]:
    """Compile a path pattern: only `*`, `**` and `?` are special."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    meanings = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meanings.get(part, re.escape(part)) for part in parts))
