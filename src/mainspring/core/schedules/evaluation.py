"""One schedule under evaluation: its state, the decisions so far, and the rows that result.

1. A waiting fire is in `waiting`, one with an unfinished run in `active`, and nowhere else.
2. Unchanged rows are not written: a window that waits as before costs nothing.
3. Runs are created in one place (`start`), with everything they inherit from their schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec
from msgspec.structs import replace

from mainspring.core.admission.job_routing import Route
from mainspring.core.admission.validate_job import Limits
from mainspring.core.expressions import engine as expressions
from mainspring.core.model import alerts
from mainspring.core.model.alerts import Alert, AlertKind, Severity
from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.core.model.schedule_rows import (
    BackfillRow,
    EvaluationBatch,
    FireRow,
    ScheduleChange,
    ScheduleDecision,
    ScheduleRow,
    ScheduleSnapshot,
)
from mainspring.core.model.task import Priority
from mainspring.core.schedules.schedule_spec import ScheduleSpec, compute_params
from mainspring.core.schedules.time_zones import INSTANT
from mainspring.core.schedules.triggers import ManualTrigger, previous_window
from mainspring.core.schedules.windows import Outcome, fire_key, start_of
from mainspring.protocol.errors import Broken, ExpressionFailed

US = "mainspring"
"""Actor of automatic changes."""
CANCEL_RUN = "run.cancel"
PROBE_FILE = "file.probe"
_MAX_PARAMS_BYTES = Limits().max_payload_bytes
_SPECS = msgspec.json.Decoder(ScheduleSpec)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])

Key = tuple[datetime, int]
"""A window and its generation."""


class ScheduledRunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a schedule is about to create."""

    tenant: str
    pool: str
    """Where it goes unless a policy forbids it."""
    job: JobRow
    priority: Priority
    at: datetime


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies of an evaluation. It may be retried: then the ids of the first attempt are lost."""

    new_run_id: Callable[[datetime], str]
    count_tasks: Callable[[JobRow], int]
    admit: Callable[[ScheduledRunRequest], Route] = lambda request: Route(pool=request.pool)
    """Return the pool of a run, or why it is refused."""
    default_jitter_seconds: int = 0
    """For schedules that don't set it (TRG-6)."""


class CancelRunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Payload of CANCEL_RUN: cancel a run for a newer window."""

    run: str
    tenant: str
    shard: str
    why: str


class FileProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Payload of PROBE_FILE: a worker has to check whether a file exists."""

    schedule: str
    window_at: datetime
    generation: int
    asked_at: datetime
    pool: str
    path: str


def evaluate_each(
    evaluation_batch: EvaluationBatch, context: Context, step: Callable[[Evaluation], None], *, unreadable: bool = False
) -> list[ScheduleDecision]:
    """Apply a step to each schedule of a batch and return the decisions. Raises Broken if a definition can't be read.

    With `unreadable`, a schedule whose definition can't be read counts as one without windows: it can be replaced.
    """
    decisions = []
    for case in evaluation_batch.cases:
        try:
            spec = decode_spec(case.schedule)
        except Broken:
            if not unreadable:
                raise
            spec = ScheduleSpec(name=case.schedule.name, job=case.schedule.job, trigger=ManualTrigger())
        evaluation = Evaluation(case, spec, evaluation_batch.now, context)
        step(evaluation)
        decisions.append(evaluation.decision())
    return decisions


class Evaluation:
    """A schedule under evaluation."""

    def __init__(self, case: ScheduleSnapshot, spec: ScheduleSpec, now: datetime, context: Context) -> None:
        self.case = case
        self.now = now
        self.context = context
        self.row = case.schedule
        self.spec = self._with_jitter(spec)
        self.waiting = list(case.waiting)
        self.active = list(case.active)
        self.backfills = {one.id: one for one in case.backfills}
        self._before = {key_of(fire): fire for fire in (*case.waiting, *case.active)}
        self._fires: dict[Key, FireRow] = {}
        self._runs: list[Run] = []
        self._new_backfills: list[BackfillRow] = []
        self._changes: list[ScheduleChange] = []
        self._outgoing: list[OutboxRow] = []

    def plans_windows(self) -> bool:
        """Return whether windows are planned."""
        return self.row.enabled and not self.row.paused

    def is_new(self, fire: FireRow) -> bool:
        """Return whether a fire was created by this evaluation."""
        return key_of(fire) not in self._before

    def update(self, row: ScheduleRow) -> None:
        """Replace the schedule's row."""
        if row.spec != self.row.spec:
            self.spec = self._with_jitter(decode_spec(row))
        self.row = row

    def action(
        self, action: str, *, by: str, why: str = "", before: str | None = None, after: str | None = None
    ) -> None:
        """Record a change of the schedule."""
        self.row = replace(self.row, updated_at=self.now, updated_by=by)
        self._changes.append(
            ScheduleChange(
                schedule_id=self.row.id,
                at=self.now,
                action=action,
                by=by,
                why=why,
                version=self.row.version,
                before=before,
                after=after,
            )
        )

    # fires

    def new_fire(self, window_at: datetime, because: str) -> FireRow:
        """Create a fire for one window, undecided and not yet part of the decision."""
        return FireRow(
            schedule_id=self.row.id, window_at=window_at, last_window_at=window_at, outcome=Outcome.WAITING,
            because=because, decided_at=self.now,
        )  # fmt: skip

    def free_instant(self, at: datetime) -> datetime:
        """Return the first instant from `at` on that is neither a window of the trigger nor used by a fire.

        Instants of finished fires are not known here; the latest of them are in the schedule's row.
        """
        taken = {window for window, _ in (*self._before, *self._fires)}
        taken |= {self.row.updated_at, self.row.planned_through}
        if self.row.latest_event_at is not None:
            taken.add(self.row.latest_event_at)
        while at in taken or previous_window(self.spec.trigger, at) == at:
            at += INSTANT
        return at

    def wait(self, fire: FireRow, because: str, *, asked_at: datetime | None = None) -> None:
        """Keep the window waiting."""
        self.waiting.append(self._write(fire, outcome=Outcome.WAITING, because=because, asked_at=asked_at))

    def record_skipped(self, fire: FireRow, outcome: Outcome, because: str) -> None:
        """Record that the window does not run."""
        self._write(fire, outcome=outcome, because=because, asked_at=None)

    def start(self, fire: FireRow, because: str) -> FireRow:
        """Create the run of a window."""
        job = self.case.job
        if job is None:
            raise Broken(f"job {self.row.job} of schedule {self.row.id} does not exist")
        is_planned = not fire.by and fire.event is None
        start_at = start_of(self.row.id, self.spec, fire.window_at, self.now) if is_planned else self.now
        run = Run(
            id=self.context.new_run_id(self.now), shard=self.route().pool, tenant=self.row.tenant, job_id=job.id,
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

    def request_stop(self, fire: FireRow, why: str) -> None:
        """Request the cancellation of an active window's run."""
        self.active[self.active.index(fire)] = self._write(fire, stopping=True)
        request = CancelRunRequest(run=fire.run_id or "", tenant=self.row.tenant, shard=self.row.pool, why=why)
        self.send(f"{fire.run_id}:cancel", CANCEL_RUN, request)

    def request_file_probe(self, fire: FireRow, path: str, because: str) -> None:
        """Have a worker check for a file; the window waits for the answer."""
        self.wait(fire, because, asked_at=self.now)
        name = f"{fire_key(self.row.id, fire.window_at, fire.generation)}:file:{self.now.isoformat()}"
        request = FileProbeRequest(
            schedule=self.row.id, window_at=fire.window_at, generation=fire.generation, asked_at=self.now,
            pool=self.route().pool, path=path,
        )  # fmt: skip
        self.send(name, PROBE_FILE, request)

    def decided(self) -> list[FireRow]:
        """The fires that this evaluation has written so far."""
        return list(self._fires.values())

    def note(self, fire: FireRow) -> None:
        """Replace a fire that was decided earlier."""
        self._fires[key_of(fire)] = fire

    def params_of(self, fire: FireRow) -> str:
        """The parameters of a window's run: the schedule's, then computed ones, then the user's, then the event.

        Raises ExpressionFailed if they can't be computed, or get too large.
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
        if self.spec.computed and len(whole) > _MAX_PARAMS_BYTES:
            raise ExpressionFailed(f"larger than {_MAX_PARAMS_BYTES} bytes")
        return whole.decode()

    def route(self) -> Route:
        """Return the pool of the schedule's runs, or why they are refused now."""
        job = self.case.job
        if job is None:
            return Route(pool=self.row.pool)
        request = ScheduledRunRequest(
            tenant=self.row.tenant, pool=self.row.pool, job=job, priority=self.spec.priority, at=self.now
        )
        return self.context.admit(request)

    def params_fault(self, fire: FireRow) -> str | None:
        """Return why a window's parameters can't be computed; None if they can."""
        if not self.spec.computed:
            return None
        try:
            self.params_of(fire)
        except ExpressionFailed as failed:
            return f"computed parameters failed: {failed}"
        return None

    # other results

    def add_backfill(self, row: BackfillRow) -> None:
        """Add a backfill."""
        self.backfills[row.id] = row
        self._new_backfills.append(row)

    def send(self, id: str, kind: str, payload: msgspec.Struct) -> None:
        """Add a message to the outbox. Nothing waits for its delivery."""
        text = msgspec.json.encode(payload).decode()
        self._outgoing.append(OutboxRow(id=id, key=id, kind=kind, payload=text, created_at=self.now))

    def alert(
        self, kind: AlertKind, severity: Severity, summary: str, occasion: str, *, resolved: bool = False
    ) -> None:
        """Raise or resolve an alert. `occasion` makes it unique."""
        alert = _alert(self.row, kind, severity, summary, self.now, resolved=resolved)
        self._outgoing.append(alerts.alert_row(alert, f"{self.row.id}:{kind}:{occasion}"))

    def decision(self) -> ScheduleDecision:
        """Return the decision: all rows to write."""
        return ScheduleDecision(
            schedule=replace(self.row, has_waiting_windows=bool(self.waiting)),
            fires=tuple(self._fires.values()),
            runs=tuple(self._runs),
            backfills=tuple(self._new_backfills),
            changes=tuple(self._changes),
            outgoing=tuple(self._outgoing),
        )

    def _with_jitter(self, spec: ScheduleSpec) -> ScheduleSpec:
        """Return the definition with the server's jitter if it has none of its own."""
        default = self.context.default_jitter_seconds
        return replace(spec, jitter_seconds=default) if spec.jitter_seconds is None and default else spec

    def _write(self, fire: FireRow, **values: object) -> FireRow:
        decided = replace(fire, **values)
        if decided != self._before.get(key_of(fire)):
            decided = replace(decided, decided_at=self.now)
            self._fires[key_of(fire)] = decided
        return decided


def decode_spec(row: ScheduleRow) -> ScheduleSpec:
    """Decode the definition of a schedule. Raises Broken if it can't be read."""
    try:
        return _SPECS.decode(row.spec)
    except msgspec.MsgspecError as error:
        raise Broken(f"invalid definition of {row.id}: {error}") from error


def key_of(fire: FireRow) -> Key:
    """The key of a fire within its schedule."""
    return fire.window_at, fire.generation


def pause_broken(evaluation_batch: EvaluationBatch, fault: str) -> list[ScheduleDecision]:
    """Pause schedules that can't be evaluated. Their definitions are not read: they may be the fault."""
    decisions = []
    for case in evaluation_batch.cases:
        because = f"evaluation failed: {expressions.shorten(fault)}"
        row = replace(
            case.schedule, paused=True, next_at=None, has_waiting_windows=False, because=because,
            updated_at=evaluation_batch.now,
            updated_by=US,
        )  # fmt: skip
        noted = ScheduleChange(
            schedule_id=row.id, at=evaluation_batch.now, action="paused", by=US, why=because, version=row.version
        )
        summary = f"{row.name} was paused because its evaluation failed: {expressions.shorten(fault)}"
        alert = _alert(row, AlertKind.EVENT_REJECTED, Severity.HIGH, summary, evaluation_batch.now)
        sent = alerts.alert_row(alert, f"{row.id}:{alert.kind}:{evaluation_batch.now.isoformat()}")
        decisions.append(ScheduleDecision(schedule=row, changes=(noted,), outgoing=(sent,)))
    return decisions


def _alert(
    row: ScheduleRow, kind: AlertKind, severity: Severity, summary: str, now: datetime, *, resolved: bool = False
) -> Alert:
    return Alert(
        kind=kind, key=f"{kind}:{row.id}", severity=severity, tenant=row.tenant, summary=summary,
        details={"schedule": row.id, "name": row.name, "job": row.job}, resolved=resolved, at=now,
    )  # fmt: skip
