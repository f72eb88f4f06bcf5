"""Forecast of a task's start, as things are or under a hypothesis (OBS-1), by the shard's own rules on a copy.

A snapshot (`copy_around`) is simulated several times (`shard/explain/forecast_engine.py`), each time with other
durations drawn from recent ones. The expected range is the range of the starts, with a margin. If the task does not
start within the simulated placements, the rest is extrapolated from the throughput.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from mainspring.core.explain.diagnosis import Diagnosis, Expected, Foresight, Reason
from mainspring.core.explain.messages import say_count
from mainspring.core.explain.what_if import AS_IT_IS, Outcome, Supposal, Victim
from mainspring.core.model.task import Task
from mainspring.shard.events import Event
from mainspring.shard.explain.diagnose import diagnose
from mainspring.shard.explain.findings import cannot_say, never
from mainspring.shard.explain.forecast_engine import Play
from mainspring.shard.explain.hypothesis import begin, remarks
from mainspring.shard.explain.snapshot import Scene
from mainspring.shard.explain.snapshot_copy import copy_around, count_ahead

__all__ = ["Scene", "Tried", "copy_around", "foresee", "suppose", "try_out", "try_start"]

MOST_PLACEMENTS, MOST_TURNS = 100, 60
"""Per forecast. A turn takes 0.1 to 0.4 ms, depending on the number of queues."""
_FOR_THE_PACE, _PLAYS_FOR_THE_PACE = 8, 2
"""Where the start is extrapolated from the throughput (`FAR`)."""
_WORK_IN_ALL = 50
"""Placements and turns in all forecasts of a snapshot: beyond that no further one is started."""
_LEAST_PLAYS, _MOST_PLAYS = 3, 6
_LEAST_PACE = 0.25
"""Fraction of the throughput that must be left by newer, more important work; below that the start is unknown."""
_WIDEST_SECONDS, _WIDEST_TIMES = 600.0, 10.0
"""A range that is wider than this, and than this multiple of its beginning, is useless."""
_MARGIN_OF_SPREAD = 0.3
"""The earliest and the latest start of a few forecasts are not the extremes."""
_MARGIN_OF_WAIT = 0.25
_MARGIN_OF_PACE = 0.4
"""Where the throughput was extrapolated."""
_MARGIN_OF_NEWCOMERS = 0.3
"""For each priority above its own: newer work goes first."""
_LEAST_MARGIN_SECONDS = 3.0


_NO_WORKER = frozenset({Reason.NO_MATCHING_WORKER, Reason.TOO_BIG})
_TOO_MUCH_COMES = "it depends on how much work of higher priority arrives"


class Tried(msgspec.Struct, frozen=True, kw_only=True):
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
    placed: int
    by_pace: bool = False
    play: Play


def foresee(scene: Scene) -> Expected:
    """When the task of a snapshot is expected to start, as things are."""
    return _foresee(scene, AS_IT_IS)


def suppose(scene: Scene, supposal: Supposal) -> Outcome:
    """The result of these changes, made now."""
    tried = try_out(scene, supposal)
    found, now = tried.found, tried.worker is not None
    return Outcome(
        starts_now=now,
        worker=tried.worker,
        victims=tried.victims,
        expected=_at_once(scene, makes_room=bool(tried.victims)) if now else _expect(scene, supposal, found),
        holds="" if found is None else found.verdict,
        reason=None if found is None else found.reason,
        remarks=tuple(remarks(scene, supposal)),
        at=scene.at,
    )


def try_out(scene: Scene, supposal: Supposal = AS_IT_IS, *events: Event) -> Tried:
    """Whether the task would start now with these changes and events, and if not what would block it."""
    play = _begun(scene, supposal, events)
    tried = _start_in(play)
    if tried.worker is None:
        tried = Tried(found=diagnose(play.memory, scene.task_id, scene.at))
    play.end()
    return tried


def try_start(scene: Scene, supposal: Supposal) -> Tried:
    """The same, without what would block it, which takes as long as the rest."""
    play = _begun(scene, supposal)
    tried = _start_in(play)
    play.end()
    return tried


def _begun(scene: Scene, supposal: Supposal, events: tuple[Event, ...] = ()) -> Play:
    """A forecast after its first turn."""
    play = begin(scene, supposal)
    play.say(*events)
    play.hurry()
    play.settle()
    return play


def _start_in(play: Play) -> Tried:
    mine = play.mine()
    if play.has_started():
        return Tried(worker=mine.worker_id)
    if play.asked_to_go and mine.reserved is not None:
        victims = tuple(_victim(play.scene, task) for task in play.asked_to_go.values())
        return Tried(worker=mine.reserved.worker, victims=victims)
    return Tried()


def _at_once(scene: Scene, *, makes_room: bool) -> Expected:
    grace = scene.tuning.preemption_grace_seconds if makes_room else 0.0
    return Expected(
        foresight=Foresight.RANGE,
        basis="once the preempted tasks have ended" if makes_room else "nothing blocks it",
        earliest=scene.at,
        latest=scene.at + timedelta(seconds=grace + _LEAST_MARGIN_SECONDS),
    )


def _expect(scene: Scene, supposal: Supposal, found: Diagnosis | None) -> Expected:
    """When a task that does not start now would start. Without a match, the diagnosis says whether one may come."""
    if found is not None and found.expected is not None and found.reason in _NO_WORKER:
        return found.expected
    return _foresee(scene, supposal)


def _victim(scene: Scene, task: Task) -> Victim:
    return Victim(
        task=scene.names.get(task.id, task.id), tenant=task.tenant, priority=task.priority, worker=task.worker_id or ""
    )


def _foresee(scene: Scene, supposal: Supposal) -> Expected:
    is_other = supposal.changes_task() or supposal.workers
    if not is_other and scene.extent.workers and not scene.extent.could_take:
        return (
            cannot_say(f"{_say_nobody(scene)}; {scene.extent.hope}") if scene.extent.hope else never(_say_nobody(scene))
        )
    starts: list[_Start] = []
    work, least, most = 0, _LEAST_PLAYS, _MOST_PLAYS
    if scene.extent.is_far():
        least = most = _PLAYS_FOR_THE_PACE
    while len(starts) < least or (work < _WORK_IN_ALL and len(starts) < most):
        # The optimistic forecast is not the first: where the start is unknown, the others show it.
        start = _play(begin(scene, supposal, seed=len(starts), hopes=len(starts) == 1))
        unsaid = _unsaid(start)
        start.play.end()
        if unsaid is not None:
            return unsaid
        starts.append(start)
        work += start.play.turns + start.placed
        if not start.seconds and not start.placed:
            break
    return _range(scene, starts)


def _unsaid(start: _Start) -> Expected | None:
    """What to return if a forecast has not led to a start."""
    if start.seconds is not None:
        return None
    return cannot_say(_TOO_MUCH_COMES) if start.by_pace else _cannot_say(start.play)


def _play(play: Play) -> _Start:
    """Simulate until the task starts, nothing more can change, or the throughput is known."""
    is_far, is_over = play.scene.extent.is_far(), False
    placements, turns = (_FOR_THE_PACE, _FOR_THE_PACE) if is_far else (MOST_PLACEMENTS, MOST_TURNS)
    play.settle()
    while not (is_over or play.has_started() or play.placed >= placements or play.turns >= turns):
        is_over = play.is_still() or not play.step()
    extent, passed = play.scene.extent, (play.now - play.scene.at).total_seconds()
    if play.has_started() and (extent.is_whole or extent.ahead <= play.placed):
        return _Start(seconds=passed * extent.part, placed=play.placed, play=play)
    if is_over or not passed or not play.placed:
        return _Start(seconds=None, placed=play.placed, play=play)
    return _Start(seconds=_by_pace(play, passed), placed=play.placed, by_pace=True, play=play)


def _by_pace(play: Play, passed: float) -> float | None:
    """When the task starts if the queue ahead of it keeps its throughput; None if as much arrives as is started."""
    extent, mine = play.scene.extent, play.mine()
    ahead = 0 if play.has_started() else count_ahead(play.memory, mine)
    left = max(ahead, extent.ahead - play.placed)
    pace = play.placed / passed / extent.part
    rest = pace - play.overtaking_per_second()
    return passed * extent.part + left / rest if rest > _LEAST_PACE * pace else None


def _range(scene: Scene, starts: list[_Start]) -> Expected:
    seconds = [start.seconds for start in starts if start.seconds is not None]
    first, last = min(seconds), max(seconds)
    if last - first > max(_WIDEST_SECONDS, _WIDEST_TIMES * first):
        return cannot_say(_TOO_MUCH_COMES)
    by_pace = any(start.by_pace for start in starts)
    margin = _MARGIN_OF_SPREAD * (last - first) + _LEAST_MARGIN_SECONDS
    part = _MARGIN_OF_PACE if by_pace else _MARGIN_OF_WAIT
    newcomers = _MARGIN_OF_NEWCOMERS * scene.task().priority
    return Expected(
        foresight=Foresight.RANGE,
        basis=_say_basis(scene, starts, by_pace),
        earliest=scene.at + timedelta(seconds=max(0.0, first * (1 - part) - margin)),
        latest=scene.at + timedelta(seconds=last * (1 + part + newcomers) + margin),
    )


def _say_basis(scene: Scene, starts: list[_Start], by_pace: bool) -> str:
    play, extent = starts[-1].play, scene.extent
    said = [f"from the usual durations of {say_count(play.by_usual, 'running task')}"] if play.by_usual else []
    before = extent.ahead if by_pace else sum(start.placed for start in starts) // len(starts)
    before -= 0 if by_pace or not before else 1
    said += [f"{'about ' if by_pace else ''}{before:,} before it"] if before else []
    if by_pace:
        said.append(f"from the throughput of the first {play.placed:,}")
    if extent.part < 1:
        said.append(f"from a sample of {len(scene.workers):,} of {extent.workers:,} workers")
    return "; ".join(said) or "from the rules that block it"


def _cannot_say(play: Play) -> Expected:
    """No known event leads to a start: what it would take."""
    found = diagnose(play.memory, play.scene.task_id, play.now)
    if found is not None and found.expected is not None and found.expected.foresight is not Foresight.RANGE:
        return found.expected
    if play.unknown:
        return cannot_say(f"the duration of {say_count(play.unknown, 'running task')} is unknown")
    return cannot_say("no known event would let it start")


def _say_nobody(scene: Scene) -> str:
    return f"none of {say_count(scene.extent.workers, 'worker')} matches, even when idle"
