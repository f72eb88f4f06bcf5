"""Placeholders for values that are known only at run time: job parameters, task outputs, and conditions on them.

    check["ok"], check.rows[0]       a part of the value
    check.rows > 0                   a condition, for `task.if_(..)`
    (check.rows > 0) & ~check.old    conditions are combined with & and |, and negated with ~

No other operation is possible: code that needs the value belongs in a task, and is refused here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import msgspec

from mainspring.core.graph.references import MARK, Path, escape, write_path
from mainspring.protocol.errors import Refused

Needs = dict[str, None]
"""Names of the tasks whose outputs are used, in order."""


class Deferred:
    """A value that is known only at run time."""

    __slots__ = ("_default", "_path")
    __hash__ = object.__hash__
    _path: Path
    _default: object

    def __init__(self, path: Path, default: object = msgspec.UNSET) -> None:
        object.__setattr__(self, "_path", path)
        object.__setattr__(self, "_default", default)

    def __getitem__(self, key: object) -> Deferred:
        if isinstance(key, bool) or not isinstance(key, str | int) or (isinstance(key, int) and key < 0):
            raise Refused(f"{format_reference(self)}[{key!r}]: use a key, or an index from 0")
        path = Path(self._path.root, (*self._path.steps, key))
        if write_path(path) is None:
            raise Refused(
                f"{format_reference(self)}[{key!r}]: a key can't contain a backslash, or both kinds of quotes"
            )
        return Deferred(path, _part_of(self._default, key))

    def __getattr__(self, name: str) -> Deferred:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise Refused(f"{format_reference(self)} can't be changed: it is known only at run time")

    def __repr__(self) -> str:
        return f"<{format_reference(self)}, known at run time>"

    def __bool__(self) -> NoReturn:
        raise _unknown(
            self,
            "`if`, `and`, `or` and `not` can't use it: write task.if_(condition)(..), and combine with & and |",
        )

    def __iter__(self) -> Iterator[NoReturn]:
        raise _unknown(self, "it can't be iterated: write task.map(list), which creates a task per item")

    def __len__(self) -> NoReturn:
        raise _unknown(self, "its length is unknown: use len() in a task")

    def __contains__(self, _item: object) -> NoReturn:
        raise _unknown(self, "its content is unknown: use `in` in a task")

    def __str__(self) -> str:
        raise _unknown(self, "it can't be formatted as text: build the text in a task")

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
        raise _unknown(self, "it can't be used in arithmetic: compute in a task")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _compute
    __floordiv__ = __mod__ = __pow__ = __neg__ = __int__ = __float__ = __index__ = _compute


class Condition:
    """A boolean that is known at run time."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[tuple[str | None, str], ...]) -> None:
        self.parts = parts
        """Its expressions, all of which must be true, each with the task whose output it uses."""

    def __and__(self, other: object) -> Condition:
        return Condition(self.parts + condition_of(other).parts)

    def __or__(self, other: object) -> Condition:
        (one, left), (two, right) = self._joined(), condition_of(other)._joined()
        return Condition(((_common(one, two), f"({left}) or ({right})"),))

    def __invert__(self) -> Condition:
        node, text = self._joined()
        return Condition(((node, f"not ({text})"),))

    def __bool__(self) -> NoReturn:
        raise Refused(
            "a condition is evaluated at run time: write task.if_(condition)(..) instead of `if`, "
            "and combine conditions with & and |"
        )

    def __repr__(self) -> str:
        return f"<condition {' and '.join(text for _, text in self.parts)}>"

    def _joined(self) -> tuple[str | None, str]:
        """Join the parts into one expression, which can use a single output."""
        node: str | None = None
        for other, _ in self.parts:
            node = _common(node, other)
        return node, join_conditions([text for _, text in self.parts])


def format_reference(deferred: Deferred) -> str:
    """Format a deferred value as written in code."""
    path = deferred._path
    if path.root == "item":
        return write_path(path) or path.root
    return (write_path(Path("outputs", path.steps)) or path.root).removeprefix("outputs").removeprefix(".")


def node_of(deferred: Deferred) -> str | None:
    """Return the task whose output a value is, or is part of; None otherwise."""
    return str(deferred._path.steps[0]) if deferred._path.root == "outputs" else None


def condition_of(value: object) -> Condition:
    """Convert a value to a condition. Raises Refused if it is not deferred."""
    if isinstance(value, Condition):
        return value
    if isinstance(value, Deferred):
        return Condition(((node_of(value), _expression(value)),))
    raise Refused(f"{value!r:.60} is not a condition: compare an output or a parameter, as in check.rows > 0")


def join_conditions(texts: Sequence[str]) -> str:
    """Return the expression that is true if all of these are."""
    return texts[0] if len(texts) == 1 else " and ".join(f"({text})" for text in texts)


def as_for_each(deferred: Deferred) -> str:
    """Return a deferred value as the expression of a fan-out."""
    path = write_path(deferred._path)
    assert path is not None
    if deferred._default is msgspec.UNSET or node_of(deferred) is not None:
        return path
    if not isinstance(deferred._default, list):
        raise Refused(
            f"{format_reference(deferred)} defaults to {deferred._default!r:.60}, which is not a list: .map needs one"
        )
    return f"{path}|default({msgspec.json.encode(deferred._default).decode()})"


def encode_value(value: object, where: str, needs: Needs) -> object:
    """Encode a value for the `values` of a call (`core/graph/references.py`). Raises Refused if JSON can't."""
    if isinstance(value, Deferred):
        node = node_of(value)
        if node is not None:
            needs[node] = None
        reference: dict[str, object] = {MARK: write_path(value._path)}
        if value._default is not msgspec.UNSET:
            reference["default"] = encode_value(value._default, where, needs)
        return reference
    if isinstance(value, Condition):
        raise Refused(f"{where}: a condition can't be an argument; use task.if_(..)")
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [encode_value(one, where, needs) for one in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise Refused(f"{where}: keys must be strings")
        return {escape(key): encode_value(one, where, needs) for key, one in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return encode_value(fields, where, needs)
    plain = as_json(value, where)
    return encode_value(plain, where, needs) if isinstance(plain, list | dict) else plain


def as_json(value: object, where: str) -> Any:
    """Convert a value to JSON types. Raises Refused if that is impossible."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True)
        msgspec.json.encode(plain)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise Refused(f"{where}: {value!r:.60} can't be written as JSON: {error}") from None
    return plain


def _compare(deferred: Deferred, sign: str, other: object) -> Condition:
    node = node_of(deferred)
    if isinstance(other, Deferred):
        node = _common(node, node_of(other))
        right = _expression(other)
    else:
        right = _literal(as_json(other, f"{format_reference(deferred)} {sign}"))
    return Condition(((node, f"{_expression(deferred)} {sign} {right}"),))


def _expression(deferred: Deferred) -> str:
    """Return a value as an expression; the output of the condition's edge is `output`."""
    path = deferred._path
    if path.root == "outputs":
        inside = write_path(Path("params", path.steps[1:])) or ""
        return f"output{inside.removeprefix('params')}"
    text = write_path(path)
    assert text is not None
    return text if deferred._default is msgspec.UNSET else f"({text}|default({_literal(deferred._default)}))"


def _literal(value: object) -> str:
    """Return a constant as an expression: JSON, except null."""
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
            f"one condition can't use the outputs of both {one} and {other}: combine one condition for each with &, or "
            "compare them in a task"
        )
    return other if one is None else one


def _part_of(default: Any, key: str | int) -> object:
    """Return the part of a default under a key, or UNSET."""
    try:
        return default[key]
    except (LookupError, TypeError):
        return msgspec.UNSET


def _unknown(deferred: Deferred, why: str) -> Refused:
    return Refused(f"{format_reference(deferred)} is known only at run time: {why}")
