"""What carries out a kind of work: the interface, and what all kinds share.

An executor is given a few jobs of one lease. It runs them one after another, in order, and tells each job what
becomes of it; it comes back when all of them are over, or when those that are left have not begun and are to be
given to somebody again. A new kind of work is a struct in `core/work/work.py`, a file with an executor, and a line in
`worker/supervisor/supervisor.py`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from mainspring.core.expressions import engine as expressions
from mainspring.core.expressions.engine import Values
from mainspring.core.work.work import LONGEST_EXTENSION_SECONDS, Work
from mainspring.protocol.errors import ExpressionFailed
from mainspring.protocol.wire import Artifact, Assignment, Outcome
from mainspring.worker.executors.attempt_files import bounded_progress
from mainspring.worker.logs.capture import Mask
from mainspring.worker.supervisor.supervisor_wire import Asked, Began, Ended, FromGuard, Moved, Order, Saved

_NO_MASK = Mask(())


class Job:
    """One order in hand.

    waiting ──hand()──► with an executor ──begin()──► running ──end()──► over
       └──────────────────── withdraw() ───────────────────────────────► over, and nothing was said
    """

    def __init__(self, order: Order, work: Work | None, say: Callable[[FromGuard], None]) -> None:
        self.assignment: Assignment = order.assignment
        self.attempt = order.assignment.attempt
        self.lease = order.lease
        self.needs = order.needs
        self.work = work
        self.mask = _NO_MASK
        self.has_begun = False
        self.is_over = False
        self.grace_seconds: float | None = None
        """Set if it is to be stopped."""
        self._say = say
        self._stop: Callable[[float], None] | None = None
        self._recall: Callable[[], bool] | None = None
        self._prolong: Callable[[datetime], None] | None = None

    def hand(
        self, *, stop: Callable[[float], None], recall: Callable[[], bool], prolong: Callable[[datetime], None]
    ) -> None:
        """An executor has it: from now on it is the executor who can stop it, or say that it has not begun."""
        self._stop, self._recall, self._prolong = stop, recall, prolong

    def is_to_stop(self) -> bool:
        """Whether somebody wants it ended: nothing is to be waited for any more."""
        return self.grace_seconds is not None

    def put_back(self) -> None:
        """The executor let go of it, and has not begun it."""
        self._stop = self._recall = self._prolong = None
        if self.grace_seconds is not None:
            self.end(Outcome.STOPPED)

    def begin(self, pid: int) -> None:
        """It runs."""
        if not self.has_begun:
            self.has_begun = True
            self._say(Began(self.attempt, pid))

    def move(self, percent: float | None, note: str) -> None:
        """It said how far it is."""
        said = bounded_progress(percent, self.mask.text(note))
        self._say(Moved(self.attempt, said.percent, said.note))

    def save(self, document: str) -> None:
        """It saved a checkpoint."""
        self._say(Saved(self.attempt, self.mask.json(document) or "null"))

    def ask(self, seconds: float) -> None:
        """It needs so much time from now on. What nobody could grant is not passed on."""
        if 0 < seconds <= LONGEST_EXTENSION_SECONDS:
            self._say(Asked(self.attempt, seconds))

    def prolong(self, until: datetime) -> None:
        """It may run until then: let it know."""
        if self._prolong is not None and not self.is_over:
            self._prolong(until)

    def end(
        self, outcome: Outcome, *, output: str | None = None, error: str | None = None, log_bytes: int = 0,
        artifacts: tuple[Artifact, ...] = (),
    ) -> None:  # fmt: skip
        """Nothing of it runs any more."""
        if not self.is_over:
            self.is_over = True
            output, error = self.mask.json(output), self.mask.json(error)
            self._say(Ended(self.attempt, outcome, output, error, log_bytes, artifacts))

    def stop(self, grace_seconds: float) -> None:
        """End it, whatever it takes. The shortest grace counts: that of the job, or of whoever wants it ended."""
        if self.work is not None:
            grace_seconds = min(grace_seconds, self.work.grace_seconds)
        if self.is_over or (self.grace_seconds is not None and self.grace_seconds <= grace_seconds):
            return
        self.grace_seconds = grace_seconds
        if self._stop is not None:
            self._stop(grace_seconds)
        else:
            self.end(Outcome.STOPPED)

    def withdraw(self) -> bool:
        """Take it out of the guard's hands, if it has not begun."""
        if self.is_over or self.has_begun or (self._recall is not None and not self._recall()):
            return False
        self.is_over = True
        return True


class Executor(Protocol):
    """Carries out one kind of work."""

    most: int
    """So many jobs of a lease it takes at a time."""

    async def run(self, jobs: Sequence[Job]) -> None:
        """Run these, one after another. Those that are not over when it comes back have not begun."""
        ...

    async def close(self) -> None:
        """Nothing more will come."""
        ...


def failure(kind: str, message: str, *, klass: str | None = None, **more: str | float) -> str:
    """An error as it is reported: JSON with `type` and `message`, and `class` if it is known here (RTY-1)."""
    known = {"class": klass} if klass is not None else {}
    return msgspec.json.encode({**known, "type": kind, "message": message, **more}).decode()


def exit_failure(code: int, last_lines: str = "", note: str = "") -> str:
    """The error of a process that ended with this code; minus a signal if that killed it."""
    more = {"last_lines": last_lines} if last_lines else {}
    note = f" ({note})" if note else ""
    if code >= 0:
        return failure("Exit", f"exited with {code}{note}", exit_code=code, **more)
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return failure("Signal", f"killed by {name}{note}", signal=name, **more)


def template_values(assignment: Assignment) -> Values:
    """What the templates of a task see. What it is not for (an item, a window) is not there."""
    return {
        "params": msgspec.Raw(assignment.params.encode()),
        "outputs": msgspec.Raw(
            msgspec.json.encode({name: msgspec.Raw(text.encode()) for name, text in assignment.inputs.items()})
        ),
        "run": {"id": assignment.run},
        "task": {"id": assignment.task, "name": assignment.name, "attempt": assignment.number},
        **_place_in_fan_out(assignment),
        **({"window": assignment.window} if assignment.window else {}),
    }


def rendered(where: str, template: str, values: Values) -> str:
    """A text of a task with its values in it. Raises ExpressionFailed, which names the place."""
    try:
        return expressions.render(template, values)
    except ExpressionFailed as error:
        raise ExpressionFailed(f"{where}: {error}") from None


def _place_in_fan_out(assignment: Assignment) -> Values:
    if assignment.partition is None:
        return {}
    item = msgspec.Raw((assignment.item or "null").encode())
    return {"item": item, "partition": assignment.partition, "total": assignment.total}
