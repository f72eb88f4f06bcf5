"""What becomes of an attempt: how long it takes, and whether it fails. Drawn from the names of the tasks.

So the same task has the same fate wherever and whenever it runs: in the simulation, and in a real run of the same load.
"""

from __future__ import annotations

import msgspec

from mainspring.protocol.wire import Assignment
from mainspring.simulation.capacity.duration_model import Lengths, chance
from mainspring.simulation.capacity.load import LISTS, work_of
from mainspring.simulation.capacity.scenario import JobKind, Outage, Scenario

DOWN = msgspec.json.encode({"type": "ConnectionError", "message": "the service is down"}).decode()
"""The error of everything that needs what is down."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORD = 4


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the tasks of a job."""

    lengths: Lengths
    fails: float
    outages: tuple[Outage, ...]
    gives: str
    """What the task that lists gives."""


class Fates:
    """The fates of all attempts of a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.left: dict[str, float] = {}
        """By run: how long its task still takes, of those that were under way before."""
        self._kinds = {work_of(kind).decode(): _kind(kind, scenario) for kind in scenario.jobs}

    def of(self, assignment: Assignment, at: float) -> tuple[float, str | None]:
        """How many seconds an attempt takes that begins now, and its error if it fails."""
        kind = self._kinds[assignment.work]
        for outage in kind.outages:
            if outage.at <= at < outage.at + outage.lasts:
                return outage.fails_after * (0.5 + 0.5 * chance(assignment.task)), DOWN
        left = self.left.pop(assignment.run, None) if self.left else None
        seconds = kind.lengths.of(assignment.task) if left is None else left
        draw = chance(f"{assignment.task}:{assignment.number}")
        return seconds, _own_error(draw / kind.fails) if draw < kind.fails else None

    def output(self, assignment: Assignment) -> str:
        """What an attempt gives that succeeds."""
        return self._kinds[assignment.work].gives if assignment.name == LISTS else "null"

    def needs(self, assignment: Assignment, outage: Outage) -> bool:
        """Whether a task needs what is down in an outage."""
        return outage in self._kinds[assignment.work].outages


def _kind(kind: JobKind, scenario: Scenario) -> _Kind:
    return _Kind(
        lengths=Lengths(kind.takes),
        fails=kind.fails,
        outages=tuple(outage for outage in scenario.outages if kind.name in outage.jobs),
        gives=msgspec.json.encode(list(range(kind.fan_out))).decode(),
    )


def _own_error(part: float) -> str:
    """An error that is like few others: many that are alike would open a circuit."""
    number, word = int(part * len(_LETTERS) ** _WORD), ""
    for _ in range(_WORD):
        number, place = divmod(number, len(_LETTERS))
        word += _LETTERS[place]
    return msgspec.json.encode({"type": "ValueError", "message": f"there is no {word}"}).decode()
