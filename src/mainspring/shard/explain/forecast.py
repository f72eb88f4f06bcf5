"""Forecast of a task's start, as things are or under a hypothesis (OBS-1), by the shard's own rules on a copy.

A snapshot (`take_snapshot`) is simulated several times (`shard/explain/forecast_engine.py`), each time with other
durations drawn from recent ones. The expected range is the range of the starts, with a margin. If the task does not
start within the simulated placements, the rest is extrapolated from the throughput.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from mainspring.core.explain.diagnosis import Diagnosis, Expected, ExpectedKind, Reason
from mainspring.core.explain.what_if import NO_CHANGES, Hypothesis, Outcome, Victim
from mainspring.core.model.task import Task
from mainspring.core.text.sentences import count_of
from mainspring.shard.events import Event
from mainspring.shard.explain.diagnose import diagnose
from mainspring.shard.explain.forecast_engine import Forecast
from mainspring.shard.explain.hypothesis import begin, notes
from mainspring.shard.explain.snapshot import Snapshot
from mainspring.shard.explain.snapshot_copy import count_ahead, take_snapshot

__all__ = ["Snapshot", "TrialResult", "forecast_start", "take_snapshot", "try_out", "try_start", "what_if"]

MAX_PLACEMENTS, MAX_TURNS = 100, 60
"""Per forecast. A turn takes 0.1 to 0.4 ms, depending on the number of queues."""
_THROUGHPUT_SAMPLE, _THROUGHPUT_FORECASTS = 8, 2
"""Where the start is extrapolated from the throughput (`LONG_QUEUE`)."""
_TOTAL_WORK = 50
"""Placements and turns in all forecasts of a snapshot: beyond that no further one is started."""
_MIN_FORECASTS, _MAX_FORECASTS = 3, 6
_MIN_THROUGHPUT_FRACTION = 0.25
"""Fraction of the throughput that must be left by newer, more important work; below that the start is unknown."""
_MAX_RANGE_SECONDS, _MAX_RANGE_FACTOR = 600.0, 10.0
"""A range that is wider than this, and than this multiple of its beginning, is useless."""
_MARGIN_OF_SPREAD = 0.3
"""The earliest and the latest start of a few forecasts are not the extremes."""
_MARGIN_OF_WAIT = 0.25
_MARGIN_OF_THROUGHPUT = 0.4
"""Where the throughput was extrapolated."""
_MARGIN_OF_NEWCOMERS = 0.3
"""For each priority above its own: newer work goes first."""
_MIN_MARGIN_SECONDS = 3.0


_NO_WORKER = frozenset({Reason.NO_MATCHING_WORKER, Reason.TOO_BIG})
_HIGHER_PRIORITY_ARRIVALS = "it depends on how much work of higher priority arrives"


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the next turn."""

    worker: str | None = None
    """Where the task would start, at once or as soon as the victims have ended."""
    victims: tuple[Victim, ...] = ()
    found: Diagnosis | None = None
    """What would block it, if it would not start."""


class _Start(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one forecast."""

    seconds: float | None
    """Until the task starts; None: it does not, as far as is known."""
    by_throughput: bool = False
    forecast: Forecast


def what_if(snapshot: Snapshot, hypothesis: Hypothesis) -> Outcome:
    """The result of these changes, made now."""
    tried = try_out(snapshot, hypothesis)
    found, now = tried.found, tried.worker is not None
    return Outcome(
        starts_now=now,
        worker=tried.worker,
        victims=tried.victims,
        expected=_at_once(snapshot, makes_room=bool(tried.victims)) if now else _expect(snapshot, hypothesis, found),
        holds="" if found is None else found.verdict,
        reason=None if found is None else found.reason,
        notes=tuple(notes(snapshot, hypothesis)),
        at=snapshot.at,
    )


def try_out(snapshot: Snapshot, hypothesis: Hypothesis = NO_CHANGES, *events: Event) -> TrialResult:
    """Return whether the task would start now with these changes and events, and if not what would block it."""
    forecast = _begun(snapshot, hypothesis, events)
    tried = _start_in(forecast)
    if tried.worker is None:
        tried = TrialResult(found=diagnose(forecast.memory, snapshot.task_id, snapshot.at))
    forecast.end()
    return tried


def try_start(snapshot: Snapshot, hypothesis: Hypothesis) -> TrialResult:
    """The same, without what would block it, which takes as long as the rest."""
    forecast = _begun(snapshot, hypothesis)
    tried = _start_in(forecast)
    forecast.end()
    return tried


def _begun(snapshot: Snapshot, hypothesis: Hypothesis, events: tuple[Event, ...] = ()) -> Forecast:
    """A forecast after its first turn."""
    forecast = begin(snapshot, hypothesis)
    forecast.add_events(*events)
    forecast.check_now()
    forecast.settle()
    return forecast


def _start_in(forecast: Forecast) -> TrialResult:
    mine = forecast.mine()
    if forecast.has_started():
        return TrialResult(worker=mine.worker_id)
    if forecast.preempted and mine.reserved is not None:
        victims = tuple(_victim(forecast.snapshot, task) for task in forecast.preempted.values())
        return TrialResult(worker=mine.reserved.worker, victims=victims)
    return TrialResult()


def _at_once(snapshot: Snapshot, *, makes_room: bool) -> Expected:
    grace = snapshot.scheduler_settings.preemption_grace_seconds if makes_room else 0.0
    return Expected.between(
        snapshot.at,
        snapshot.at + timedelta(seconds=grace + _MIN_MARGIN_SECONDS),
        "once the preempted tasks have ended" if makes_room else "nothing blocks it",
    )


def _expect(snapshot: Snapshot, hypothesis: Hypothesis, found: Diagnosis | None) -> Expected:
    """Forecast a task that does not start now. Without a matching worker, the diagnosis says whether one may come."""
    if found is not None and found.expected is not None and found.reason in _NO_WORKER:
        return found.expected
    return forecast_start(snapshot, hypothesis)


def _victim(snapshot: Snapshot, task: Task) -> Victim:
    return Victim(
        task=snapshot.names.get(task.id, task.id),
        tenant=task.tenant,
        priority=task.priority,
        worker=task.worker_id or "",
    )


def forecast_start(snapshot: Snapshot, hypothesis: Hypothesis = NO_CHANGES) -> Expected:
    """Return when the task of a snapshot is expected to start with these changes."""
    is_other = hypothesis.changes_task() or hypothesis.workers
    if not is_other and snapshot.coverage.workers and not snapshot.coverage.could_take:
        basis, arrival = _format_infeasible(snapshot), snapshot.coverage.arrival
        return Expected.unknown(f"{basis}; {arrival}") if arrival else Expected.never(basis)
    starts: list[_Start] = []
    work, least, most = 0, _MIN_FORECASTS, _MAX_FORECASTS
    if snapshot.coverage.is_long_queue():
        least = most = _THROUGHPUT_FORECASTS
    while len(starts) < least or (work < _TOTAL_WORK and len(starts) < most):
        # The optimistic forecast is not the first: where the start is unknown, the others show it.
        start = _run_forecast(begin(snapshot, hypothesis, seed=len(starts), optimistic=len(starts) == 1))
        unknown_result = _unknown_result(start)
        start.forecast.end()
        if unknown_result is not None:
            return unknown_result
        starts.append(start)
        work += start.forecast.turns + start.forecast.placed
        if not start.seconds and not start.forecast.placed:
            break
    return _range(snapshot, starts)


def _unknown_result(start: _Start) -> Expected | None:
    """Return the result of a forecast that has not led to a start."""
    if start.seconds is not None:
        return None
    return Expected.unknown(_HIGHER_PRIORITY_ARRIVALS) if start.by_throughput else _unknown_start(start.forecast)


def _run_forecast(forecast: Forecast) -> _Start:
    """Simulate until the task starts, nothing more can change, or the throughput is known."""
    is_long_queue, is_over = forecast.snapshot.coverage.is_long_queue(), False
    placements, turns = (_THROUGHPUT_SAMPLE, _THROUGHPUT_SAMPLE) if is_long_queue else (MAX_PLACEMENTS, MAX_TURNS)
    forecast.settle()
    while not (is_over or forecast.has_started() or forecast.placed >= placements or forecast.turns >= turns):
        is_over = forecast.is_still() or not forecast.step()
    coverage, passed = forecast.snapshot.coverage, (forecast.now - forecast.snapshot.at).total_seconds()
    if forecast.has_started() and (coverage.is_complete or coverage.ahead <= forecast.placed):
        return _Start(seconds=passed * coverage.part, forecast=forecast)
    if is_over or not passed or not forecast.placed:
        return _Start(seconds=None, forecast=forecast)
    return _Start(seconds=_by_throughput(forecast, passed), by_throughput=True, forecast=forecast)


def _by_throughput(forecast: Forecast, passed: float) -> float | None:
    """Return when the task starts if the queue ahead keeps its throughput; None if as much arrives as is started."""
    coverage, mine = forecast.snapshot.coverage, forecast.mine()
    ahead = 0 if forecast.has_started() else count_ahead(forecast.memory, mine)
    left = max(ahead, coverage.ahead - forecast.placed)
    throughput = forecast.placed / passed / coverage.part
    rest = throughput - forecast.overtaking_per_second()
    return passed * coverage.part + left / rest if rest > _MIN_THROUGHPUT_FRACTION * throughput else None


def _range(snapshot: Snapshot, starts: list[_Start]) -> Expected:
    seconds = [start.seconds for start in starts if start.seconds is not None]
    first, last = min(seconds), max(seconds)
    if last - first > max(_MAX_RANGE_SECONDS, _MAX_RANGE_FACTOR * first):
        return Expected.unknown(_HIGHER_PRIORITY_ARRIVALS)
    by_throughput = any(start.by_throughput for start in starts)
    margin = _MARGIN_OF_SPREAD * (last - first) + _MIN_MARGIN_SECONDS
    part = _MARGIN_OF_THROUGHPUT if by_throughput else _MARGIN_OF_WAIT
    newcomers = _MARGIN_OF_NEWCOMERS * snapshot.task().priority
    return Expected.between(
        snapshot.at + timedelta(seconds=max(0.0, first * (1 - part) - margin)),
        snapshot.at + timedelta(seconds=last * (1 + part + newcomers) + margin),
        _format_basis(snapshot, starts, by_throughput),
    )


def _format_basis(snapshot: Snapshot, starts: list[_Start], by_throughput: bool) -> str:
    forecast, coverage = starts[-1].forecast, snapshot.coverage
    parts: list[str] = []
    if forecast.known_durations:
        parts.append(f"from the usual durations of {count_of(forecast.known_durations, 'running task')}")
    before = coverage.ahead if by_throughput else sum(start.forecast.placed for start in starts) // len(starts)
    before -= 0 if by_throughput or not before else 1
    if before:
        parts.append(f"{'about ' if by_throughput else ''}{before:,} before it")
    if by_throughput:
        parts.append(f"from the throughput of the first {forecast.placed:,}")
    if coverage.part < 1:
        parts.append(f"from a sample of {len(snapshot.workers):,} of {coverage.workers:,} workers")
    return "; ".join(parts) or "from the rules that block it"


def _unknown_start(forecast: Forecast) -> Expected:
    """Explain why no known event leads to a start."""
    found = diagnose(forecast.memory, forecast.snapshot.task_id, forecast.now)
    if found is not None and found.expected is not None and found.expected.kind is not ExpectedKind.RANGE:
        return found.expected
    if forecast.unknown:
        return Expected.unknown(f"the duration of {count_of(forecast.unknown, 'running task')} is unknown")
    return Expected.unknown("no known event would let it start")


def _format_infeasible(snapshot: Snapshot) -> str:
    return f"none of {count_of(snapshot.coverage.workers, 'worker')} matches, even when idle"
