"""Stand-ins for what is known only when a job runs: its parameters, the outputs of its tasks, and what compares them.

    check["ok"], check.rows[0]       a part of it
    check.rows > 0                   a condition, for `task.if_(..)`
    (check.rows > 0) & ~check.old    conditions are joined by & and |, and turned around by ~

Nothing else can be done with one: whatever looks at the value itself belongs into a task, and is refused here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from mainspring.core.graph.references import MARK, Path, escape, write_path
from mainspring.protocol.errors import Refused

Needs = dict[str, None]
"""The names of the tasks whose outputs something uses, in order."""


class Later:
    """A value that is known only when the job runs."""

    __slots__ = ("_default", "_path")
    __hash__ = object.__hash__
    _path: Path
    _default: object

    def __init__(self, path: Path, default: object = msgspec.UNSET) -> None:
        object.__setattr__(self, "_path", path)
        object.__setattr__(self, "_default", default)

    def __getitem__(self, key: object) -> Later:
        if isinstance(key, bool) or not isinstance(key, str | int) or (isinstance(key, int) and key < 0):
            raise Refused(f"{say(self)}[{key!r}]: a part is named by a key, or by its place from 0")
        path = Path(self._path.root, (*self._path.steps, key))
        if write_path(path) is None:
            raise Refused(f"{say(self)}[{key!r}]: a key can't have a backslash, or both kinds of quotes")
        return Later(path, _part_of(self._default, key))

    def __getattr__(self, name: str) -> Later:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise Refused(f"{say(self)} can't be changed: it is known only when the job runs")

    def __repr__(self) -> str:
        return f"<{say(self)}, known when the job runs>"

    def __bool__(self) -> NoReturn:
        raise _unknown(
            self,
            "`if`, `and`, `or` and `not` can't ask for it: write task.if_(condition)(..), and join several by & and |",
        )

    def __iter__(self) -> Iterator[NoReturn]:
        raise _unknown(self, "it can't be iterated over: write task.map(list), which makes a task for each item")

    def __len__(self) -> NoReturn:
        raise _unknown(self, "nor is its length: count in a task")

    def __contains__(self, _item: object) -> NoReturn:
        raise _unknown(self, "nor is what it contains: look in a task")

    def __str__(self) -> str:
        raise _unknown(self, "it can't become part of a text here: write the text in a task")

    def __format__(self, spec: str) -> str:
        return str(self)

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise _unknown(self, "it can't be called: call it in a task")

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return _compare(self, "==", other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return _compare(self, "!=", other)

    def __lt__(self, other: object) -> Condition:
        return _compare(self, "<", other)

    def __le__(self, other: object) -> Condition:
        return _compare(self, "<=", other)

    def __gt__(self, other: object) -> Condition:
        return _compare(self, ">", other)

    def __ge__(self, other: object) -> Condition:
        return _compare(self, ">=", other)

    def __and__(self, other: object) -> Condition:
        return condition_of(self) & other

    def __or__(self, other: object) -> Condition:
        return condition_of(self) | other

    def __invert__(self) -> Condition:
        return ~condition_of(self)

    def _compute(self, *_others: object) -> NoReturn:
        raise _unknown(self, "nothing can be computed with it here: compute in a task")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _compute
    __floordiv__ = __mod__ = __pow__ = __neg__ = __int__ = __float__ = __index__ = _compute


class Condition:
    """Something that will be true or false: for each task whose output it asks about, an expression."""

    __slots__ = ("_parts",)

    def __init__(self, parts: tuple[tuple[str | None, str], ...]) -> None:
        self._parts = parts

    def __and__(self, other: object) -> Condition:
        return Condition(self._parts + condition_of(other)._parts)

    def __or__(self, other: object) -> Condition:
        (one, left), (two, right) = self._joined(), condition_of(other)._joined()
        return Condition(((_common(one, two), f"({left}) or ({right})"),))

    def __invert__(self) -> Condition:
        node, text = self._joined()
        return Condition(((node, f"not ({text})"),))

    def __bool__(self) -> NoReturn:
        raise Refused(
            "a condition is true or false only when the job runs: write task.if_(condition)(..) in place of `if`, "
            "and join conditions by & and |"
        )

    def __repr__(self) -> str:
        return f"<condition {' and '.join(text for _, text in self._parts)}>"

    def _joined(self) -> tuple[str | None, str]:
        """All of it as one expression, which can ask about one output only."""
        node: str | None = None
        for other, _ in self._parts:
            node = _common(node, other)
        return node, " and ".join(f"({text})" if len(self._parts) > 1 else text for _, text in self._parts)


def say(later: Later) -> str:
    """A stand-in as people write it."""
    path = later._path
    if path.root == "item":
        return write_path(path) or path.root
    return (write_path(Path("outputs", path.steps)) or path.root).removeprefix("outputs").removeprefix(".")


def node_of(later: Later) -> str | None:
    """The task whose output a stand-in is, or is a part of; None if it is none."""
    return str(later._path.steps[0]) if later._path.root == "outputs" else None


def condition_of(value: object) -> Condition:
    """What is true if a value is. Raises Refused for what is no condition."""
    if isinstance(value, Condition):
        return value
    if isinstance(value, Later):
        return Condition(((node_of(value), _expression(value)),))
    raise Refused(f"{value!r:.60} is no condition: it asks about an output or a parameter, as in check.rows > 0")


def parts_of(condition: Condition) -> tuple[tuple[str | None, str], ...]:
    """The expressions of a condition, all of which must be true, each with the task whose output it asks about."""
    return condition._parts


def as_for_each(later: Later) -> str:
    """A stand-in as the expression of a fan-out."""
    path = write_path(later._path)
    assert path is not None
    if later._default is msgspec.UNSET or node_of(later) is not None:
        return path
    if not isinstance(later._default, list):
        raise Refused(
            f"{say(later)} is {later._default!r:.60} unless somebody says otherwise, and no list: .map needs one"
        )
    return f"{path}|default({msgspec.json.encode(later._default).decode()})"


def written(value: object, where: str, needs: Needs) -> object:
    """A value as `values` of a call have it (`core/graph/references.py`). Raises Refused for what JSON can't say."""
    if isinstance(value, Later):
        node = node_of(value)
        if node is not None:
            needs[node] = None
        reference: dict[str, object] = {MARK: write_path(value._path)}
        if value._default is not msgspec.UNSET:
            reference["default"] = written(value._default, where, needs)
        return reference
    if isinstance(value, Condition):
        raise Refused(f"{where}: a condition is for task.if_(..), and no argument")
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [written(one, where, needs) for one in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise Refused(f"{where}: the keys of an object are texts")
        return {escape(key): written(one, where, needs) for key, one in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return written(fields, where, needs)
    plain = as_json(value, where)
    return written(plain, where, needs) if isinstance(plain, list | dict) else plain


def as_json(value: object, where: str) -> Any:
    """A value as JSON has it. Raises Refused if it can't."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True)
        msgspec.json.encode(plain)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise Refused(f"{where}: {value!r:.60} can't be written as JSON: {error}") from None
    return plain


def _compare(later: Later, sign: str, other: object) -> Condition:
    node = node_of(later)
    if isinstance(other, Later):
        node = _common(node, node_of(other))
        right = _expression(other)
    else:
        right = _literal(as_json(other, f"{say(later)} {sign}"))
    return Condition(((node, f"{_expression(later)} {sign} {right}"),))


def _expression(later: Later) -> str:
    """A stand-in as a condition names it: the output of the edge that it stands on is `output`."""
    path = later._path
    if path.root == "outputs":
        inside = write_path(Path("params", path.steps[1:])) or ""
        return f"output{inside.removeprefix('params')}"
    text = write_path(path)
    assert text is not None
    return text if later._default is msgspec.UNSET else f"({text}|default({_literal(later._default)}))"


def _literal(value: object) -> str:
    """A constant as an expression has it: JSON, but for null."""
    match value:
        case None:
            return "none"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case dict():
            return f"{{{', '.join(f'{_literal(key)}: {_literal(one)}' for key, one in value.items())}}}"
        case _:
            return msgspec.json.encode(value).decode()


def _common(one: str | None, other: str | None) -> str | None:
    if one is not None and other is not None and one != other:
        raise Refused(
            f"one condition can't ask about the outputs of {one} and {other} together: join one about each by &, or "
            "compare them in a task"
        )
    return other if one is None else one


def _part_of(default: Any, key: str | int) -> object:
    """The part of a default that a key names; nothing if it has none."""
    try:
        return default[key]
    except (LookupError, TypeError):
        return msgspec.UNSET


def _unknown(later: Later, why: str) -> Refused:
    return Refused(f"{say(later)} is known only when the job runs: {why}")
