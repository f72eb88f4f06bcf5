"""Result file of a run: `.results/2026-01-26T14-00-00.json`, named after the start of the attempt, in UTC."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path

import msgspec

from mainspring.atomic_files import rename_without_replacing
from mainspring.core.expressions.values import JsonValue
from mainspring.mapreduce.mapper import ItemFailure


class ResultFile(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file, for every result format."""

    run_id: str
    pipeline: str
    """Name of its directory."""
    started_at: datetime
    completed_at: datetime
    items: int
    """Items with an answer."""
    failed: int
    errors: Sequence[ItemFailure]
    result: object


def write_result(folder: Path, result: ResultFile) -> str:
    """Write the file under a new name; return the name. Raises OSError."""
    stem = result.started_at.strftime("%Y-%m-%dT%H-%M-%S")
    beside = folder / f".{stem}-{os.getpid()}.new"
    try:
        with open(beside, "xb") as new:
            new.write(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
        for number in count(1):
            name = f"{stem}.json" if number == 1 else f"{stem}-{number}.json"
            with suppress(FileExistsError):
                rename_without_replacing(beside, folder / name)
                return name
    finally:
        beside.unlink(missing_ok=True)
    raise AssertionError("unreachable")


def output_of(result: JsonValue, *, items: int, failed: int, file: str | None, max_bytes: int) -> dict[str, object]:
    """Return the output of the task: counts, and the result itself unless it is too large."""
    output: dict[str, object] = {"items_processed": items, "items_failed": failed, "result_file": file}
    if len(msgspec.json.encode(result)) <= max_bytes:
        output["result"] = result
    return output
