"""What became of a run: its tasks, and what the job returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from mainspring.core.graph.references import Given, resolve
from mainspring.protocol.errors import TaskError

_SUCCEEDED = "SUCCEEDED"
_ENDED_BADLY = ("FAILED", "TIMED_OUT", "QUARANTINED", "CANCELLED")


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one task."""

    name: str
    label: str = ""
    """Of a task of a fan-out: the value that it is for."""
    partition: int | None = None
    """Which of a fan-out it is, from 0; None if it is of none."""
    state: str
    output: Any = None
    error: dict[str, Any] | None = None
    """`type`, `message` and more, of its last attempt that failed."""
    exception: BaseException | None = None
    """What its function raised last, where it ran in this process."""
    attempts: int = 0
    because: str = ""

    @property
    def full_name(self) -> str:
        """The name, with what tells the tasks of a fan-out apart: `fetch[Oslo]`."""
        return f"{self.name}[{self.label}]" if self.label else self.name


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a run."""

    run_id: str
    state: str
    because: str = ""
    tasks: tuple[TaskResult, ...] = ()
    """In the order of the graph; those of a fan-out in the order of the items."""
    params: str = "{}"
    returned: msgspec.Raw = msgspec.Raw(b"null")
    """What the job returned, with references to outputs."""
    fan_outs: frozenset[str] = frozenset()
    """The names of the tasks that there is one of for each item of a list."""

    @property
    def ok(self) -> bool:
        """Whether it has succeeded."""
        return self.state == _SUCCEEDED

    @property
    def value(self) -> Any:
        """What the job returned, with the outputs of its tasks. Raises what a task raised if the run has failed."""
        if not self.ok:
            self._raise()
        return resolve(self.returned, Given(outputs=self._outputs(), params=self.params))

    def task(self, name: str) -> TaskResult:
        """A task by its name, `fetch` or `fetch[Oslo]`. Raises KeyError."""
        for one in self.tasks:
            if name in (one.full_name, one.name):
                return one
        raise KeyError(name)

    def tasks_of(self, name: str) -> Sequence[TaskResult]:
        """The tasks of this name: those of a fan-out, in the order of the items."""
        return [one for one in self.tasks if one.name == name]

    def _raise(self) -> NoReturn:
        failed = next((one for state in _ENDED_BADLY for one in self.tasks if one.state == state), None)
        if failed is None:
            raise TaskError(f"the run is {self.state}: {self.because}")
        if failed.exception is not None:
            raise failed.exception
        said = failed.error or {}
        what = ": ".join(str(said[part]) for part in ("type", "message") if said.get(part)) or failed.because
        raise TaskError(f"{failed.full_name} is {failed.state}: {what}")

    def _outputs(self) -> Mapping[str, str | None]:
        """The outputs by the names of tasks, as JSON; a fan-out's is a list."""
        outputs: dict[str, str | None] = {}
        for name in dict.fromkeys(one.name for one in self.tasks):
            tasks = self.tasks_of(name)
            # A fan-out over nothing is a task of its own, and has no place among its items.
            items = [one.output for one in tasks if one.partition is not None]
            found = items if name in self.fan_outs else tasks[0].output
            outputs[name] = msgspec.json.encode(found).decode()
        return outputs
