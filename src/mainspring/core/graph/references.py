"""Plain paths into the inputs of a task, and values that contain such references.

    outputs.list.files       into the outputs of upstream tasks, by task name
    params.cities            into the run's parameters
    item.name                into the item of a fan-out task

A path is resolved in the JSON itself, without the limits of expressions and without type conversion. In the `values` of
a function call (`core/work/work.py`) an object with the key `$` is replaced by the value of its path; everything else
is literal, including text with braces:

    {"rows": {"$": "outputs.fetch"}, "day": {"$": "params.day", "default": "today"}, "title": "{{ as it is }}"}

A literal key that begins with `$` is written with a second `$`. A missing output (its task was skipped, or failed where
the job continues regardless) is null unless there is a default, and so is every path into it.
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
    """A parsed path: keys are text, list indexes are integers."""

    root: str
    steps: tuple[str | int, ...]


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs that paths lead into, as JSON."""

    outputs: Mapping[str, str | None]
    """By task name."""
    params: str
    item: str | None = None


def read_path(text: str) -> Path | None:
    """Parse a path; None if it is invalid."""
    match = _PATH.fullmatch(text)
    if match is None:
        return None
    steps = _STEP.findall(match[2])
    return Path(match[1], tuple(int(number) if number else name or one or two for name, one, two, number in steps))


def write_path(path: Path) -> str | None:
    """Format a path; None if a key can't be expressed."""
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


def walk(path: Path, given: Inputs) -> msgspec.Raw:
    """Resolve a path, decoding only what is on the way. Raises ExpressionFailed if it does not exist."""
    if path.root == "outputs":
        if not path.steps:
            raise ExpressionFailed("`outputs` is not a list: name the task, as in outputs.list")
        if path.steps[0] not in given.outputs:
            raise ExpressionFailed(f"uses the output of `{path.steps[0]}`, which the task does not need")
    return _walk(path, given)


def find(path: Path, given: Inputs) -> msgspec.Raw | None:
    """Resolve a path; None if it does not exist."""
    try:
        return _walk(path, given)
    except ExpressionFailed:
        return None


def resolve(raw: msgspec.Raw, given: Inputs) -> object:
    """Return a value with its references resolved. Raises ExpressionFailed if one does not exist."""
    if b'"$' not in bytes(raw):
        return msgspec.json.decode(raw)
    return _resolve(msgspec.json.decode(raw), given)


def faults_in(values: Mapping[str, msgspec.Raw], where: str) -> Iterator[Fault]:
    """Yield the faults in the references of these values, each with its path."""
    for name, raw in values.items():
        if b'"$' not in bytes(raw):
            continue
        for why in _faults_in(msgspec.json.decode(raw)):
            yield Fault(f"{where}.{name[:40]}", why)


def escape(key: str) -> str:
    """Escape a literal key."""
    return MARK + key if key.startswith(MARK) else key


def _walk(path: Path, given: Inputs) -> msgspec.Raw:
    """Resolve a path. Raises ExpressionFailed if it does not exist."""
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
            raise ExpressionFailed(f"`{name}` is not {'a list' if isinstance(step, int) else 'an object'}") from None
        except LookupError:
            raise ExpressionFailed(f"`{name}` has no `{step}`") from None
        name = str(step)
    return value


def _step(value: msgspec.Raw, step: str | int) -> msgspec.Raw:
    if isinstance(step, int):
        return msgspec.json.decode(value, type=list[msgspec.Raw])[step]
    return msgspec.json.decode(value, type=dict[str, msgspec.Raw])[step]


def _resolve(value: JsonValue, given: Inputs) -> object:
    match value:
        case dict() if MARK in value:
            return _resolve_reference(value, given)
        case dict():
            return {
                key.removeprefix(MARK) if key.startswith(MARK) else key: _resolve(one, given)
                for key, one in value.items()
            }
        case list():
            return [_resolve(one, given) for one in value]
        case _:
            return value


def _resolve_reference(reference: dict[str, JsonValue], given: Inputs) -> object:
    path = read_path(str(reference[MARK]))
    if path is None:
        raise ExpressionFailed(f"`{str(reference[MARK])[:60]}` is not a path")
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
                yield f"{str(text)[:60]!r} is not a path such as outputs.fetch.rows, params.day or item"
            elif unknown := value.keys() - {MARK, _DEFAULT}:
                yield f"a reference has only `{MARK}` and `{_DEFAULT}`, not {min(unknown)[:40]!r}"
            yield from _faults_in(value.get(_DEFAULT))
        case dict():
            for one in value.values():
                yield from _faults_in(one)
        case list():
            for one in value:
                yield from _faults_in(one)
        case _:
            return
