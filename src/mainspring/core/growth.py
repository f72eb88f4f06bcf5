"""Fan-out: from an expression to the items that a task is made for each of, and what people call these (DAG-2).

    outputs.list.files       a plain path into the outputs of what the task needs, or into the parameters
    params.parts             a whole number n gives the items 0 to n - 1
    outputs.list.files|unique    anything else is an expression, and stays within its bounds

A plain path is walked in the JSON itself, without the bounds of expressions: lists of 10,000 items and more are wanted.
Items stay JSON texts: each is handed to its task exactly as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from mainspring.core import expressions
from mainspring.core.expression_values import JsonValue
from mainspring.core.tasks import Task
from mainspring.errors import ExpressionFailed

FOR_EACH_NAMES = frozenset({"outputs", "params"})
LABEL_NAMES = frozenset({"item", "partition"})
MOST_TASKS = 250_000
"""Of one run, whatever made them."""
LARGEST_INPUTS_BYTES = 8 * 1024 * 1024
"""Of what a task gets from upstream, all together: half of what a frame to a worker may have."""
LARGEST_OUTPUT_BYTES = 1024 * 1024
"""Of one task, as its worker sees to."""
LONGEST_LABEL = 60

_PATH = re.compile(r"(outputs|params)((?:\.[A-Za-z_]\w*|\['[^'\\]*'\]|\[\"[^\"\\]*\"\]|\[\d{1,9}\])*)", re.ASCII)
_STEP = re.compile(r"\.(\w+)|\['([^']*)'\]|\[\"([^\"]*)\"\]|\[(\d+)\]")


def bare(for_each: str) -> str:
    """The expression, without the braces that one may put around it."""
    text = for_each.strip()
    if text.startswith("{{") and text.endswith("}}"):
        text = text[2:-2].strip()
    return text


def fault_in_for_each(for_each: str) -> str | None:
    """What can be seen to be wrong with an expression for items, in words; None if nothing is."""
    text = bare(for_each)
    return None if _PATH.fullmatch(text) else expressions.check(text, FOR_EACH_NAMES)


def output_used(for_each: str) -> str | None:
    """The task whose output a plain path leads into, if it is one."""
    path = _PATH.fullmatch(bare(for_each))
    steps = _STEP.findall(path[2]) if path is not None and path[1] == "outputs" else []
    return "".join(steps[0]) if steps else None


def items_of(for_each: str, outputs: Mapping[str, str | None], params: str) -> list[str]:
    """The items, each as JSON. `outputs` are JSON by the name of the task. Raises ExpressionFailed."""
    text = bare(for_each)
    path = _PATH.fullmatch(text)
    if path is not None:
        return _as_items(_walk(path[1], _STEP.findall(path[2]), outputs, params))
    members = b",".join(
        msgspec.json.encode(name) + b":" + (output or "null").encode() for name, output in outputs.items()
    )
    given = {"outputs": msgspec.Raw(b"{" + members + b"}"), "params": msgspec.Raw(params.encode())}
    value = expressions.evaluate(text, given)
    try:
        return _as_items(msgspec.Raw(msgspec.json.encode(value)))
    except (RecursionError, TypeError):
        raise ExpressionFailed("it gives a value that can't be written as JSON") from None


def label_of(template: str | None, item: str, partition: int, taken: Collection[str]) -> str:
    """What people call the task for this item: none of what is `taken`, and never longer than a line.

    A label that can't be made is no reason for the work not to be done: the number is used.
    """
    label = _render(template, item, partition) if template is not None else _short_scalar(item)
    label = expressions.shorten(label)[:LONGEST_LABEL].strip() or str(partition)
    while label in taken:
        label = f"{label}#{partition}"
    return label


def full_name(task: Task) -> str:
    """The name of a task, with what tells it from the others of its fan-out."""
    return f"{task.name}[{task.birth.label}]" if task.birth is not None and task.birth.label else task.name


def gather(outputs: Iterable[str | None]) -> str:
    """The outputs of a fan-out as one JSON list, with null for those without."""
    return f"[{','.join('null' if output is None else output for output in outputs)}]"


def _walk(
    name: str, steps: Sequence[tuple[str, str, str, str]], outputs: Mapping[str, str | None], params: str
) -> msgspec.Raw:
    """What a path leads to, by reading only what is on the way."""
    rest = list(steps)
    if name == "params":
        value = msgspec.Raw(params.encode())
    else:
        if not rest:
            raise ExpressionFailed("`outputs` is no list: name the task whose output has it, as in outputs.list")
        name = "".join(rest.pop(0))
        if name not in outputs:
            raise ExpressionFailed(f"it uses the output of `{name}`, and the task does not need that one")
        value = msgspec.Raw((outputs[name] or "null").encode())
    for dotted, quoted, double_quoted, number in rest:
        try:
            value = _step(value, dotted or quoted or double_quoted, number)
        except (msgspec.DecodeError, RecursionError):
            raise ExpressionFailed(f"`{name}` is no {'list' if number else 'object'}") from None
        except LookupError:
            raise ExpressionFailed(f"`{name}` has no `{dotted or quoted or double_quoted or number}`") from None
        name = dotted or quoted or double_quoted or number
    return value


def _step(value: msgspec.Raw, key: str, number: str) -> msgspec.Raw:
    if number:
        return msgspec.json.decode(value, type=list[msgspec.Raw])[int(number)]
    return msgspec.json.decode(value, type=dict[str, msgspec.Raw])[key]


def _as_items(value: msgspec.Raw) -> list[str]:
    text = bytes(value)
    try:
        if text.lstrip()[:1] == b"[":
            return [bytes(item).decode() for item in msgspec.json.decode(text, type=list[msgspec.Raw])]
        count = msgspec.json.decode(text, type=int)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        said = expressions.shorten(text[:200].decode(errors="replace"))
        raise ExpressionFailed(f"it gives {said}, and not a list") from None
    if not 0 <= count <= MOST_TASKS:
        raise ExpressionFailed(f"it gives {str(count)[:20]}: a number of tasks is from 0 to {MOST_TASKS}")
    return [str(number) for number in range(count)]


def _render(template: str, item: str, partition: int) -> str:
    try:
        return expressions.render(template, {"item": msgspec.Raw(item.encode()), "partition": partition})
    except ExpressionFailed:
        return ""


def _short_scalar(item: str) -> str:
    """The item itself, if it is a short text, a number or a truth."""
    if len(item) > 2 * LONGEST_LABEL or item[:1] in "[{n":
        return ""
    value: JsonValue = msgspec.json.decode(item)
    text = value if isinstance(value, str) else item
    return text if len(text) <= LONGEST_LABEL else ""
