"""Plain paths into what a task is given, and values that have such paths in them.

    outputs.list.files       into the outputs of what the task needs, by their names
    params.cities            into the run's parameters
    item.name                into what a task of a fan-out is for

A path is walked in the JSON itself, without the bounds of expressions and without a change of type. In the `values` of
a function call (`core/work/work.py`) an object with the key `$` stands for what its path leads to, and everything else
for itself, texts with braces in them too:

    {"rows": {"$": "outputs.fetch"}, "day": {"$": "params.day", "default": "today"}, "title": "{{ as it is }}"}

A key of the user's that begins with `$` is written with one `$` more. What there is no output of (its task was skipped,
or failed where the job goes on regardless) is null unless a default says otherwise, and so is whatever is looked for in
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from mainspring.core.expressions.values import JsonValue
from mainspring.protocol.errors import ExpressionFailed, Fault

MARK = "$"
_DEFAULT = "default"
_PATH = re.compile(r"(outputs|params|item)((?:\.[A-Za-z_]\w*|\['[^'\\]*'\]|\[\"[^\"\\]*\"\]|\[\d{1,9}\])*)", re.ASCII)
_STEP = re.compile(r"\.(\w+)|\['([^']*)'\]|\[\"([^\"]*)\"\]|\[(\d+)\]")
_NULL = msgspec.Raw(b"null")


class Path(msgspec.Struct, frozen=True):
    """A way into what a task is given: a key is a text, a place in a list a number."""

    root: str
    steps: tuple[str | int, ...]


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What paths lead into, as JSON."""

    outputs: Mapping[str, str | None]
    """By the name of the task."""
    params: str
    item: str | None = None


def read_path(text: str) -> Path | None:
    """The path that a text is; None if it is none."""
    match = _PATH.fullmatch(text)
    if match is None:
        return None
    steps = _STEP.findall(match[2])
    return Path(match[1], tuple(int(number) if number else name or one or two for name, one, two, number in steps))


def write_path(path: Path) -> str | None:
    """A path as a text; None if it has a key that can't be said."""
    written = [path.root]
    for step in path.steps:
        if isinstance(step, int):
            written.append(f"[{step}]")
        elif step.isidentifier() and step.isascii() and not step.startswith("_"):
            written.append(f".{step}")
        else:
            written.append(f"['{step}']" if "'" not in step else f'["{step}"]')
    text = "".join(written)
    return text if read_path(text) == path else None


def walk(path: Path, given: Given) -> msgspec.Raw:
    """What a path leads to, by reading only what is on the way. Raises ExpressionFailed if it leads nowhere."""
    if path.root == "outputs":
        if not path.steps:
            raise ExpressionFailed("`outputs` is no list: name the task whose output has it, as in outputs.list")
        if path.steps[0] not in given.outputs:
            raise ExpressionFailed(f"it uses the output of `{path.steps[0]}`, and the task does not need that one")
    end = _walk(path, given)
    if isinstance(end, msgspec.Raw):
        return end
    raise ExpressionFailed(end)


def find(path: Path, given: Given) -> msgspec.Raw | None:
    """What a path leads to; None if it leads nowhere."""
    end = _walk(path, given)
    return end if isinstance(end, msgspec.Raw) else None


def resolve(raw: msgspec.Raw, given: Given) -> object:
    """A value with what its references stand for. Raises ExpressionFailed if one leads nowhere."""
    if b'"$' not in bytes(raw):
        return msgspec.json.decode(raw)
    return _resolve(msgspec.json.decode(raw), given)


def faults_in(values: Mapping[str, msgspec.Raw], where: str) -> Iterator[Fault]:
    """What is wrong with the references in these values, each with its path."""
    for name, raw in values.items():
        if b'"$' not in bytes(raw):
            continue
        for why in _faults_in(msgspec.json.decode(raw)):
            yield Fault(where=f"{where}.{name[:40]}", why=why)


def escape(key: str) -> str:
    """A key of the user's, as it stands in a value."""
    return MARK + key if key.startswith(MARK) else key


def _walk(path: Path, given: Given) -> msgspec.Raw | str:
    """What a path leads to, or why it leads nowhere."""
    name, steps = path.root, path.steps
    if name == "outputs":
        name, steps = str(steps[0]), steps[1:]
        text = given.outputs.get(name) or "null"
    else:
        text = given.params if name == "params" else given.item or "null"
    value = msgspec.Raw(text.encode())
    for step in steps:
        try:
            value = _step(value, step)
        except (msgspec.DecodeError, RecursionError):
            return f"`{name}` is no {'list' if isinstance(step, int) else 'object'}"
        except LookupError:
            return f"`{name}` has no `{step}`"
        name = str(step)
    return value


def _step(value: msgspec.Raw, step: str | int) -> msgspec.Raw:
    if isinstance(step, int):
        return msgspec.json.decode(value, type=list[msgspec.Raw])[step]
    return msgspec.json.decode(value, type=dict[str, msgspec.Raw])[step]


def _resolve(value: JsonValue, given: Given) -> object:
    match value:
        case dict() if MARK in value:
            return _stands_for(value, given)
        case dict():
            return {
                key.removeprefix(MARK) if key.startswith(MARK) else key: _resolve(one, given)
                for key, one in value.items()
            }
        case list():
            return [_resolve(one, given) for one in value]
        case _:
            return value


def _stands_for(reference: dict[str, JsonValue], given: Given) -> object:
    path = read_path(str(reference[MARK]))
    if path is None:
        raise ExpressionFailed(f"`{str(reference[MARK])[:60]}` is no path")
    if path.root == "outputs" and given.outputs.get(str(path.steps[0])) is None:
        return reference.get(_DEFAULT)
    if _DEFAULT in reference:
        found = find(path, given)
        return _resolve(reference[_DEFAULT], given) if found is None else msgspec.json.decode(found)
    return msgspec.json.decode(walk(path, given))


def _faults_in(value: JsonValue) -> Iterator[str]:
    match value:
        case dict() if MARK in value:
            text = value[MARK]
            path = read_path(text) if isinstance(text, str) else None
            if path is None or (path.root == "outputs" and not path.steps):
                yield f"{str(text)[:60]!r} is no path such as outputs.fetch.rows, params.day or item"
            elif unknown := value.keys() - {MARK, _DEFAULT}:
                yield f"a reference has `{MARK}` and perhaps `{_DEFAULT}`, not {min(unknown)[:40]!r}"
            yield from _faults_in(value.get(_DEFAULT))
        case dict():
            for one in value.values():
                yield from _faults_in(one)
        case list():
            for one in value:
                yield from _faults_in(one)
        case _:
            return
