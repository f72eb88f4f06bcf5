"""Fan-out: from a `for_each` expression to the items of its tasks, and their labels (DAG-2).

    outputs.list.files       a plain path into the outputs of upstream tasks, or into the parameters
    params.parts             an integer n gives the items 0 to n - 1
    params.cities|default(["Oslo"])    a plain path with a default, as JSON
    ["Oslo", "Rome"]         a list, as JSON
    outputs.list.files|unique    anything else is an expression, within its limits

A plain path is resolved in the JSON itself (`core/graph/references.py`), without the limits of expressions: lists of
10,000 items and more are supported. Items stay JSON text: each task gets its item exactly as written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import msgspec

from mainspring.core.expressions import engine as expressions
from mainspring.core.expressions.values import JsonValue
from mainspring.core.graph import references
from mainspring.core.model.task import Task
from mainspring.core.text import strict_json
from mainspring.protocol.errors import ExpressionFailed

FOR_EACH_NAMES = frozenset({"outputs", "params"})
LABEL_NAMES = frozenset({"item", "partition"})
MAX_TASKS = 250_000
"""Per run."""
MAX_INPUTS_BYTES = 8 * 1024 * 1024
"""All inputs of a task together: half of the maximum frame to a worker."""
MAX_OUTPUT_BYTES = 1024 * 1024
"""Output of one task, enforced by its worker."""
MAX_LIST_BYTES = 256 * 1024
"""A literal list in a definition."""
MAX_LABEL_LENGTH = 60

_DEFAULTED = re.compile(r"([^|]*)\|\s*default\((.*)\)", re.DOTALL)


def bare(for_each: str) -> str:
    """Return the expression without enclosing braces."""
    text = for_each.strip()
    if text.startswith("{{") and text.endswith("}}"):
        text = text[2:-2].strip()
    return text


def fault_in_for_each(for_each: str) -> str | None:
    """Return what is wrong with a `for_each` expression, as far as it can be checked without values, or None."""
    text = bare(for_each)
    plain = _as_plain(text)
    if plain is None:
        return expressions.check(text, FOR_EACH_NAMES)
    items = bytes(plain[1]).decode()
    found = strict_json.faults_in(items, "items", max_bytes=MAX_LIST_BYTES) if items else []
    return f"{found[0].where} {found[0].why}" if found else None


def output_used(for_each: str) -> str | None:
    """Return the task whose output a plain path leads into, if it is one."""
    path = _path(bare(for_each))
    return str(path.steps[0]) if path is not None and path.root == "outputs" and path.steps else None


def items_of(for_each: str, outputs: Mapping[str, str | None], params: str) -> list[str]:
    """Return the items, each as JSON. `outputs` are JSON by task name. Raises ExpressionFailed."""
    text = bare(for_each)
    plain = _as_plain(text)
    if plain is not None:
        path, otherwise = plain
        given = references.Inputs(outputs=outputs, params=params)
        if path is None:
            return _as_items(otherwise)
        found = references.find(path, given) if otherwise else None
        return _as_items(found or otherwise or references.walk(path, given))
    values = {"outputs": as_object(outputs), "params": msgspec.Raw(params.encode())}
    value = expressions.evaluate(text, values)
    try:
        return _as_items(msgspec.Raw(msgspec.json.encode(value)))
    except (RecursionError, TypeError):
        raise ExpressionFailed("evaluates to a value that can't be encoded as JSON") from None


def as_object(outputs: Mapping[str, str | None]) -> msgspec.Raw:
    """Return outputs by task name as one JSON object, with null for missing ones."""
    members = (msgspec.json.encode(name) + b":" + (output or "null").encode() for name, output in outputs.items())
    return msgspec.Raw(b"{" + b",".join(members) + b"}")


def label_of(template: str | None, item: str, partition: int, taken: Collection[str]) -> str:
    """Return a unique label for an item, not in `taken`, at most one line.

    If the template fails, the partition number is used: a label is no reason to fail the task.
    """
    label = _render(template, item, partition) if template is not None else _short_scalar(item)
    label = expressions.shorten(label)[:MAX_LABEL_LENGTH].strip() or str(partition)
    while label in taken:
        label = f"{label}#{partition}"
    return label


def full_name(task: Task) -> str:
    """Return the display name of a task, with its fan-out label."""
    return f"{task.name}[{task.origin.label}]" if task.origin is not None and task.origin.label else task.name


def gather(outputs: Iterable[str | None]) -> str:
    """Return the outputs of a fan-out as one JSON list, with null for missing ones."""
    return f"[{','.join('null' if output is None else output for output in outputs)}]"


def _as_plain(text: str) -> tuple[references.Path | None, msgspec.Raw] | None:
    """Parse a plain path with its default (empty if there is none), or a literal list; None if it is neither."""
    path = _path(text)
    if path is not None:
        return path, msgspec.Raw()
    defaulted = _DEFAULTED.fullmatch(text)
    path = _path(defaulted[1].strip()) if defaulted is not None else None
    if defaulted is not None and path is not None and path.steps:
        otherwise = _json_list(defaulted[2])
        return None if otherwise is None else (path, otherwise)
    items = _json_list(text)
    return None if items is None else (None, items)


def _path(text: str) -> references.Path | None:
    path = references.read_path(text)
    return path if path is not None and path.root in FOR_EACH_NAMES else None


def _json_list(text: str) -> msgspec.Raw | None:
    """Return a text that is a JSON list, or None."""
    raw = msgspec.Raw(text.strip().encode())
    try:
        msgspec.json.decode(raw, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return None
    return raw


def _as_items(value: msgspec.Raw) -> list[str]:
    text = bytes(value)
    try:
        if text.lstrip()[:1] == b"[":
            return [bytes(item).decode() for item in msgspec.json.decode(text, type=list[msgspec.Raw])]
        count = msgspec.json.decode(text, type=int)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        shown = expressions.shorten(text[:200].decode(errors="replace"))
        raise ExpressionFailed(f"evaluates to {shown}, not a list") from None
    if not 0 <= count <= MAX_TASKS:
        raise ExpressionFailed(f"evaluates to {str(count)[:20]}; the number of tasks must be from 0 to {MAX_TASKS}")
    return [str(number) for number in range(count)]


def _render(template: str, item: str, partition: int) -> str:
    try:
        return expressions.render(template, {"item": msgspec.Raw(item.encode()), "partition": partition})
    except ExpressionFailed:
        return ""


def _short_scalar(item: str) -> str:
    """Return the item itself if it is a short text, a number or a boolean."""
    if len(item) > 2 * MAX_LABEL_LENGTH or item[:1] in "[{n":
        return ""
    value: JsonValue = msgspec.json.decode(item)
    text = value if isinstance(value, str) else item
    return text if len(text) <= MAX_LABEL_LENGTH else ""
