"""A schedule and its fires as a store would keep them, with the rules of evaluation applied to it.

desk = FakeServer(a_spec(CronTrigger(cron="0 * * * *")))
desk.due(NOON)                      windows are due
desk.end(RunState.FAILED, NOON)     the oldest active run has ended
desk.outcomes()                     the outcome of each window

Each decision is checked as it is written: no window gets two runs of one generation, `planned_through` never goes
back, and no row that was decided is replaced by another decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import count

import msgspec
from msgspec.structs import replace

from mainspring.core.model.alerts import OUTBOX_KIND, Alert, AlertKind
from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run, RunState
from mainspring.core.model.schedule_rows import (
    BackfillRow,
    EvaluationBatch,
    EventRow,
    FireRow,
    ScheduleChange,
    ScheduleDecision,
    ScheduleRow,
    ScheduleSnapshot,
    UpstreamSchedule,
)
from mainspring.core.schedules import evaluate, schedule_actions
from mainspring.core.schedules.backfill import BackfillCommand
from mainspring.core.schedules.evaluation import PROBE_FILE, Context, FileProbeRequest, evaluate_each
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import CronTrigger, Trigger
from mainspring.core.schedules.windows import Outcome
from tests.core.builders import NOON

JOB = JobRow(id="job_1", tenant="acme", name="etl", version=1, definition='{"name":"etl","tasks":[{"name":"a"}]}')
HOURLY = CronTrigger(cron="0 * * * *")
_numbers = count(1)
CONTEXT = Context(new_run_id=lambda now: f"run_{next(_numbers)}", count_tasks=lambda job: 1)


def a_spec(trigger: Trigger = HOURLY, **fields: object) -> ScheduleSpec:
    """A definition, complete but for what the test is about."""
    return msgspec.structs.replace(ScheduleSpec(name="hourly", job="etl", trigger=trigger), **fields)


def an_event(number: int, at: datetime, *, type: str = "orders.ready", data: object = None) -> EventRow:
    """An event that came in."""
    document = msgspec.json.encode({"id": f"e{number}", "source": "/shop", "type": type, "data": data}).decode()
    return EventRow(tenant="acme", source="/shop", id=f"e{number}", type=type, at=at, received_at=at, document=document)


def act(
    action: Callable[..., None], *args: object, **fields: object
) -> Callable[[EvaluationBatch, Context], Sequence[ScheduleDecision]]:
    """The rule that applies an action of a user."""
    unreadable = action in (schedule_actions.change, schedule_actions.delete)
    return partial(evaluate_each, step=lambda one: action(one, *args, **fields), unreadable=unreadable)


class FakeServer:
    """One schedule, and all rows written for it."""

    def __init__(
        self, spec: ScheduleSpec, created_at: datetime = NOON, *, name: str = "sched_1", since: datetime | None = None
    ) -> None:
        row, change = schedule_actions.new_schedule(
            name, "acme", spec, pool="default", by="ann", now=created_at, since=since
        )
        self.row: ScheduleRow = row
        self.job: JobRow | None = JOB
        self.fires: dict[tuple[datetime, int], FireRow] = {}
        self.runs: list[Run] = []
        self.changes: list[ScheduleChange] = [change]
        self.sent: list[OutboxRow] = []
        self.backfills: dict[str, BackfillRow] = {}
        self.other: FakeServer | None = None
        self.context = CONTEXT

    # events

    def due(self, now: datetime) -> ScheduleDecision:
        """Windows may be due."""
        return self.settle(now, evaluate.evaluate_due)

    def sweep(self, now: datetime) -> ScheduleDecision:
        """Decide waiting windows again."""
        return self.settle(now, evaluate.evaluate_waiting)

    def end(self, state: RunState, now: datetime, *, run_id: str | None = None) -> ScheduleDecision:
        """End a run: the oldest active one by default."""
        fire = next(one for one in self.sorted_fires() if (one.run_id == run_id if run_id else self._is_active(one)))
        ended = evaluate.Ended(fire=fire, state=state, at=now)
        return self.settle(
            now,
            lambda evaluation_batch, context: evaluate.record_run_ends(
                evaluation_batch, context, {self.row.id: [ended]}
            ),
        )

    def receive(self, now: datetime, *events: EventRow) -> ScheduleDecision:
        """Receive events."""
        return self.settle(now, evaluate.receive_events, events)

    def answer(self, now: datetime, *, exists: bool) -> ScheduleDecision:
        """Answer the latest file probe."""
        command = msgspec.json.decode(self.questions()[-1].payload, type=FileProbeRequest)
        answer = evaluate.FileProbeResult(
            key=(command.window_at, command.generation), asked_at=command.asked_at, exists=exists
        )
        return self.settle(
            now, lambda evaluation_batch, context: evaluate.record_file_probe(evaluation_batch, context, answer)
        )

    def backfill(self, now: datetime, command: BackfillCommand) -> ScheduleDecision:
        """Request past windows."""
        past = [fire for fire in self.fires.values() if command.since <= fire.window_at < command.before]
        name, read = f"backfill_{len(self.backfills) + 1}", schedule_actions.version_of(self.row)
        return self.settle(
            now,
            lambda evaluation_batch, context: schedule_actions.backfill(
                evaluation_batch, context, command, past, id=name, read=read
            )[0],
        )

    def trigger(self, now: datetime, command: schedule_actions.TriggerCommand) -> FireRow:
        """Request a run."""
        past = tuple(fire for fire in self.fires.values() if fire.window_at == command.window_at)
        whole, read = replace(command, past=past), schedule_actions.version_of(self.row)
        decision = self.settle(
            now,
            lambda evaluation_batch, context: schedule_actions.trigger_now(evaluation_batch, context, whole, read=read),
        )
        return decision.fires[-1]

    def settle(
        self,
        now: datetime,
        rule: Callable[[EvaluationBatch, Context], Sequence[ScheduleDecision]],
        events: Sequence[EventRow] = (),
    ) -> ScheduleDecision:
        """Decide, and write the decision."""
        evaluation_batch = EvaluationBatch(now=now, cases=(self.case(),), events=tuple(events))
        [decision] = rule(evaluation_batch, self.context)
        self._write(decision)
        return decision

    # state

    def case(self) -> ScheduleSnapshot:
        """Return the snapshot that a store would load."""
        fires = self.sorted_fires()
        ended = sorted(
            (one for one in fires if one.run_ended_at is not None and one.run_ended_at > self.row.enabled_since),
            key=lambda one: one.run_ended_at or NOON,
        )
        return ScheduleSnapshot(
            schedule=self.row,
            job=self.job,
            waiting=tuple(one for one in fires if one.outcome is Outcome.WAITING),
            active=tuple(one for one in fires if self._is_active(one)),
            ended=tuple(one.run_state for one in reversed(ended) if one.run_state is not None),
            backfills=tuple(self.backfills.values()),
            other=None if self.other is None else self.other.as_other(),
        )

    def as_other(self) -> UpstreamSchedule:
        """Return the state that a downstream schedule depends on."""
        ends = [one.run_ended_at for one in self.fires.values() if one.run_state is RunState.SUCCEEDED]
        return UpstreamSchedule(
            schedule=self.row,
            fires=tuple(reversed(self.sorted_fires())),
            succeeded_at=max((end for end in ends if end is not None), default=None),
        )

    def sorted_fires(self) -> list[FireRow]:
        """All fires, oldest window first."""
        return [self.fires[key] for key in sorted(self.fires)]

    def outcomes(self) -> list[Outcome]:
        """The outcomes of the windows, oldest first."""
        return [one.outcome for one in self.sorted_fires()]

    def latest(self) -> FireRow:
        """The fire of the latest window."""
        return self.sorted_fires()[-1]

    def alerts(self, kind: AlertKind) -> list[bool]:
        """Whether each sent alert of a kind is resolved, in order."""
        found = [msgspec.json.decode(one.payload, type=Alert) for one in self.sent if one.kind == OUTBOX_KIND]
        return [alert.resolved for alert in found if alert.kind is kind]

    def questions(self) -> list[OutboxRow]:
        """The file probes that were sent."""
        return [one for one in self.sent if one.kind == PROBE_FILE]

    @staticmethod
    def _is_active(fire: FireRow) -> bool:
        return fire.outcome is Outcome.RAN and fire.run_ended_at is None

    def _write(self, decision: ScheduleDecision) -> None:
        assert decision.schedule.planned_through >= self.row.planned_through, "planned_through went back"
        for fire in decision.fires:
            key = (fire.window_at, fire.generation)
            before = self.fires.get(key)
            if before is not None and before.outcome is not Outcome.WAITING:
                assert (before.outcome, before.run_id) == (fire.outcome, fire.run_id), "a window was decided twice"
            assert (fire.outcome is Outcome.RAN) == (fire.run_id is not None) == (fire.start_at is not None)
            self.fires[key] = fire
        made = {run.id for run in decision.runs}
        assert made <= {fire.run_id for fire in decision.fires}, "a run without its fire"
        self.row = decision.schedule
        assert self.row.has_waiting_windows == any(one.outcome is Outcome.WAITING for one in self.fires.values())
        known = {one.id for one in self.sent}
        self.sent += [one for one in decision.outgoing if one.id not in known]
        self.runs += decision.runs
        self.changes += decision.changes
        self.backfills |= {row.id: row for row in decision.backfills}
