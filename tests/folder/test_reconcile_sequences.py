"""After any sequence of changes of a folder, each schedule on the server belongs to one directory.

Folder, index and server are minimal fakes; the decisions are those of `reconcile`.
"""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from hypothesis.strategies import booleans, integers, sampled_from
from msgspec.structs import replace

from mainspring.folder.reconcile import Directory, FolderSnapshot, Kind, Plan, is_schedule, reconcile
from mainspring.folder.state.index import IndexEntry
from mainspring.folder.state.records import ScheduleStats
from tests.folder.snapshots import pipeline

PATHS = ("a", "b", "c", "d")
paths = sampled_from(PATHS)
KEEPS_ITS_PAST = frozenset({Kind.SAME, Kind.MOVED, Kind.IMPORTED, Kind.RESTORED})


class Played:
    """A directory."""

    def __init__(self, says: int) -> None:
        self.says = says
        self.is_broken = False
        self.is_scheduled = True
        self.has_event = False
        self.state: tuple[str, str, int] | None = None
        """scheduleId, pipelineId and total, from its state file."""
        self.archive: tuple[str, str, int] | None = None
        self.is_corrupt = False

    def copy(self) -> Played:
        """The archived state file."""
        other = Played(self.says)
        other.__dict__.update(self.__dict__)
        return other


class Folder(RuleBasedStateMachine):
    """Users change the folder; the scheduler syncs now and then."""

    @initialize(seed=integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.random = Random(seed)
        self.directories: dict[str, Played] = {}
        self.known: dict[str, IndexEntry] = {}
        self.server: dict[str, str] = {}
        self.jobs: set[str] = set()
        self.totals: dict[str, int] = {}
        self.says = 0

    # user actions

    @rule(path=paths)
    def create(self, path: str) -> None:
        self.directories.setdefault(path, Played(self._next()))

    @rule(path=paths)
    def edit(self, path: str) -> None:
        if path in self.directories:
            self.directories[path].says = self._next()

    @rule(path=paths, broken=booleans())
    def break_or_fix(self, path: str, broken: bool) -> None:
        if path in self.directories:
            self.directories[path].is_broken = broken

    @rule(path=paths, scheduled=booleans(), event=booleans())
    def schedule(self, path: str, scheduled: bool, event: bool) -> None:
        if path in self.directories:
            self.directories[path].is_scheduled = scheduled
            self.directories[path].has_event = scheduled and event

    @rule(old=paths, new=paths)
    def move(self, old: str, new: str) -> None:
        if old in self.directories and new not in self.directories:
            self.directories[new] = self.directories.pop(old)

    @rule(old=paths, new=paths)
    def copy(self, old: str, new: str) -> None:
        if old in self.directories and new not in self.directories:
            self.directories[new] = self.directories[old].copy()

    @rule(path=paths)
    def delete(self, path: str) -> None:
        self.directories.pop(path, None)

    @rule(path=paths, corrupt=booleans())
    def spoil_state_file(self, path: str, corrupt: bool) -> None:
        if path in self.directories:
            self.directories[path].state = None
            self.directories[path].is_corrupt = corrupt

    @rule()
    def run_everything(self) -> None:
        for key in [key for key in self.known if is_schedule(key)]:
            self.totals[key] = self.totals.get(key, 0) + 1
            self.known[key] = replace(self.known[key], stats=ScheduleStats(total_runs=self.totals[key]))
            for one in self.directories.values():
                is_its = self.directories.get(self.known[key].path) is one
                if is_its and one.state is not None and one.state[0] == key:
                    one.state = (key, one.state[1], self.totals[key])

    # scheduler actions

    @rule()
    def look(self) -> None:
        self._look(restarts=False)

    @rule()
    def restart(self) -> None:
        self._look(restarts=True)

    @precondition(lambda self: self.directories)
    @rule()
    def restart_without_index(self) -> None:
        self._look(restarts=False)
        self.known = {}
        self._look(restarts=True)

    def _look(self, *, restarts: bool) -> None:
        before = dict(self.known)
        plan = self._reconcile(restarts)
        self._execute(plan, before)
        self._check()
        again = self._reconcile(restarts)
        assert again == Plan(identities=again.identities), again

    def _reconcile(self, restarts: bool) -> Plan:
        world = FolderSnapshot(
            directories=[self._directory(path) for path in sorted(self.directories)],
            known=self.known,
            on_server=self.server if restarts else None,
            jobs_on_server=frozenset(self.jobs) if restarts else None,
        )
        return reconcile(world, self.random)

    def _directory(self, path: str) -> Directory:
        one = self.directories[path]
        read = None
        if not one.is_broken:
            read = pipeline(path, says=str(one.says), scheduled=one.is_scheduled, event=one.has_event)
        is_known = any(known.path == path for known in self.known.values() if is_schedule(known.schedule_id))
        restored = False
        if one.state is None and not one.is_corrupt and read is not None and read.schedules and not is_known:
            one.state, one.archive, restored = one.archive, None, one.archive is not None
        return Directory(
            path=path,
            pipeline_id=path,
            pipeline=read,
            claim=None if one.state is None else one.state[0],
            claimed_as="" if one.state is None else one.state[1],
            state_fault="is no JSON" if one.is_corrupt else "",
            is_restored=restored,
        )

    def _execute(self, plan: Plan, before: dict[str, IndexEntry]) -> None:
        for wanted in plan.wanted:
            identity = wanted.identity
            known = before.get(identity.schedule_id)
            missing = any(name not in self.server for name in wanted.names) or identity.pipeline_id not in self.jobs
            assert known is None or known.digest != wanted.digest or missing, "it was applied twice"
            self.server |= dict.fromkeys(wanted.names, identity.pipeline_id)
            self.jobs.add(identity.pipeline_id)
            self.known[identity.schedule_id] = IndexEntry(
                schedule_id=identity.schedule_id, pipeline_id=identity.pipeline_id, path=identity.path,
                digest=wanted.digest, names=wanted.names, stats=self._past(identity.schedule_id, identity.path, known),
            )  # fmt: skip
        for identity in plan.adopted:
            names = [name for name in (identity.schedule_id, f"{identity.schedule_id}-event") if name in self.server]
            self.known[identity.schedule_id] = IndexEntry(
                schedule_id=identity.schedule_id, pipeline_id=identity.pipeline_id, path=identity.path,
                names=tuple(names), stats=self._past(identity.schedule_id, identity.path, None),
            )  # fmt: skip
        for key in plan.forgotten:
            del self.known[key]
            self.totals.pop(key, None)
        for name in plan.dropped_schedules:
            del self.server[name]
        for job in plan.dropped_jobs:
            assert job not in self.server.values(), "a schedule needs it"
            self.jobs.discard(job)
        for path in plan.archived:
            one = self.directories[path]
            one.state, one.archive, one.is_corrupt = None, one.state, False
        for path in plan.deleted:
            if path in self.directories:
                self.directories[path].state = None
        self._write_states(plan)

    def _past(self, key: str, path: str, known: IndexEntry | None) -> ScheduleStats:
        state = self.directories[path].state
        if known is not None:
            return known.stats
        return ScheduleStats(total_runs=state[2] if state is not None and state[0] == key else 0)

    def _write_states(self, plan: Plan) -> None:
        for identity in plan.identities:
            if not is_schedule(identity.schedule_id):
                continue
            total = self.known[identity.schedule_id].stats.total_runs
            if identity.kind in KEEPS_ITS_PAST:
                assert total >= self.totals.get(identity.schedule_id, 0), "the total shrank"
            self.totals[identity.schedule_id] = total
            one = self.directories[identity.path]
            one.state, one.is_corrupt = (identity.schedule_id, identity.pipeline_id, total), False

    def _check(self) -> None:
        owners: dict[str, list[str]] = {}
        for path, one in self.directories.items():
            if one.state is not None and not one.is_broken:
                owners.setdefault(one.state[0], []).append(path)
        assert all(len(claiming) == 1 for claiming in owners.values()), "a schedule twice"
        kept = {name for known in self.known.values() for name in known.names}
        owned = {one.state[0] for one in self.directories.values() if one.state is not None}
        for name, job in self.server.items():
            base = name.removesuffix("-event")
            assert base in owned or name in kept, f"{name} has no owner"
            if base in owners:
                assert [job] == owners[base], f"{name} runs the job of another directory"
        for path, one in self.directories.items():
            if not one.is_broken and one.is_scheduled:
                assert one.state is not None
                assert one.state[0] in self.server
                assert self.server[one.state[0]] == path

    def _next(self) -> int:
        self.says += 1
        return self.says


TestFolder = Folder.TestCase
TestFolder.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
