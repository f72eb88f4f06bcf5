"""Parameters of a job: deferred values for its body, and validation of arguments.

Parameters are validated against the function's annotations: plain types, dataclasses, TypedDicts, msgspec structs,
dates. They are sent as JSON; a value is converted to its type once, to validate it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mainspring.core.graph.references import Path
from mainspring.core.text.suggestions import did_you_mean
from mainspring.dsl.deferred import Deferred, as_json
from mainspring.protocol.errors import Fault, Refused
from mainspring.task_context.task_context import declared_types

RESERVED = frozenset({"finish_by", "idempotency_key", "priority", "start_at"})
"""Arguments of `trigger` that are not parameters."""
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class JobParams:
    """The parameters that a job declares."""

    def __init__(self, fn: Callable[..., object], job: str) -> None:
        self._job = job
        self._types = declared_types(fn)
        self.defaults: dict[str, Any] = {}
        """As JSON."""
        self.names: tuple[str, ...] = tuple(inspect.signature(fn).parameters)
        for name, one in inspect.signature(fn).parameters.items():
            if one.kind not in _BY_NAME:
                raise Refused(f"@job {job}: a job's parameters can't be *args, **kwargs or positional-only")
            if name in RESERVED:
                raise Refused(
                    f"@job {job}: a parameter can't be named {name!r}: .trigger() has an argument of that name"
                )
            if one.default is not inspect.Parameter.empty:
                self.defaults[name] = as_json(one.default, f"@job {job}({name})")
        faults = [fault for name, value in self.defaults.items() if (fault := self._fault(name, value)) is not None]
        if faults:
            raise Refused(f"@job {job}: a default does not match its declared type", faults)

    def stand_ins(self) -> dict[str, Deferred]:
        """Return the deferred values that the body is called with."""
        return {name: Deferred(Path("params", (name,)), self.defaults.get(name, msgspec.UNSET)) for name in self.names}

    def bind(self, given: Mapping[str, object], *, deferred: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Return all parameters as JSON, with defaults filled in. Raises Refused with all faults.

        Parameters in `deferred` are optional, and omitted if not given.
        """
        missing = [
            name for name in self.names if name not in self.defaults and name not in given and name not in deferred
        ]
        faults = [
            Fault(where=name, why=f"unknown parameter{did_you_mean(name, self.names)}")
            for name in given
            if name not in self.names
        ]
        faults += [Fault(where=name, why="is required") for name in missing]
        values = dict(self.defaults)
        for name in self.names:
            if name not in given:
                continue
            try:
                values[name] = as_json(given[name], name)
            except Refused as refused:
                faults.append(Fault(where=name, why=str(refused).removeprefix(f"{name}: ")))
                continue
            fault = self._fault(name, values[name])
            faults += [fault] if fault is not None else []
        if faults:
            raise Refused(f"{self._job}: invalid parameters", faults)
        return {name: values[name] for name in self.names if name in given or (name in values and name not in deferred)}

    def _fault(self, name: str, value: object) -> Fault | None:
        if name not in self._types:
            return None
        try:
            msgspec.convert(value, self._types[name])
        except msgspec.ValidationError as error:
            why, _, location = str(error).partition(" - at `$")
            return Fault(where=name + location.removesuffix("`"), why=f"does not match its declared type: {why}")
        except TypeError:
            return None  # A type that JSON can't express.
        return None
