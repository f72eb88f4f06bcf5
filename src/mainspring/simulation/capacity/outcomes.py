"""Outcomes of attempts: duration, and success or failure. Drawn from the names of the tasks.

The same task has the same outcome wherever and whenever it runs: simulated, and in a real run of the same load.
"""

from __future__ import annotations

import msgspec

from mainspring.protocol.wire import Assignment, Outcome
from mainspring.simulation.capacity.duration_model import DurationModel, chance
from mainspring.simulation.capacity.load import LISTS, work_of
from mainspring.simulation.capacity.scenario import JobKind, Outage, Scenario
from mainspring.simulation.virtual_worker import Ending

DOWN = msgspec.json.encode({"type": "ConnectionError", "message": "the service is down"}).decode()
"""The error of everything that depends on an outage."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORD = 4


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the tasks of a job."""

    durations: DurationModel
    fails: float
    outages: tuple[Outage, ...]
    gives: str
    """Output of its list task."""


class TaskOutcomes:
    """Outcomes of all attempts of a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.left: dict[str, float] = {}
        """By run: remaining seconds of tasks that were running before."""
        self._kinds = {work_of(kind).decode(): _kind(kind, scenario) for kind in scenario.jobs}

    def of(self, assignment: Assignment, at: float) -> Ending:
        """Ending of an attempt that begins now."""
        kind = self._kinds[assignment.work]
        for outage in kind.outages:
            if outage.at <= at < outage.at + outage.lasts:
                return failure(outage.fails_after * (0.5 + 0.5 * chance(assignment.task)), DOWN)
        left = self.left.pop(assignment.run, None) if self.left else None
        seconds = kind.durations.of(assignment.task) if left is None else left
        draw = chance(f"{assignment.task}:{assignment.number}")
        if draw < kind.fails:
            return failure(seconds, _own_error(draw / kind.fails))
        return Ending(seconds, output=kind.gives if assignment.name == LISTS else "null")

    def needs(self, assignment: Assignment, outage: Outage) -> bool:
        """Whether a task depends on what is down in an outage."""
        return outage in self._kinds[assignment.work].outages


def failure(seconds: float, error: str) -> Ending:
    """A failure after some seconds."""
    return Ending(seconds, Outcome.FAILED, None, error)


def _kind(kind: JobKind, scenario: Scenario) -> _Kind:
    return _Kind(
        durations=DurationModel(kind.takes),
        fails=kind.fails,
        outages=tuple(outage for outage in scenario.outages if kind.name in outage.jobs),
        gives=msgspec.json.encode(list(range(kind.fan_out))).decode(),
    )


def _own_error(part: float) -> str:
    """A rare error: many with the same signature would open a circuit breaker."""
    number, letters = int(part * len(_LETTERS) ** _WORD), ""
    for _ in range(_WORD):
        number, place = divmod(number, len(_LETTERS))
        letters += _LETTERS[place]
    return msgspec.json.encode({"type": "ValueError", "message": f"there is no {letters}"}).decode()
