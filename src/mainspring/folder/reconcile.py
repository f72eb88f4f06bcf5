"""Which directory is which schedule, and what the server is to be told. Pure (FLD-3).

    a directory's state file names a schedule ─┬─ that we know here               the same
                                               ├─ that we know elsewhere ─┬─ where its pipeline.yaml still is   a copy
                                               │                          └─ where there is none any more       moved
                                               └─ that we do not know             imported, or taken up again
    it names none ─┬─ but we know one here, or the server has one for its job      recreated
                   └─ otherwise                                                    new

1. No schedule belongs to two directories, and none to nobody: what nobody claims is deleted.
2. A file that can't be used changes nothing: what is known of its directory stays as it is, on the server too.
3. What the server was given last is not given again, unless the server does not have it.
4. What was below a directory that can't be looked at is not gone: it stays as it is.
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
from mainspring.folder.state.index import Known
from mainspring.folder.state.records import PIPELINE_FILE, STATE_FILE

_OURS = re.compile(r"(?P<id>(?P<job>.+)-[0-9a-f]{6})(?:-event)?")
_UNSCHEDULED = "job:"
"""Before the id of a pipeline that has no schedule: no schedule can be called so."""


class Kind(StrEnum):
    """How a directory came to its schedule."""

    SAME = "same"
    NEW = "new"
    MOVED = "moved"
    COPY = "copy"
    RECREATED = "recreated"
    """Its state file was missing, or could not be used."""
    IMPORTED = "imported"
    """Its state file is all that is known."""
    RESTORED = "restored"
    """From the archive: its schedule was taken away, and came back."""


ADDED = frozenset({Kind.NEW, Kind.COPY, Kind.IMPORTED, Kind.RESTORED})


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    """A directory with a pipeline file."""

    path: str
    pipeline_id: str
    pipeline: Pipeline | None
    """None: its file can't be used."""
    claim: str | None = None
    """The schedule that its state file names."""
    claimed_as: str = ""
    """The pipeline that its state file names."""
    state_fault: str = ""
    """Why its state file can't be used."""
    is_restored: bool = False
    """Its state file was in the archive until now."""

    @property
    def is_scheduled(self) -> bool:
        """Whether it has a schedule, as far as can be read."""
        return self.pipeline is not None and bool(self.pipeline.schedules)


class World(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known."""

    directories: Sequence[Directory]
    known: Mapping[str, Known]
    """By scheduleId, and by `unscheduled(..)` for pipelines that have none."""
    on_server: Mapping[str, str] | None = None
    """The job of each schedule that the server has, by its name; None: what we gave it is there."""
    jobs_on_server: frozenset[str] | None = None
    unseen: tuple[str, ...] = ()
    """Paths that could not be looked at."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A directory and its schedule."""

    path: str
    pipeline_id: str
    schedule_id: str
    """Or `unscheduled(..)`."""
    kind: Kind


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the server is to be told of a pipeline."""

    identity: Identity
    pipeline: Pipeline
    digest: str
    names: tuple[str, ...]
    """Of its schedules there."""
    is_missing: bool
    """The server has none of them: what was due meanwhile may have to be made up for."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What follows, in the order in which it is to be done."""

    identities: tuple[Identity, ...] = ()
    """Of every directory that can be used. What is known and neither here nor in `forgotten` stays as it is."""
    adopted: tuple[Identity, ...] = ()
    """Of directories whose file can't be used, and whose schedule only the server knows: it goes on as it is."""
    wanted: tuple[Wanted, ...] = ()
    dropped_schedules: tuple[str, ...] = ()
    dropped_jobs: dict[str, str | None] = {}
    """With their tenants, where files named them."""
    forgotten: tuple[str, ...] = ()
    """Schedules that we know no more."""
    archived: tuple[str, ...] = ()
    """Paths whose state file is put aside: the pipeline is there, its schedule is not."""
    deserted: tuple[str, ...] = ()
    """Paths whose state file goes: the pipeline is gone."""
    twins: dict[str, str] = {}
    """Paths that are not used, with the path of the one that has the same id."""
    warnings: tuple[str, ...] = ()


def unscheduled(pipeline_id: str) -> str:
    """By what a pipeline without a schedule is known."""
    return f"{_UNSCHEDULED}{pipeline_id}"


def is_schedule(key: str) -> bool:
    """Whether something that is known has a schedule."""
    return not key.startswith(_UNSCHEDULED)


def new_schedule_id(pipeline_id: str, taken: Iterable[str], random: Random) -> str:
    """An id for the schedule of a pipeline."""
    while (made := f"{pipeline_id}-{random.getrandbits(24):06x}") in taken:
        pass
    return made


def definitions(pipeline: Pipeline, schedule_id: str) -> list[tuple[str, bytes]]:
    """The schedules of a pipeline as the server is told of them: names and texts."""
    named = [replace(spec, name=_name(spec, pipeline, schedule_id)) for spec in pipeline.schedules]
    return [(spec.name, encode_schedule(_stored(spec))) for spec in named]


def reconcile(world: World, random: Random) -> Plan:
    """What follows from what is there."""
    return _Reconciler(world, random).plan()


class _Reconciler:
    """One look at the world."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self._known = world.known
        self._at = {known.path: key for key, known in world.known.items()}
        self._orphans = _orphans(world)
        self._taken = {*world.known, *self._orphans, *(one.claim for one in world.directories if one.claim)}
        self._warnings: list[str] = []
        self._kept: set[str] = set()
        self._adopted: list[Identity] = []
        self._jobs: set[str] = set()

    def plan(self) -> Plan:
        twins = _twins(self._world.directories, self._at)
        used = [one for one in self._world.directories if one.path not in twins]
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
            deserted=tuple(
                path for key in forgotten if is_schedule(key) and (path := self._known[key].path) not in by_path
            ),
            twins=twins,
            warnings=(*_say_twins(twins), *self._warnings),
        )

    def _owners(self, directories: Sequence[Directory]) -> dict[str, str]:
        """To which path each schedule belongs that some directory claims, by its file or by where it is."""
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
        """The schedule that a directory says is its own, or that we know to be."""
        if one.claim is not None:
            return one.claim
        here = self._at.get(one.path)
        if here is not None and is_schedule(here):
            return here
        return None

    def _identify(self, one: Directory, owners: Mapping[str, str]) -> Identity | None:
        """Who a directory is; None for one that can't be used: what is known of it is kept."""
        claim = self._claim(one)
        is_owner = claim is not None and owners[claim] == one.path
        if one.pipeline is None:
            self._keep_as_it_is(one, claim if is_owner else None)
            return None
        if not one.is_scheduled:
            return self._made(one, unscheduled(one.pipeline_id), Kind.SAME)
        if claim is not None and is_owner:
            return self._made(one, claim, self._kind(one, claim))
        if claim is None and (orphan := self._orphan_for(one.pipeline_id, owners)) is not None:
            return self._made(one, orphan, Kind.RECREATED)
        made = new_schedule_id(one.pipeline_id, self._taken, self._random)
        self._taken.add(made)
        if one.state_fault:
            self._warnings.append(f"{one.path}/{STATE_FILE} can't be used: {one.state_fault}. It is begun anew")
        if claim is not None:
            origin = f"{owners[claim]}/{PIPELINE_FILE}"
            self._warnings.append(f"{one.path} is a copy of {origin}: it gets a schedule of its own, {made}")
        return self._made(one, made, Kind.NEW if claim is None else Kind.COPY)

    def _kind(self, one: Directory, claim: str) -> Kind:
        if one.claim is None:
            why = f"can't be used: {one.state_fault}" if one.state_fault else "is missing"
            self._warnings.append(f"{one.path}/{STATE_FILE} {why}. It is made again from what is known")
            return Kind.RECREATED
        if claim not in self._known:
            return Kind.RESTORED if one.is_restored else Kind.IMPORTED
        return Kind.SAME if self._known[claim].path == one.path else Kind.MOVED

    def _orphan_for(self, pipeline_id: str, owners: Mapping[str, str]) -> str | None:
        """A schedule that only the server knows, and that is for this pipeline."""
        for orphan, job in self._orphans.items():
            if job == pipeline_id and orphan not in owners and orphan not in self._kept:
                return orphan
        return None

    def _made(self, one: Directory, key: str, kind: Kind) -> Identity:
        self._kept.add(key)
        self._jobs.add(one.pipeline_id)
        return Identity(path=one.path, pipeline_id=one.pipeline_id, schedule_id=key, kind=kind)

    def _keep_as_it_is(self, one: Directory, claim: str | None) -> None:
        here = self._at.get(one.path)
        for key in (claim, here if here is not None and not is_schedule(here) else None):
            if key is not None:
                self._kept.add(key)
                self._jobs.add(self._known[key].pipeline_id if key in self._known else one.pipeline_id)
        job = (self._world.on_server or {}).get(claim or "")
        if claim is not None and claim not in self._known and job is not None:
            self._jobs.add(job)
            self._adopted.append(Identity(path=one.path, pipeline_id=job, schedule_id=claim, kind=Kind.IMPORTED))

    def _wanted(self, identity: Identity, one: Directory) -> Wanted | None:
        """What the server is to be told of a directory; None if it has been."""
        assert one.pipeline is not None
        schedules = definitions(one.pipeline, identity.schedule_id) if one.is_scheduled else []
        names = tuple(name for name, _ in schedules)
        digest = _digest(one.pipeline, schedules)
        known = self._known.get(identity.schedule_id)
        if known is not None and known.digest == digest and self._is_on_server(identity, names):
            return None
        on_server = self._world.on_server
        is_missing = known is None if on_server is None else not any(name in on_server for name in names)
        return Wanted(
            identity=identity, pipeline=one.pipeline, digest=digest, names=names, is_missing=is_missing and bool(names)
        )

    def _is_on_server(self, identity: Identity, names: Sequence[str]) -> bool:
        on_server, jobs = self._world.on_server, self._world.jobs_on_server
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
        if self._world.on_server is not None:
            if not self._world.unseen:
                gone = [orphan for orphan in self._orphans if orphan not in self._kept]
                dropped += [name for one in gone for name in (one, f"{one}-event")]
            dropped = [name for name in dropped if name in self._world.on_server]
        return dropped

    def _dropped_jobs(self, identities: Sequence[Identity], forgotten: Sequence[str]) -> dict[str, str | None]:
        left: dict[str, str | None] = {}
        if not self._world.unseen:
            left |= {job: None for orphan, job in self._orphans.items() if orphan not in self._kept}
        left |= {self._known[key].pipeline_id: self._known[key].tenant for key in forgotten}
        for identity in identities:
            known = self._known.get(identity.schedule_id)
            if known is not None and known.pipeline_id != identity.pipeline_id:
                left[known.pipeline_id] = known.tenant
        hidden = {known.pipeline_id for known in self._known.values() if self._is_hidden(known)}
        return {job: tenant for job, tenant in left.items() if job not in self._jobs and job not in hidden}

    def _is_hidden(self, known: Known) -> bool:
        return any(path in (ROOT, known.path) or known.path.startswith(f"{path}/") for path in self._world.unseen)


def _orphans(world: World) -> dict[str, str]:
    """Schedules that the server has, that look as if we had made them, and that we do not know: with their jobs."""
    orphans: dict[str, str] = {}
    for name, job in (world.on_server or {}).items():
        ours = _OURS.fullmatch(name)
        if ours is not None and ours["job"] == job and ours["id"] not in world.known:
            orphans[ours["id"]] = job
    return orphans


def _twins(directories: Sequence[Directory], at: Mapping[str, str]) -> dict[str, str]:
    """Directories that have the id of another. The one that is known goes before one that is not."""
    first: dict[str, str] = {}
    for one in sorted(directories, key=lambda one: (one.path not in at, one.path)):
        first.setdefault(one.pipeline_id, one.path)
    return {one.path: first[one.pipeline_id] for one in directories if first[one.pipeline_id] != one.path}


def _say_twins(twins: Mapping[str, str]) -> list[str]:
    return [
        f"{path} has the same id as {other}, so it is not used: rename one of them" for path, other in twins.items()
    ]


def _has_lost_its_schedule(one: Directory) -> bool:
    return one.pipeline is not None and not one.is_scheduled and (one.claim is not None or bool(one.state_fault))


def _digest(pipeline: Pipeline, schedules: Sequence[tuple[str, bytes]]) -> str:
    """Of all that the server is told of a pipeline."""
    notices = msgspec.json.encode([pipeline.notices, pipeline.tenant, pipeline.id, pipeline.group])
    parts = (pipeline.job, notices, *(text for _, text in schedules))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]


def _name(spec: ScheduleSpec, pipeline: Pipeline, schedule_id: str) -> str:
    return f"{schedule_id}{spec.name.removeprefix(pipeline.id)}"


def _stored(spec: ScheduleSpec) -> str:
    return msgspec.json.encode(spec).decode()
