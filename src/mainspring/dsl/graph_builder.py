"""From the body of a job to a graph: while it runs once, each call of a task makes a node.

1. A node comes after the nodes whose outputs are its arguments, its items or in its conditions.
2. Names are used once: `fetch`, `fetch-2`, or what `.named(..)` says.
3. What is recorded is a definition as `POST /jobs` takes it, and the server's rules are asked about it (`dsl/job.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from mainspring.core.graph.references import Path
from mainspring.dsl.deferred import Condition, Later, Needs, as_for_each, as_json, node_of, parts_of, written
from mainspring.protocol.errors import Refused

_GATE = "start"


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What a job says of one call of a task, besides its arguments."""

    name: str | None = None
    conditions: tuple[Condition, ...] = ()
    after: tuple[str, ...] = ()
    label: str | None = None
    even_if_skipped: bool = False


class Recorder:
    """The graph of a job in the making."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, object]] = {}
        """By name, each as a definition has it, in the order of the calls."""
        self.handlers: dict[str, object] = {}
        """The tasks that are called, by the name of their handler."""

    def note(self, handler: str, task: object) -> None:
        """A task is called that is served under this name. Raises Refused if another one is too."""
        if self.handlers.setdefault(handler, task) is not task:
            raise Refused(
                f"two tasks are named {handler!r}: one worker can't serve both, so name one by @task(name=..)"
            )

    def add(
        self,
        work: Mapping[str, object],
        fields: Mapping[str, object],
        arguments: Mapping[str, object],
        wishes: Wishes,
        *,
        items: object = msgspec.UNSET,
    ) -> Later:
        """A task is called: with `items`, once for each of them."""
        name = self._name(str(work["handler"]), wishes.name)
        needs: Needs = {}
        values = {key: written(value, f"{name}({key})", needs) for key, value in arguments.items()}
        for_each = None if items is msgspec.UNSET else _for_each(items, name, needs)
        needs.update(dict.fromkeys(wishes.after))
        edges = self._edges(name, needs, wishes.conditions)
        optional = {
            "needs": edges,
            "for_each": for_each,
            "label": wishes.label,
            "on_skip": "run" if wishes.even_if_skipped else None,
        }
        said = {field: value for field, value in optional.items() if value not in (None, [])}
        self.nodes[name] = {"name": name, "work": {**work, "values": values}, **fields, **said}
        return Later(Path("outputs", (name,)), msgspec.UNSET if for_each is None else [])

    def _name(self, handler: str, wanted: str | None) -> str:
        if wanted is not None:
            if wanted in self.nodes:
                raise Refused(f"there are two tasks named {wanted!r}: a name is used once in a job")
            return wanted
        name, number = handler.lower(), 1
        while name in self.nodes:
            number += 1
            name = f"{handler.lower()}-{number}"
        return name

    def _edges(self, name: str, needs: Needs, conditions: tuple[Condition, ...]) -> list[dict[str, str]]:
        """What a node needs, and the condition of each edge."""
        asked: dict[str, list[str]] = {}
        of_params: list[str] = []
        for condition in conditions:
            for node, text in parts_of(condition):
                if node is None:
                    of_params.append(text)
                else:
                    needs[node] = None
                    asked.setdefault(node, []).append(text)
        if of_params:
            # A condition stands on an edge, so what comes after nothing comes after a task that does nothing.
            if not needs:
                needs[self._gate()] = None
            asked.setdefault(next(iter(needs)), []).extend(of_params)
        unknown = next((node for node in needs if node not in self.nodes), None)
        if unknown is not None:
            raise Refused(f"{name} uses {unknown}, which is of another job")
        return [{"task": node, **({"when": _all(asked[node])} if node in asked else {})} for node in needs]

    def _gate(self) -> str:
        if _GATE not in self.nodes:
            self.nodes[_GATE] = {"name": _GATE}
        elif "work" in self.nodes[_GATE]:
            raise Refused(f"a task can't be named {_GATE!r} where another one depends on parameters only")
        return _GATE


_recorder: ContextVar[Recorder | None] = ContextVar("mainspring_recorder", default=None)


def recorder() -> Recorder | None:
    """Whoever records the body that is running; None outside of a job's body."""
    return _recorder.get()


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record what is called in this block."""
    if _recorder.get() is not None:
        raise Refused("a job can't be recorded in the body of another one")
    before = _recorder.set(Recorder())
    try:
        found = _recorder.get()
        assert found is not None
        yield found
    finally:
        _recorder.reset(before)


def name_of(output: object) -> str:
    """The task whose output this is. Raises Refused if it is none."""
    node = node_of(output) if isinstance(output, Later) else None
    if node is None:
        raise Refused(f"{output!r:.60} is no output of a task")
    return node


def _for_each(items: object, name: str, needs: Needs) -> str:
    if isinstance(items, Later):
        node = node_of(items)
        if node is not None:
            needs[node] = None
        return as_for_each(items)
    if isinstance(items, Mapping | str | bytes) or not hasattr(items, "__iter__"):
        raise Refused(f"{name}.map({items!r:.60}): it takes a list, a parameter or an output")
    found = list(items)
    if any(isinstance(item, Later) for item in found):
        raise Refused(f"{name}.map: the items of a list that is written here can't be known only when the job runs")
    return msgspec.json.encode(as_json(found, f"{name}.map")).decode()


def _all(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else " and ".join(f"({text})" for text in texts)
