"""Schedules, events and alerts: both stores give the same answers (`test_equivalence.py` has the rest)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import EvaluationBatch, ScheduleDecision, ScheduleRow, ScheduleSnapshot
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.clock import SystemClock
from mainspring.store.ports.schedules import EvaluationResult, FireFilter, ScheduleFilter
from mainspring.store.ports.store import Store
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.store.builders import DAY, HOUR, JOB, NOW, a_run, an_outgoing
from tests.store.equivalence import empty, play_on_both
from tests.store.schedule_builders import (
    MINUTE,
    a_backfill,
    a_change_of,
    a_fire,
    a_schedule,
    an_alert,
    an_event,
)
from tests.store.test_equivalence import MAYBE, TEXTS, Call, outcome

JOBS = ("any", "load", "")
TYPES = ("", "file.arrived", "file.gone")
KEYS = ("stuck", "held")
WINDOWS = [NOW + n * MINUTE for n in range(4)]


class TwoBooks(RuleBasedStateMachine):
    """The same calls on both stores."""

    run_async: Callable[[Coroutine[Any, Any, Any]], Any]
    postgres: PostgresStore

    @initialize()
    def begin(self) -> None:
        self.sqlite = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)
        self.run_async(empty(self.postgres))
        self.schedules: list[ScheduleRow] = []
        self.both(self.insert_job)
        for job in ("any", "load"):
            self.keep(a_schedule(job=job, after_job="load", event_type="file.arrived", has_waiting_windows=True))

    async def insert_job(self, store: Store) -> None:
        await store.insert_job(JOB)

    def teardown(self) -> None:
        if hasattr(self, "sqlite"):
            self.see_the_same()
            self.run_async(self.sqlite.close())

    def both(self, call: Call) -> Any:
        """Return the result of both, or the type of the error that both raised."""
        answers = [self.run_async(outcome(call(store))) for store in (self.sqlite, self.postgres)]
        assert answers[0] == answers[1]
        return answers[0]

    @rule(data=st.data())
    def insert(self, data: st.DataObject) -> None:
        schedule = a_schedule(
            name=data.draw(st.sampled_from(["a", "b", "é"]) | TEXTS), spec=data.draw(TEXTS),
            job=data.draw(st.sampled_from(JOBS)), after_job=data.draw(st.sampled_from(JOBS)),
            event_type=data.draw(st.sampled_from(TYPES)), next_at=data.draw(st.sampled_from([None, *WINDOWS])),
            has_waiting_windows=data.draw(st.booleans()), evaluated_at=data.draw(MAYBE),
        )  # fmt: skip
        self.keep(schedule)

    def keep(self, schedule: ScheduleRow) -> None:
        """Insert a schedule, and record it if both accepted it."""
        if self.both(lambda store: store.insert_schedule(schedule, a_change_of(schedule))) is None:
            self.schedules.append(schedule)

    @rule(data=st.data(), mode=st.sampled_from(["due", "waiting", "named", "events"]))
    def evaluate_schedules(self, data: st.DataObject, mode: str) -> None:
        drawn = [data.draw(decisions()) for _ in range(3)]
        limit = data.draw(st.integers(1, 3))
        ids = data.draw(st.lists(st.sampled_from([schedule.id for schedule in self.schedules]), min_size=1))
        events = [
            an_event(id=data.draw(st.sampled_from("abcdef")), type=data.draw(st.sampled_from(TYPES)))
            for _ in range(limit)
        ]
        self.both(lambda store: self.evaluated(store, mode, drawn, limit, ids, events))

    async def evaluated(
        self, store: Store, mode: str, drawn: list[Any], limit: int, ids: list[str], events: list[Any]
    ) -> Any:
        """Compare input, decision and result, without the time: each store has its own clock."""
        known: list[ScheduleSnapshot] = []

        def decide(evaluation_batch: EvaluationBatch) -> Sequence[ScheduleDecision]:
            known.extend(
                replace(case, job=case.job and replace(case.job, created_at=None)) for case in evaluation_batch.cases
            )
            return [make(case) for make, case in zip(drawn, evaluation_batch.cases, strict=False)]

        evaluated: EvaluationResult | list[bool]
        match mode:
            case "due":
                evaluated = await store.evaluate_due(limit, decide)
            case "waiting":
                evaluated = await store.evaluate_waiting(limit, 60.0, decide)
            case "named":
                evaluated = await store.evaluate_schedules(ids, decide)
            case _:
                evaluated = await store.receive_events(JOB.tenant, events, decide)
        return known, evaluated if isinstance(evaluated, list) else (evaluated.schedules, evaluated.decisions)

    @rule(key=st.sampled_from(KEYS), is_over=st.booleans(), text=TEXTS)
    def alert(self, key: str, is_over: bool, text: str) -> None:
        alert, outgoing = an_alert(key=key, summary=text), an_outgoing()
        if is_over:
            self.both(lambda store: store.resolve_alert(key, NOW, lambda _: [outgoing]))
        else:
            self.both(lambda store: store.open_alert(alert, [outgoing]))

    @rule(what=st.sampled_from(["fires", "events", "alerts", "schedule_changes"]), age=st.sampled_from([DAY, -HOUR]))
    def prune(self, what: str, age: Any) -> None:
        self.both(lambda store: store.prune(what, age))

    @rule()
    def see_the_same(self) -> None:
        self.both(lambda store: store.list_schedules(ScheduleFilter(), 100))
        self.both(lambda store: store.next_due())
        self.both(lambda store: store.next_schedules(None, NOW + HOUR, 5))
        self.both(lambda store: store.schedules_after([(JOB.tenant, "load")]))
        self.both(lambda store: store.list_alerts(None, None, "", 10))
        self.both(self.events)
        for schedule in self.schedules[-3:]:
            self.see_the_same_schedule(schedule)

    def see_the_same_schedule(self, schedule: ScheduleRow) -> None:
        self.both(lambda store: store.find_schedule(None, schedule.id))
        self.both(lambda store: store.find_schedule(JOB.tenant, schedule.name))
        self.both(lambda store: store.fires(FireFilter(schedule_id=schedule.id), 10))
        self.both(lambda store: store.schedule_changes(schedule.id, 10))
        self.both(lambda store: store.backfills(schedule.id, 10))

    async def events(self, store: Store) -> Any:
        """Compare without the time of receipt."""
        found = await store.list_events(None, None, None, 20)
        return [replace(event, received_at=event.at) for event in found]


@st.composite
def decisions(draw: st.DrawFn) -> Callable[[ScheduleSnapshot], ScheduleDecision]:
    """A deterministic decision for any schedule."""
    window_at, fate = draw(st.sampled_from(WINDOWS)), draw(st.sampled_from(Outcome))
    state = draw(st.none() | st.sampled_from(RunState))
    run = a_run(params=draw(st.sampled_from(["{}", "é", "\0"])))
    plan = {"next_at": draw(st.sampled_from([None, *WINDOWS])), "evaluated_at": draw(MAYBE)}
    whole: dict[str, object] = draw(
        st.sampled_from([{}, {}, {"paused": True, "because": "ann"}, {"name": "a"}, {"deleted_at": NOW}])
    )
    event, because = draw(st.sampled_from([None, "{}"])), draw(st.sampled_from(["", "a\\b\n'"]))

    def decide(case: ScheduleSnapshot) -> ScheduleDecision:
        has_run = fate is Outcome.RAN
        fire = a_fire(
            case.schedule, window_at=window_at, outcome=fate, because=because, run_id=run.id if has_run else None,
            run_state=state if has_run else None, run_ended_at=NOW if has_run and state else None, event=event,
        )  # fmt: skip
        backfill = a_backfill(case.schedule, id=f"fill-{run.id}-{case.schedule.id}")
        return ScheduleDecision(
            schedule=replace(case.schedule, **plan, **whole), fires=(fire,),
            runs=(replace(run, id=f"{run.id}-{case.schedule.id}"),) if has_run else (), backfills=(backfill,),
            changes=(a_change_of(case.schedule, action="updated"),),
        )  # fmt: skip

    return decide


def test_both_stores_answer_alike(postgres_url: str) -> None:
    play_on_both(TwoBooks, postgres_url, examples=8, steps=15)
