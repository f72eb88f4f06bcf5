"""One schedule in a settling: what is known of it, what has been decided so far, and the ruling that comes of it.

1. A fire that waits is in `waiting`, one whose run is not over in `active`, and in no other place.
2. What is not changed is not written: a window that waits as before costs no row.
3. A run is made for a fire in one place (`start`), with all that it takes over from its schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from mainspring.core.admission.job_routing import Place
from mainspring.core.admission.validate_job import Limits
from mainspring.core.expressions import engine as expressions
from mainspring.core.model import alerts
from mainspring.core.model.alerts import Alert, AlertKind, Severity
from mainspring.core.model.batch import Outgoing
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.core.model.schedule_rows import BackfillRow, Case, Docket, FireRow, Ruling, ScheduleChange, ScheduleRow
from mainspring.core.model.task import Priority
from mainspring.core.schedules import windows
from mainspring.core.schedules.schedule_spec import ScheduleSpec, compute_params
from mainspring.core.schedules.triggers import ManualTrigger, previous_window
from mainspring.core.schedules.windows import Outcome, fire_key
from mainspring.protocol.errors import Broken, ExpressionFailed

US = "mainspring"
"""Who does what nobody asked for."""
CANCEL_RUN = "run.cancel"
LOOK_FOR_FILE = "file.look"
_INSTANT = timedelta(microseconds=1)
_LARGEST_PARAMS_BYTES = Limits().max_payload_bytes
_SPECS = msgspec.json.Decoder(ScheduleSpec)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])

Key = tuple[datetime, int]
"""A window and its generation."""


class RunWish(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a schedule would make."""

    tenant: str
    pool: str
    """Where it goes if nothing speaks against it."""
    job: JobRow
    priority: Priority
    at: datetime


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a settling needs from whoever has it made. It may be made twice: then the ids of the first time are lost."""

    new_run_id: Callable[[datetime], str]
    count_tasks: Callable[[JobRow], int]
    admit: Callable[[RunWish], Place] = lambda wish: Place(pool=wish.pool)
    """Where a run goes, or why it may not be made."""
    default_jitter_seconds: int = 0
    """Of schedules that don't say (TRG-6)."""


class CancelWish(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of CANCEL_RUN: a run has to make room."""

    run: str
    tenant: str
    shard: str
    why: str


class FileWish(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of LOOK_FOR_FILE: a window depends on a file, and a worker has to look."""

    schedule: str
    window_at: datetime
    generation: int
    asked_at: datetime
    pool: str
    path: str


def settle_each(
    docket: Docket, context: Context, step: Callable[[Hearing], None], *, unreadable: bool = False
) -> list[Ruling]:
    """Take a step with each schedule of a docket; what follows for each. Raises Broken if one can't be read.

    With `unreadable`, one whose definition can't be read stands as one without windows: it can still be replaced.
    """
    rulings = []
    for case in docket.cases:
        try:
            spec = decode_spec(case.schedule)
        except Broken:
            if not unreadable:
                raise
            spec = ScheduleSpec(name=case.schedule.name, job=case.schedule.job, trigger=ManualTrigger())
        hearing = Hearing(case, spec, docket.now, context)
        step(hearing)
        rulings.append(hearing.ruling())
    return rulings


class Hearing:
    """A schedule that is being settled."""

    def __init__(self, case: Case, spec: ScheduleSpec, now: datetime, context: Context) -> None:
        self.case = case
        self.now = now
        self.context = context
        self.row = case.schedule
        self.spec = spec
        self.waiting = list(case.waiting)
        self.active = list(case.active)
        self.backfills = {one.id: one for one in case.backfills}
        self._before = {key_of(fire): fire for fire in (*case.waiting, *case.active)}
        self._fires: dict[Key, FireRow] = {}
        self._runs: list[Run] = []
        self._new_backfills: list[BackfillRow] = []
        self._changes: list[ScheduleChange] = []
        self._outgoing: list[Outgoing] = []

    def is_going(self) -> bool:
        """Whether windows are planned."""
        return self.row.enabled and not self.row.paused

    def is_new(self, fire: FireRow) -> bool:
        """Whether a fire is of this settling."""
        return key_of(fire) not in self._before

    def update(self, row: ScheduleRow) -> None:
        """The schedule is like this from now on."""
        if row.spec != self.row.spec:
            self.spec = decode_spec(row)
        self.row = row

    def act(self, act: str, *, by: str, why: str = "", before: str | None = None, after: str | None = None) -> None:
        """Somebody did something to the schedule: put it on record."""
        self.row = replace(self.row, updated_at=self.now, updated_by=by)
        self._changes.append(
            ScheduleChange(
                schedule_id=self.row.id,
                at=self.now,
                act=act,
                by=by,
                why=why,
                version=self.row.version,
                before=before,
                after=after,
            )
        )

    # fires

    def new_fire(self, window_at: datetime, because: str) -> FireRow:
        """A fire for one window, not yet decided and not yet part of the ruling."""
        return FireRow(
            schedule_id=self.row.id, window_at=window_at, last_window_at=window_at, outcome=Outcome.WAITING,
            because=because, decided_at=self.now,
        )  # fmt: skip

    def free_instant(self, at: datetime) -> datetime:
        """An instant from `at` on that is no window of the trigger and of no fire, for what was not planned.

        Instants of fires that are over are not known here; the latest of them are those of the schedule's row.
        """
        taken = {window for window, _ in (*self._before, *self._fires)}
        taken |= {self.row.updated_at, self.row.through_at}
        if self.row.latest_event_at is not None:
            taken.add(self.row.latest_event_at)
        while at in taken or previous_window(self.spec.trigger, at) == at:
            at += _INSTANT
        return at

    def wait(self, fire: FireRow, because: str, *, asked_at: datetime | None = None) -> None:
        """The window has no run yet."""
        self.waiting.append(self._write(fire, outcome=Outcome.WAITING, because=because, asked_at=asked_at))

    def leave_out(self, fire: FireRow, outcome: Outcome, because: str) -> None:
        """Nothing comes of the window."""
        self._write(fire, outcome=outcome, because=because, asked_at=None)

    def start(self, fire: FireRow, because: str) -> FireRow:
        """Make the run of a window."""
        job = self.case.job
        if job is None:
            raise Broken(f"there is no job {self.row.job} for a run of {self.row.id}")
        start_at = self.now
        if is_planned(fire):
            jitter = self.context.default_jitter_seconds
            start_at = windows.start_of(self.row.id, self.spec, fire.window_at, self.now, default_jitter_seconds=jitter)
        run = Run(
            id=self.context.new_run_id(self.now), shard=self.place().pool, tenant=self.row.tenant, job_id=job.id,
            priority=self.spec.priority, params=self.params_of(fire), task_count=self.context.count_tasks(job),
            submitted_by=fire.by or f"schedule:{self.row.name}", linked_run=fire.repeats, watched=True,
            created_at=self.now, start_at=start_at, schedule_id=self.row.id, window_at=fire.window_at,
        )  # fmt: skip
        self._runs.append(run)
        started = self._write(
            fire, outcome=Outcome.RAN, because=because, asked_at=None, start_at=start_at, run_id=run.id
        )
        self.active.append(started)
        return started

    def ask_to_stop(self, fire: FireRow, why: str) -> None:
        """An active window's run has to make room."""
        self.active[self.active.index(fire)] = self._write(fire, stopping=True)
        wish = CancelWish(run=fire.run_id or "", tenant=self.row.tenant, shard=self.row.pool, why=why)
        self.send(f"{fire.run_id}:cancel", CANCEL_RUN, wish)

    def ask_for_file(self, fire: FireRow, path: str, because: str) -> None:
        """The window waits until a worker has said whether a file is there."""
        self.wait(fire, because, asked_at=self.now)
        name = f"{fire_key(self.row.id, fire.window_at, fire.generation)}:file:{self.now.isoformat()}"
        wish = FileWish(
            schedule=self.row.id, window_at=fire.window_at, generation=fire.generation, asked_at=self.now,
            pool=self.place().pool, path=path,
        )  # fmt: skip
        self.send(name, LOOK_FOR_FILE, wish)

    def decided(self) -> list[FireRow]:
        """The fires that this settling has written so far."""
        return list(self._fires.values())

    def note(self, fire: FireRow) -> None:
        """A fire that was decided before is like this from now on."""
        self._fires[key_of(fire)] = fire

    def params_of(self, fire: FireRow) -> str:
        """The parameters of a window's run: the schedule's, over them what is computed, the person's, and the event.

        Raises ExpressionFailed if they can't be computed, or get too large by it.
        """
        own = bytes(self.spec.params)
        if fire.params is None and fire.event is None and not fire.flagged and not self.spec.computed:
            return own.decode()
        params = _FIELDS.decode(own)
        given = {} if fire.params is None else _FIELDS.decode(fire.params)
        for name, text in compute_params(self.spec, fire.window_at, given).items():
            params[name] = msgspec.Raw(msgspec.json.encode(text))
        params |= given
        if fire.event is not None or fire.flagged:
            params["event"] = msgspec.Raw((fire.event or "null").encode())
        whole = msgspec.json.encode(params)
        if self.spec.computed and len(whole) > _LARGEST_PARAMS_BYTES:
            raise ExpressionFailed(f"they get larger than {_LARGEST_PARAMS_BYTES} bytes")
        return whole.decode()

    def place(self) -> Place:
        """Where a run of the schedule goes, or why there must be none now."""
        job = self.case.job
        if job is None:
            return Place(pool=self.row.pool)
        return self.context.admit(
            RunWish(tenant=self.row.tenant, pool=self.row.pool, job=job, priority=self.spec.priority, at=self.now)
        )

    def params_fault(self, fire: FireRow) -> str | None:
        """Why a window's run can't have its parameters; nothing if it can."""
        if not self.spec.computed:
            return None
        try:
            self.params_of(fire)
        except ExpressionFailed as failed:
            return f"its parameters can't be computed: {failed}"
        return None

    # what else follows

    def add_backfill(self, row: BackfillRow) -> None:
        """Somebody wants past windows."""
        self.backfills[row.id] = row
        self._new_backfills.append(row)

    def send(self, id: str, kind: str, payload: msgspec.Struct) -> None:
        """Something must reach somebody. Nothing else waits for it."""
        text = msgspec.json.encode(payload).decode()
        self._outgoing.append(Outgoing(id=id, key=id, kind=kind, payload=text, created_at=self.now))

    def alert(
        self, kind: AlertKind, severity: Severity, summary: str, occasion: str, *, resolved: bool = False
    ) -> None:
        """Somebody should know, or hear that it is over. `occasion` names what it comes of."""
        alert = _alert(self.row, kind, severity, summary, self.now, resolved=resolved)
        self._outgoing.append(alerts.alert_row(alert, f"{self.row.id}:{kind}:{occasion}"))

    def ruling(self) -> Ruling:
        """All that follows."""
        return Ruling(
            schedule=replace(self.row, has_waiting=bool(self.waiting)),
            fires=tuple(self._fires.values()),
            runs=tuple(self._runs),
            backfills=tuple(self._new_backfills),
            changes=tuple(self._changes),
            outgoing=tuple(self._outgoing),
        )

    def _write(self, fire: FireRow, **values: object) -> FireRow:
        decided = replace(fire, **values)
        if decided != self._before.get(key_of(fire)):
            decided = replace(decided, decided_at=self.now)
            self._fires[key_of(fire)] = decided
        return decided


def decode_spec(row: ScheduleRow) -> ScheduleSpec:
    """The definition of a schedule. Raises Broken if it can't be read."""
    try:
        return _SPECS.decode(row.spec)
    except msgspec.MsgspecError as error:
        raise Broken(f"the definition of {row.id} can't be read: {error}") from error


def key_of(fire: FireRow) -> Key:
    """The key of a fire in its schedule."""
    return fire.window_at, fire.generation


def is_planned(fire: FireRow) -> bool:
    """Whether a fire comes from the trigger's own windows, and not from a person or an event."""
    return not fire.by and fire.event is None


def set_aside(docket: Docket, fault: str) -> list[Ruling]:
    """Pause schedules that can't be settled. Nothing of them is read: a definition may be what is wrong."""
    rulings = []
    for case in docket.cases:
        because = f"set aside: {expressions.shorten(fault)}"
        row = replace(
            case.schedule, paused=True, next_at=None, has_waiting=False, because=because, updated_at=docket.now,
            updated_by=US,
        )  # fmt: skip
        noted = ScheduleChange(schedule_id=row.id, at=docket.now, act="paused", by=US, why=because, version=row.version)
        summary = f"{row.name} can't be settled and was paused: {expressions.shorten(fault)}"
        alert = _alert(row, AlertKind.EVENT_REJECTED, Severity.HIGH, summary, docket.now)
        sent = alerts.alert_row(alert, f"{row.id}:{alert.kind}:{docket.now.isoformat()}")
        rulings.append(Ruling(schedule=row, changes=(noted,), outgoing=(sent,)))
    return rulings


def _alert(
    row: ScheduleRow, kind: AlertKind, severity: Severity, summary: str, now: datetime, *, resolved: bool = False
) -> Alert:
    return Alert(
        kind=kind, key=f"{kind}:{row.id}", severity=severity, tenant=row.tenant, summary=summary,
        details={"schedule": row.id, "name": row.name, "job": row.job}, resolved=resolved, at=now,
    )  # fmt: skip
