"""The parameters of a job: stand-ins for its body, and checks for whoever gives them.

The types that the function declares are what is taken: plain types, dataclasses, TypedDicts, msgspec structs, dates.
What goes over the wire is JSON; a value is converted to its type once to see whether it fits.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mainspring.core.graph.references import Path
from mainspring.core.text.suggestions import did_you_mean
from mainspring.dsl.deferred import Later, as_json
from mainspring.protocol.errors import Fault, Refused
from mainspring.task_context.signatures import declared_types

RESERVED = frozenset({"finish_by", "idempotency_key", "priority", "start_at"})
"""What `trigger` takes besides the parameters."""
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class JobParams:
    """What can be given to a job."""

    def __init__(self, fn: Callable[..., object], job: str) -> None:
        self._job = job
        self._types = declared_types(fn)
        self.defaults: dict[str, Any] = {}
        """As JSON."""
        self.names: tuple[str, ...] = tuple(inspect.signature(fn).parameters)
        for name, one in inspect.signature(fn).parameters.items():
            if one.kind not in _BY_NAME:
                raise Refused(f"@job {job}: the parameters of a job have names: no *args, **kwargs or positional-only")
            if name in RESERVED:
                raise Refused(
                    f"@job {job}: a parameter can't be called {name!r}: .trigger() has an argument of that name"
                )
            if one.default is not inspect.Parameter.empty:
                self.defaults[name] = as_json(one.default, f"@job {job}({name})")
        faults = [fault for name, value in self.defaults.items() if (fault := self._fault(name, value)) is not None]
        if faults:
            raise Refused(f"@job {job}: a default is not of the type that is declared", faults)

    def stand_ins(self) -> dict[str, Later]:
        """What the body is called with."""
        return {name: Later(Path("params", (name,)), self.defaults.get(name, msgspec.UNSET)) for name in self.names}

    def bind(self, given: Mapping[str, object], *, later: frozenset[str] = frozenset()) -> dict[str, Any]:
        """All parameters as JSON, with the defaults for those that are not given. Raises Refused, with every fault.

        Those that come `later` need not be given, and are left out if they are not.
        """
        missing = [name for name in self.names if name not in self.defaults and name not in given and name not in later]
        faults = [
            Fault(where=name, why=f"there is no such parameter{did_you_mean(name, self.names)}")
            for name in given
            if name not in self.names
        ]
        faults += [Fault(where=name, why="is missing, and has no default") for name in missing]
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
            raise Refused(f"{self._job} can't be run with these parameters", faults)
        return {name: values[name] for name in self.names if name in given or (name in values and name not in later)}

    def _fault(self, name: str, value: object) -> Fault | None:
        if name not in self._types:
            return None
        try:
            msgspec.convert(value, self._types[name])
        except msgspec.ValidationError as error:
            why, _, place = str(error).partition(" - at `$")
            return Fault(where=name + place.removesuffix("`"), why=f"is not what is declared: {why}")
        except TypeError:
            return None  # A type that JSON says nothing about.
        return None
