"""The result of a run: its tasks, and the job's return value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from mainspring.core.graph.references import Inputs, resolve
from mainspring.protocol.errors import TaskError

_SUCCEEDED = "SUCCEEDED"
_UNSUCCESSFUL_STATES = ("FAILED", "TIMED_OUT", "QUARANTINED", "CANCELLED")


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one task."""

    name: str
    label: str = ""
    """Label of a fan-out's task: the value of its item."""
    partition: int | None = None
    """Index in a fan-out, from 0; None otherwise."""
    state: str
    output: Any = None
    error: dict[str, Any] | None = None
    """`type`, `message` and more, of its last failed attempt."""
    exception: BaseException | None = None
    """The exception that its function raised last, if it ran in this process."""
    attempts: int = 0
    because: str = ""

    @property
    def full_name(self) -> str:
        """The name, with the label for a fan-out: `fetch[Oslo]`."""
        return f"{self.name}[{self.label}]" if self.label else self.name


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run."""

    run_id: str
    state: str
    because: str = ""
    tasks: tuple[TaskResult, ...] = ()
    """In graph order; those of a fan-out in item order."""
    params: str = "{}"
    returned: msgspec.Raw = msgspec.Raw(b"null")
    """The job's return value, with references to outputs."""
    fan_outs: frozenset[str] = frozenset()
    """Names of fan-outs."""

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.state == _SUCCEEDED

    @property
    def value(self) -> Any:
        """The job's return value, with outputs resolved. If the run failed, raises the error of its task."""
        if not self.ok:
            self._raise()
        return resolve(self.returned, Inputs(outputs=self._outputs(), params=self.params))

    def task(self, name: str) -> TaskResult:
        """Return a task by name, `fetch` or `fetch[Oslo]`. Raises KeyError."""
        for one in self.tasks:
            if name in (one.full_name, one.name):
                return one
        raise KeyError(name)

    def tasks_of(self, name: str) -> Sequence[TaskResult]:
        """Return the tasks of this name; those of a fan-out in item order."""
        return [one for one in self.tasks if one.name == name]

    def _raise(self) -> NoReturn:
        failed = next((one for state in _UNSUCCESSFUL_STATES for one in self.tasks if one.state == state), None)
        if failed is None:
            raise TaskError(f"the run is {self.state}: {self.because}")
        if failed.exception is not None:
            raise failed.exception
        error = failed.error or {}
        what = ": ".join(str(error[part]) for part in ("type", "message") if error.get(part)) or failed.because
        raise TaskError(f"{failed.full_name} is {failed.state}: {what}")

    def _outputs(self) -> Mapping[str, str | None]:
        """Return the outputs by task name, as JSON; a list for a fan-out."""
        outputs: dict[str, str | None] = {}
        for name in dict.fromkeys(one.name for one in self.tasks):
            tasks = self.tasks_of(name)
            # An empty fan-out is a single task without a partition.
            items = [one.output for one in tasks if one.partition is not None]
            found = items if name in self.fan_outs else tasks[0].output
            outputs[name] = msgspec.json.encode(found).decode()
        return outputs
