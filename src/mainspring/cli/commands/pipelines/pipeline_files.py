"""Read the pipelines of files and folders, and collect findings."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import rich_click as click

from mainspring.cli.config.input_files import STDIN, file_error, read_file
from mainspring.definitions.files.drafts import invalid
from mainspring.definitions.pipeline_checks import after_cycles, unknown_afters
from mainspring.definitions.pipeline_file import Pipeline, read_pipeline
from mainspring.folder.discover import ROOT, pipeline_id, scan
from mainspring.folder.state.records import PIPELINE_FILE
from mainspring.protocol.errors import Fault, InvalidFile

ERROR, WARNING = "error", "warning"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An error or warning about a file."""

    severity: str
    """`error` or `warning`."""
    file: str
    line: int
    """From 1; 0 for the whole file."""
    column: int
    message: str


class Reading(msgspec.Struct, kw_only=True):
    """The pipelines that were read, with errors and warnings."""

    files: int = 0
    pipelines: list[Pipeline] = []
    errors: list[InvalidFile] = []
    warnings: list[Fault] = []

    def findings(self) -> list[Finding]:
        """Return all findings, errors first."""
        errors = (fault for error in self.errors for fault in error.faults)
        return [_finding(ERROR, fault) for fault in errors] + [_finding(WARNING, fault) for fault in self.warnings]


def read_all(paths: Sequence[Path], at: str | None = None) -> Reading:
    """Read the pipelines of files and folders. A folder is validated as a whole. Raises UsageError if there is none.

    `at` is the folder's path on workers; without it, task directories are kept as written.
    """
    reading = Reading()
    for path in paths:
        if path.is_dir():
            _read_folder(path, reading, at)
        elif path.exists() or str(path) == STDIN:
            called = pipeline_id(path.parent, ROOT) if path.name == PIPELINE_FILE else None
            _take(reading, _read_one(str(path), id=called))
        else:
            raise click.UsageError(f"there is no file or folder {path}")
    if not reading.files and not reading.errors:
        raise click.UsageError(f"there is no {PIPELINE_FILE} below {', '.join(map(str, paths))}")
    return reading


def _read_folder(folder: Path, reading: Reading, at: str | None) -> None:
    """Read every pipeline below a folder, as `mainspring up` finds it."""
    scanned = scan(folder)
    reading.errors += [file_error(str(folder), why) for why in scanned.faults]
    by_id: dict[str, Pipeline] = {}
    for found in scanned.found:
        file = str((folder if found.path == ROOT else folder / found.path) / PIPELINE_FILE)
        if found.fault is not None:
            reading.files += 1
            reading.errors.append(file_error(file, found.fault))
            continue
        directory = None if at is None else posixpath.normpath(posixpath.join(at, found.path))
        pipeline = _take(reading, _read_one(file, found.text, found.pipeline_id, directory))
        if pipeline is not None and by_id.setdefault(pipeline.id, pipeline) is not pipeline:
            why = f"has the same id as {by_id[pipeline.id].file}, {pipeline.id}: rename one of the directories"
            reading.errors.append(file_error(file, why))
    together = list(by_id.values())
    reading.errors += [invalid(one.file, one.text, [flaw]) for one, flaw in after_cycles(together)]
    reading.warnings += unknown_afters(together, {found.pipeline_id for found in scanned.found})


def _read_one(
    file: str, text: str | None = None, id: str | None = None, directory: str | None = None
) -> Pipeline | InvalidFile:
    try:
        name, read = (file, text) if text is not None else read_file(file)
        return read_pipeline(read, name, id=id, directory=directory)
    except InvalidFile as error:
        return error


def _take(reading: Reading, read: Pipeline | InvalidFile) -> Pipeline | None:
    reading.files += 1
    if isinstance(read, InvalidFile):
        reading.errors.append(read)
        return None
    reading.pipelines.append(read)
    reading.warnings += read.warnings
    return read


def _finding(severity: str, fault: Fault) -> Finding:
    file, line, column = _split(fault.where)
    return Finding(severity=severity, file=file, line=line, column=column, message=fault.why)


def _split(place: str) -> tuple[str, int, int]:
    """Split a location `file:line:column`."""
    file, _, column = place.rpartition(":")
    name, _, line = file.rpartition(":")
    return (name, int(line), int(column)) if name and line.isdigit() and column.isdigit() else (place, 0, 0)


def format_github_annotations(findings: Iterable[Finding]) -> Iterator[str]:
    """Format findings as GitHub Actions annotations."""
    for one in findings:
        message = one.message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        file = one.file.replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
        place = f",line={one.line},col={one.column}" if one.line else ""
        yield f"::{one.severity} file={file}{place}::{message}"
