"""Result files: `.results/2026-01-26T14-00-00.json`, the outputs of a run.

A map-reduce task writes its own file and names it in its output; this one is for all other pipelines.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from datetime import datetime
from itertools import count
from pathlib import Path

import msgspec
import structlog

from mainspring.atomic_files import write_atomically
from mainspring.folder.state import safe_files
from mainspring.folder.state.records import RESULTS, RunRecord
from mainspring.protocol.errors import InvalidFile

MAX_RESULT_FILES = 100
"""Result files kept per pipeline; older ones are deleted."""
_LARGEST_BYTES = 64 * 1024 * 1024
_RESULT = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(-\d+)?\.\w+")

log = structlog.get_logger()


class ResultFile(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a result file."""

    run_id: str
    pipeline: str
    state: str
    started_at: datetime
    completed_at: datetime | None
    outputs: dict[str, object]


class _RunReference(msgspec.Struct, frozen=True):
    run_id: str = ""


def write_result(directory: Path, result: ResultFile) -> str | None:
    """Write the result of a run; return its path relative to the pipeline's directory, or None if that failed.

    Idempotent per run. A failure is logged.
    """
    results_dir = directory / RESULTS
    try:
        _make_directory(results_dir)
        name = next(name for name in _names(result.started_at) if _is_for(results_dir / name, result.run_id))
        write_atomically(results_dir / name, safe_files.encode(result))
    except (OSError, TypeError) as error:
        log.warning("result.not_written", path=str(results_dir), run=result.run_id, error=str(error))
        return None
    return f"{RESULTS}/{name}"


def delete_old(directory: Path) -> None:
    """Delete all but the latest result files of a pipeline."""
    results_dir = directory / RESULTS
    if results_dir.is_symlink():
        return
    try:
        names = sorted(path.name for path in results_dir.iterdir() if _RESULT.fullmatch(path.name))
        for name in names[:-MAX_RESULT_FILES]:
            (results_dir / name).unlink(missing_ok=True)
    except OSError as error:
        log.warning("result.not_deleted", path=str(results_dir), error=str(error))


def result_of(run_id: str, pipeline: str, state: str, record: RunRecord, outputs: dict[str, object]) -> ResultFile:
    """Build the result file of a run."""
    return ResultFile(
        run_id=run_id, pipeline=pipeline, state=state, started_at=record.started_at, completed_at=record.completed_at,
        outputs=outputs,
    )  # fmt: skip


def _make_directory(results_dir: Path) -> None:
    """Create the directory of results. Raises OSError for a symbolic link: its target is not ours."""
    if results_dir.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "is a symbolic link", str(results_dir))
    results_dir.mkdir(exist_ok=True)


def _names(started_at: datetime) -> Iterator[str]:
    stem = started_at.strftime("%Y-%m-%dT%H-%M-%S")
    return (f"{stem}.json" if number == 1 else f"{stem}-{number}.json" for number in count(1))


def _is_for(path: Path, run_id: str) -> bool:
    """Whether a path is free, or has the result of this run."""
    try:
        data = safe_files.read(path, max_bytes=_LARGEST_BYTES)
        return data is None or msgspec.json.decode(data, type=_RunReference).run_id == run_id
    except (InvalidFile, msgspec.DecodeError):
        return False
