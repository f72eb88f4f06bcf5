"""The current content of a folder: parsed pipeline files, and the state files beside them.

Only changed files are parsed again: editing one of a thousand pipelines parses one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from mainspring.definitions.files.drafts import invalid
from mainspring.definitions.local_time_zone import system_zone
from mainspring.definitions.pipeline_checks import after_cycles
from mainspring.definitions.pipeline_file import Pipeline, read_pipeline
from mainspring.folder import discover
from mainspring.folder.discover import ROOT, FoundPipeline
from mainspring.folder.reconcile import Directory
from mainspring.folder.state import state_files
from mainspring.folder.state.records import PIPELINE_FILE, ScheduleState
from mainspring.folder.state.state_files import StateFault
from mainspring.protocol.errors import InvalidFile


class ScannedDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """A directory with a pipeline file."""

    found: FoundPipeline
    pipeline: Pipeline | None = None
    errors: str = ""
    """Errors of an invalid file, each with `file:line:column`."""
    state: ScheduleState | StateFault | None = None
    is_restored: bool = False
    """The state was restored from the archive."""


class FolderScan:
    """The directories of a folder, as of the latest scan."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.scanned: dict[str, ScannedDirectory] = {}
        """By path, sorted."""
        self.faults: tuple[str, ...] = ()
        """What was ignored, and why."""
        self.cycles: dict[str, str] = {}
        """Errors of pipelines in an `after` cycle, by path: none of them is usable."""
        self.unreadable: tuple[str, ...] = ()
        """Paths that could not be read: pipelines at or below them may still exist."""

    def scan_all(self, known: Iterable[str]) -> None:
        """Scan the whole folder. `known` are the paths of indexed schedules."""
        scan = discover.scan(self._root)
        self.faults, self.unreadable = scan.faults, scan.unreadable
        zone, here = system_zone(), frozenset(known)
        self.scanned = {found.path: self._scan_directory(found, zone, here) for found in scan.found}
        self.cycles = _cycles(self.scanned)

    def rescan(self, paths: Iterable[str], known: Iterable[str]) -> bool:
        """Scan these directories again. False: nothing changed except state files that we wrote."""
        zone, here = system_zone(), frozenset(known)
        before, scanned = self.scanned, dict(self.scanned)
        for path in paths:
            found = discover.read_one(self._root, path)
            if found is None:
                scanned.pop(path, None)
            else:
                scanned[path] = self._scan_directory(found, zone, here)
        self.scanned = dict(sorted(scanned.items()))
        self.cycles = _cycles(self.scanned)
        return any(
            _comparable(before.get(path)) != _comparable(scanned.get(path)) for path in before.keys() | scanned.keys()
        )

    def directories(self) -> list[Directory]:
        """The directories, as input of `reconcile`."""
        return [_directory(one, is_usable=path not in self.cycles) for path, one in self.scanned.items()]

    def state(self, path: str) -> ScheduleState | None:
        """The state file of a directory; None if it is missing or invalid."""
        scanned = self.scanned.get(path)
        return scanned.state if scanned is not None and isinstance(scanned.state, ScheduleState) else None

    def _scan_directory(self, found: FoundPipeline, zone: str, known: frozenset[str]) -> ScannedDirectory:
        before = self.scanned.get(found.path)
        if before is not None and before.found == found:
            pipeline, errors = before.pipeline, before.errors
        else:
            pipeline, errors = self._read(found, zone)
        directory = self._root / found.path
        state = state_files.read_state(directory)
        is_restored = False
        if state is None and pipeline is not None and pipeline.schedules and found.path not in known:
            state = state_files.restore_archived(directory)
            is_restored = state is not None
        return ScannedDirectory(found=found, pipeline=pipeline, errors=errors, state=state, is_restored=is_restored)

    def _read(self, found: FoundPipeline, zone: str) -> tuple[Pipeline | None, str]:
        file = file_of(found.path)
        if found.fault is not None:
            return None, f"{file} {found.fault}"
        directory = str(self._root if found.path == ROOT else self._root / found.path)
        if not directory.isprintable():
            return None, f"{file!a}: the directory's name has non-printable characters"
        try:
            return read_pipeline(found.text, file, id=found.pipeline_id, directory=directory, local_zone=zone), ""
        except InvalidFile as error:
            return None, str(error)


def file_of(path: str) -> str:
    """The path of a directory's pipeline file, relative to the folder."""
    return PIPELINE_FILE if path == ROOT else f"{path}/{PIPELINE_FILE}"


def _comparable(scanned: ScannedDirectory | None) -> tuple[FoundPipeline, Directory] | None:
    """The parts of a directory whose change matters."""
    return None if scanned is None else (scanned.found, _directory(scanned, is_usable=True))


def _cycles(scanned: Mapping[str, ScannedDirectory]) -> dict[str, str]:
    paths = {id(one.pipeline): path for path, one in scanned.items()}
    pipelines = [one.pipeline for one in scanned.values() if one.pipeline is not None]
    return {
        paths[id(pipeline)]: str(invalid(pipeline.file, pipeline.text, [flaw]))
        for pipeline, flaw in after_cycles(pipelines)
    }


def _directory(scanned: ScannedDirectory, *, is_usable: bool) -> Directory:
    state = scanned.state if isinstance(scanned.state, ScheduleState) else None
    return Directory(
        path=scanned.found.path,
        pipeline_id=scanned.found.pipeline_id,
        pipeline=scanned.pipeline if is_usable else None,
        claim=None if state is None else state.schedule_id,
        claimed_as="" if state is None else state.pipeline_id,
        state_fault=scanned.state.why if isinstance(scanned.state, StateFault) else "",
        is_restored=scanned.is_restored,
    )
