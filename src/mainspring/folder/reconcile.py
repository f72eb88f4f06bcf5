"""Match directories to schedules, and plan the changes on the server. Pure (FLD-3).

    the state file names a schedule ─┬─ indexed at this path                                                 same
                                     ├─ indexed at another path ─┬─ which still has its pipeline.yaml        copy
                                     │                           └─ which has none                           moved
                                     └─ not in the index                                     imported or restored
    it names none ─┬─ but the index has one at this path, or the server one for its job                  recreated
                   └─ otherwise                                                                                new

1. A schedule belongs to exactly one directory. One that no directory claims is deleted.
2. An invalid file changes nothing: the schedule of its directory stays unchanged, on the server too.
3. A definition that was applied is not applied again, unless the server does not have it.
4. Pipelines below an unreadable directory are not removed: they stay unchanged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from random import Random

import msgspec
from msgspec.structs import replace

from mainspring.core.schedules.schedule_json import encode_schedule
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.definitions.pipeline_file import Pipeline
from mainspring.folder.discover import ROOT
from mainspring.folder.state.index import IndexEntry
from mainspring.folder.state.records import PIPELINE_FILE, STATE_FILE

_SCHEDULE_NAME = re.compile(r"(?P<id>(?P<job>.+)-[0-9a-f]{6})(?:-event)?")
_UNSCHEDULED = "job:"
"""Prefix of the keys of pipelines without a schedule: not a valid schedule name."""


class Kind(StrEnum):
    """How a directory was matched to its schedule."""

    SAME = "same"
    NEW = "new"
    MOVED = "moved"
    COPY = "copy"
    RECREATED = "recreated"
    """Its state file was missing or invalid."""
    IMPORTED = "imported"
    """Known only from its state file."""
    RESTORED = "restored"
    """Its schedule was removed and added again: the archived state file was restored."""


ADDED = frozenset({Kind.NEW, Kind.COPY, Kind.IMPORTED, Kind.RESTORED})


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    """A directory with a pipeline file."""

    path: str
    pipeline_id: str
    pipeline: Pipeline | None
    """None: its file is invalid."""
    claim: str | None = None
    """The schedule that its state file names."""
    claimed_as: str = ""
    """The pipeline that its state file names."""
    state_fault: str = ""
    """Why its state file is invalid."""
    is_restored: bool = False
    """Its state file was in the archive until now."""

    @property
    def is_scheduled(self) -> bool:
        """Whether it has a valid file with a schedule."""
        return self.pipeline is not None and bool(self.pipeline.schedules)


class FolderSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Input of reconciliation: the directories, the index, and what the server has."""

    directories: Sequence[Directory]
    known: Mapping[str, IndexEntry]
    """By scheduleId, or by `unscheduled(..)` for pipelines without a schedule."""
    on_server: Mapping[str, str] | None = None
    """The job of each schedule on the server, by name; None: everything that was applied is there."""
    jobs_on_server: frozenset[str] | None = None
    unreadable: tuple[str, ...] = ()
    """Paths that could not be read."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A directory and its schedule."""

    path: str
    pipeline_id: str
    schedule_id: str
    """Or `unscheduled(..)`."""
    kind: Kind


class DesiredPipeline(msgspec.Struct, frozen=True, kw_only=True):
    """A definition to apply on the server."""

    identity: Identity
    pipeline: Pipeline
    digest: str
    names: tuple[str, ...]
    """Names of its schedules on the server."""
    is_missing: bool
    """The server has none of them: missed windows may have to run."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to make, in this order."""

    identities: tuple[Identity, ...] = ()
    """Every directory with a valid file. An index entry neither here nor in `forgotten` stays unchanged."""
    adopted: tuple[Identity, ...] = ()
    """Directories with an invalid file, whose schedule only the server has: it stays unchanged."""
    wanted: tuple[DesiredPipeline, ...] = ()
    dropped_schedules: tuple[str, ...] = ()
    dropped_jobs: dict[str, str | None] = {}
    """With their tenants, where files named them."""
    forgotten: tuple[str, ...] = ()
    """Keys to remove from the index."""
    archived: tuple[str, ...] = ()
    """Paths whose state file is archived: the pipeline exists, its schedule was removed."""
    deleted: tuple[str, ...] = ()
    """Paths whose state file is deleted: the pipeline was removed."""
    duplicates: dict[str, str] = {}
    """Paths that are ignored, with the path of the pipeline that has the same id."""
    warnings: tuple[str, ...] = ()


def unscheduled(pipeline_id: str) -> str:
    """Return the key of a pipeline without a schedule."""
    return f"{_UNSCHEDULED}{pipeline_id}"


def is_schedule(key: str) -> bool:
    """Whether a key is that of a schedule."""
    return not key.startswith(_UNSCHEDULED)


def new_schedule_id(pipeline_id: str, taken: Iterable[str], random: Random) -> str:
    """Return a new schedule id for a pipeline."""
    while (new_id := f"{pipeline_id}-{random.getrandbits(24):06x}") in taken:
        pass
    return new_id


def definitions(pipeline: Pipeline, schedule_id: str) -> list[tuple[str, bytes]]:
    """Return the schedules of a pipeline as applied on the server: names and definitions."""
    named = [replace(spec, name=_name(spec, pipeline, schedule_id)) for spec in pipeline.schedules]
    return [(spec.name, encode_schedule(msgspec.json.encode(spec).decode())) for spec in named]


def reconcile(snapshot: FolderSnapshot, random: Random) -> Plan:
    """Plan the changes for a snapshot."""
    return _Reconciler(snapshot, random).plan()


class _Reconciler:
    """One reconciliation."""

    def __init__(self, snapshot: FolderSnapshot, random: Random) -> None:
        self._snapshot = snapshot
        self._random = random
        self._known = snapshot.known
        self._at = {known.path: key for key, known in snapshot.known.items()}
        self._orphans = _orphans(snapshot)
        self._taken = {*snapshot.known, *self._orphans, *(one.claim for one in snapshot.directories if one.claim)}
        self._warnings: list[str] = []
        self._kept: set[str] = set()
        self._adopted: list[Identity] = []
        self._jobs: set[str] = set()

    def plan(self) -> Plan:
        duplicates = _duplicates(self._snapshot.directories, self._at)
        used = [one for one in self._snapshot.directories if one.path not in duplicates]
        owners = self._owners(used)
        identities = [found for one in used if (found := self._identify(one, owners)) is not None]
        by_path = {one.path: one for one in used}
        wanted = [item for one in identities if (item := self._wanted(one, by_path[one.path])) is not None]
        forgotten = [key for key, known in self._known.items() if key not in self._kept and not self._is_hidden(known)]
        return Plan(
            identities=tuple(identities),
            adopted=tuple(self._adopted),
            wanted=tuple(wanted),
            dropped_schedules=tuple(self._dropped_schedules(identities, by_path, forgotten)),
            dropped_jobs=self._dropped_jobs(identities, forgotten),
            forgotten=tuple(forgotten),
            archived=tuple(one.path for one in used if _has_lost_its_schedule(one)),
            deleted=tuple(
                path for key in forgotten if is_schedule(key) and (path := self._known[key].path) not in by_path
            ),
            duplicates=duplicates,
            warnings=(*_format_duplicates(duplicates), *self._warnings),
        )

    def _owners(self, directories: Sequence[Directory]) -> dict[str, str]:
        """Return the path that owns each claimed schedule, by state file or by location."""
        claimants: dict[str, list[Directory]] = {}
        for one in directories:
            if (claim := self._claim(one)) is not None:
                claimants.setdefault(claim, []).append(one)
        owners = {}
        for claim, claiming in claimants.items():
            home = self._known[claim].path if claim in self._known else None
            owners[claim] = min(
                claiming, key=lambda one: (one.path != home, one.claimed_as != one.pipeline_id, one.path)
            ).path
        return owners

    def _claim(self, one: Directory) -> str | None:
        """Return the schedule that a directory's state file names, or else the indexed one."""
        if one.claim is not None:
            return one.claim
        here = self._at.get(one.path)
        if here is not None and is_schedule(here):
            return here
        return None

    def _identify(self, one: Directory, owners: Mapping[str, str]) -> Identity | None:
        """Return a directory's identity; None for an invalid one, whose index entry is kept."""
        claim = self._claim(one)
        is_owner = claim is not None and owners[claim] == one.path
        if one.pipeline is None:
            self._keep_unchanged(one, claim if is_owner else None)
            return None
        if not one.is_scheduled:
            return self._identity(one, unscheduled(one.pipeline_id), Kind.SAME)
        if claim is not None and is_owner:
            return self._identity(one, claim, self._kind(one, claim))
        if claim is None and (orphan := self._orphan_for(one.pipeline_id, owners)) is not None:
            return self._identity(one, orphan, Kind.RECREATED)
        new_id = new_schedule_id(one.pipeline_id, self._taken, self._random)
        self._taken.add(new_id)
        if one.state_fault:
            self._warnings.append(f"{one.path}/{STATE_FILE} is invalid: {one.state_fault}. A new one was created")
        if claim is not None:
            origin = f"{owners[claim]}/{PIPELINE_FILE}"
            self._warnings.append(f"{one.path} is a copy of {origin}; its new schedule is {new_id}")
        return self._identity(one, new_id, Kind.NEW if claim is None else Kind.COPY)

    def _kind(self, one: Directory, claim: str) -> Kind:
        if one.claim is None:
            why = f"is invalid: {one.state_fault}" if one.state_fault else "is missing"
            self._warnings.append(f"{one.path}/{STATE_FILE} {why}. It was recreated from the index")
            return Kind.RECREATED
        if claim not in self._known:
            return Kind.RESTORED if one.is_restored else Kind.IMPORTED
        return Kind.SAME if self._known[claim].path == one.path else Kind.MOVED

    def _orphan_for(self, pipeline_id: str, owners: Mapping[str, str]) -> str | None:
        """Return a schedule of this pipeline that only the server has."""
        for orphan, job in self._orphans.items():
            if job == pipeline_id and orphan not in owners and orphan not in self._kept:
                return orphan
        return None

    def _identity(self, one: Directory, key: str, kind: Kind) -> Identity:
        self._kept.add(key)
        self._jobs.add(one.pipeline_id)
        return Identity(path=one.path, pipeline_id=one.pipeline_id, schedule_id=key, kind=kind)

    def _keep_unchanged(self, one: Directory, claim: str | None) -> None:
        here = self._at.get(one.path)
        for key in (claim, here if here is not None and not is_schedule(here) else None):
            if key is not None:
                self._kept.add(key)
                self._jobs.add(self._known[key].pipeline_id if key in self._known else one.pipeline_id)
        job = (self._snapshot.on_server or {}).get(claim or "")
        if claim is not None and claim not in self._known and job is not None:
            self._jobs.add(job)
            self._adopted.append(Identity(path=one.path, pipeline_id=job, schedule_id=claim, kind=Kind.IMPORTED))

    def _wanted(self, identity: Identity, one: Directory) -> DesiredPipeline | None:
        """Return the definition to apply for a directory; None if it is up to date."""
        assert one.pipeline is not None
        schedules = definitions(one.pipeline, identity.schedule_id) if one.is_scheduled else []
        names = tuple(name for name, _ in schedules)
        digest = _digest(one.pipeline, schedules)
        known = self._known.get(identity.schedule_id)
        if known is not None and known.digest == digest and self._is_on_server(identity, names):
            return None
        on_server = self._snapshot.on_server
        is_missing = known is None if on_server is None else not any(name in on_server for name in names)
        return DesiredPipeline(
            identity=identity, pipeline=one.pipeline, digest=digest, names=names, is_missing=is_missing and bool(names)
        )

    def _is_on_server(self, identity: Identity, names: Sequence[str]) -> bool:
        on_server, jobs = self._snapshot.on_server, self._snapshot.jobs_on_server
        if on_server is not None and any(name not in on_server for name in names):
            return False
        return jobs is None or bool(names) or identity.pipeline_id in jobs

    def _dropped_schedules(
        self, identities: Sequence[Identity], by_path: Mapping[str, Directory], forgotten: Sequence[str]
    ) -> list[str]:
        dropped = [name for key in forgotten for name in self._known[key].names]
        for identity in identities:
            if (known := self._known.get(identity.schedule_id)) is not None and known.names:
                pipeline = by_path[identity.path].pipeline
                assert pipeline is not None
                still = {_name(spec, pipeline, identity.schedule_id) for spec in pipeline.schedules}
                dropped += [name for name in known.names if name not in still]
        if self._snapshot.on_server is not None:
            if not self._snapshot.unreadable:
                gone = [orphan for orphan in self._orphans if orphan not in self._kept]
                dropped += [name for one in gone for name in (one, f"{one}-event")]
            dropped = [name for name in dropped if name in self._snapshot.on_server]
        return dropped

    def _dropped_jobs(self, identities: Sequence[Identity], forgotten: Sequence[str]) -> dict[str, str | None]:
        left: dict[str, str | None] = {}
        if not self._snapshot.unreadable:
            left |= {job: None for orphan, job in self._orphans.items() if orphan not in self._kept}
        left |= {self._known[key].pipeline_id: self._known[key].tenant for key in forgotten}
        for identity in identities:
            known = self._known.get(identity.schedule_id)
            if known is not None and known.pipeline_id != identity.pipeline_id:
                left[known.pipeline_id] = known.tenant
        hidden = {known.pipeline_id for known in self._known.values() if self._is_hidden(known)}
        return {job: tenant for job, tenant in left.items() if job not in self._jobs and job not in hidden}

    def _is_hidden(self, known: IndexEntry) -> bool:
        return any(
            path in (ROOT, known.path) or known.path.startswith(f"{path}/") for path in self._snapshot.unreadable
        )


def _orphans(snapshot: FolderSnapshot) -> dict[str, str]:
    """Return schedules on the server that a folder scheduler created and the index lacks, with their jobs."""
    orphans: dict[str, str] = {}
    for name, job in (snapshot.on_server or {}).items():
        ours = _SCHEDULE_NAME.fullmatch(name)
        if ours is not None and ours["job"] == job and ours["id"] not in snapshot.known:
            orphans[ours["id"]] = job
    return orphans


def _duplicates(directories: Sequence[Directory], at: Mapping[str, str]) -> dict[str, str]:
    """Return directories whose id duplicates another's. An indexed directory has precedence."""
    first: dict[str, str] = {}
    for one in sorted(directories, key=lambda one: (one.path not in at, one.path)):
        first.setdefault(one.pipeline_id, one.path)
    return {one.path: first[one.pipeline_id] for one in directories if first[one.pipeline_id] != one.path}


def _format_duplicates(duplicates: Mapping[str, str]) -> list[str]:
    return [
        f"{path} has the same id as {other} and is ignored: rename one of them" for path, other in duplicates.items()
    ]


def _has_lost_its_schedule(one: Directory) -> bool:
    return one.pipeline is not None and not one.is_scheduled and (one.claim is not None or bool(one.state_fault))


def _digest(pipeline: Pipeline, schedules: Sequence[tuple[str, bytes]]) -> str:
    """Digest of everything that is applied for a pipeline."""
    notices = msgspec.json.encode([pipeline.notices, pipeline.tenant, pipeline.id, pipeline.group])
    parts = (pipeline.job, notices, *(text for _, text in schedules))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]


def _name(spec: ScheduleSpec, pipeline: Pipeline, schedule_id: str) -> str:
    return f"{schedule_id}{spec.name.removeprefix(pipeline.id)}"
