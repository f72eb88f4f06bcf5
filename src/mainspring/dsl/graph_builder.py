"""Build a graph from the body of a job: the body runs once, and each call of a task adds a node.

1. A node depends on the nodes whose outputs are used in its arguments, items or conditions.
2. Names are unique: `fetch`, `fetch-2`, or the name given to `.named(..)`.
3. The result is a definition for `POST /jobs`, and the server's validation is applied to it (`dsl/job.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from mainspring.core.graph.references import Path
from mainspring.dsl.deferred import (
    Condition,
    Deferred,
    Needs,
    as_for_each,
    as_json,
    encode_value,
    join_conditions,
    node_of,
)
from mainspring.protocol.errors import Refused

_GATE = "start"


class CallOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one call of a task, besides its arguments."""

    name: str | None = None
    conditions: tuple[Condition, ...] = ()
    after: tuple[str, ...] = ()
    label: str | None = None
    even_if_skipped: bool = False


class Recorder:
    """The graph of a job while it is being built."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, object]] = {}
        """Node definitions by name, in the order of the calls."""
        self.handlers: dict[str, object] = {}
        """The called tasks, by handler name."""

    def register(self, handler: str, task: object) -> None:
        """Register the task of a handler name. Raises Refused if another task has the same name."""
        if self.handlers.setdefault(handler, task) is not task:
            raise Refused(f"two tasks are named {handler!r}: a worker can't serve both; rename one with @task(name=..)")

    def add(
        self,
        work: Mapping[str, object],
        fields: Mapping[str, object],
        arguments: Mapping[str, object],
        call_options: CallOptions,
        *,
        items: object = msgspec.UNSET,
    ) -> Deferred:
        """Add a node for a call; with `items`, a fan-out."""
        name = self._name(str(work["handler"]), call_options.name)
        needs: Needs = {}
        values = {key: encode_value(value, f"{name}({key})", needs) for key, value in arguments.items()}
        for_each = None if items is msgspec.UNSET else _for_each(items, name, needs)
        needs.update(dict.fromkeys(call_options.after))
        edges = self._edges(name, needs, call_options.conditions)
        optional = {
            "needs": edges,
            "for_each": for_each,
            "label": call_options.label,
            "on_skip": "run" if call_options.even_if_skipped else None,
        }
        given = {field: value for field, value in optional.items() if value not in (None, [])}
        self.nodes[name] = {"name": name, "work": {**work, "values": values}, **fields, **given}
        return Deferred(Path("outputs", (name,)), msgspec.UNSET if for_each is None else [])

    def _name(self, handler: str, wanted: str | None) -> str:
        if wanted is not None:
            if wanted in self.nodes:
                raise Refused(f"two tasks of the job are named {wanted!r}: names must be unique")
            return wanted
        name, number = handler.lower(), 1
        while name in self.nodes:
            number += 1
            name = f"{handler.lower()}-{number}"
        return name

    def _edges(self, name: str, needs: Needs, conditions: tuple[Condition, ...]) -> list[dict[str, str]]:
        """Return the dependencies of a node, with the condition of each edge."""
        asked: dict[str, list[str]] = {}
        of_params: list[str] = []
        for condition in conditions:
            for node, text in condition.parts:
                if node is None:
                    of_params.append(text)
                else:
                    needs[node] = None
                    asked.setdefault(node, []).append(text)
        if of_params:
            # Conditions belong to edges, so a node without dependencies gets an edge from an empty task.
            if not needs:
                needs[self._gate()] = None
            asked.setdefault(next(iter(needs)), []).extend(of_params)
        unknown = next((node for node in needs if node not in self.nodes), None)
        if unknown is not None:
            raise Refused(f"{name} uses {unknown}, which belongs to another job")
        return [{"task": node, **({"when": join_conditions(asked[node])} if node in asked else {})} for node in needs]

    def _gate(self) -> str:
        if _GATE not in self.nodes:
            self.nodes[_GATE] = {"name": _GATE}
        elif "work" in self.nodes[_GATE]:
            raise Refused(f"a task can't be named {_GATE!r} if another task's condition uses only parameters")
        return _GATE


_recorder: ContextVar[Recorder | None] = ContextVar("mainspring_recorder", default=None)


def recorder() -> Recorder | None:
    """Return the recorder of the job body that is running; None outside of one."""
    return _recorder.get()


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record the task calls in this block."""
    if _recorder.get() is not None:
        raise Refused("a job can't be recorded in the body of another job")
    found = Recorder()
    before = _recorder.set(found)
    try:
        yield found
    finally:
        _recorder.reset(before)


def name_of(output: object) -> str:
    """Return the task whose output this is. Raises Refused otherwise."""
    node = node_of(output) if isinstance(output, Deferred) else None
    if node is None:
        raise Refused(f"{output!r:.60} is not the output of a task")
    return node


def _for_each(items: object, name: str, needs: Needs) -> str:
    if isinstance(items, Deferred):
        node = node_of(items)
        if node is not None:
            needs[node] = None
        return as_for_each(items)
    if isinstance(items, Mapping | str | bytes) or not hasattr(items, "__iter__"):
        raise Refused(f"{name}.map({items!r:.60}): pass a list, a parameter or an output")
    found = list(items)
    if any(isinstance(item, Deferred) for item in found):
        raise Refused(f"{name}.map: a literal list can't contain values that are known only at run time")
    return msgspec.json.encode(as_json(found, f"{name}.map")).decode()
