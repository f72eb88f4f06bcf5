"""The fields of a job file: what each is called, where it goes in the strict form, and how its value is read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

import msgspec

from mainspring.core.failure_policy import FailureClass
from mainspring.core.hints import did_you_mean
from mainspring.sdk.quantities import bytes_of, millis_of, seconds_of
from mainspring.sdk.sources import Entry, Flaw, Node, plain

Path: TypeAlias = "tuple[str | int, ...]"
"""The way to a value of the strict form."""
SUGGESTION = re.compile(r",? did you mean (.+)\?$")

_MOST_RETRIES = 4
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_ONE_EXPRESSION = re.compile(r"\s*\{\{(?:(?!\}\}).)*\}\}\s*", re.DOTALL)
_PREDICATE = re.compile(r"(must|is|are|has|have|nests)\b")
_FOR_A_SHELL = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "&>"})


class _Misfit(Exception):
    """A value can't be taken; raised by what reads a value, and caught by `Field.read`."""

    def __init__(self, node: Node, why: str, note: str = "") -> None:
        super().__init__(why)
        self.flaw = Flaw(place=node.place, why=why, note=note)


class Field(msgspec.Struct, frozen=True):
    """Where a field of the file goes in the strict form, and how."""

    target: Path
    convert: Callable[[Node], object]
    names: Mapping[str, str] = {}
    """What fields inside of it are called in the strict form, where that is something else."""

    def read(self, node: Node) -> object | Flaw:
        """The value for the strict form, or what is wrong with it."""
        try:
            return self.convert(node)
        except _Misfit as misfit:
            return misfit.flaw


def as_text(node: Node) -> str:
    """A text; a number is taken as it was written."""
    if isinstance(node.value, list | dict) or node.value is None:
        raise _Misfit(node, "must be a text")
    return node.text


def _texts(node: Node) -> dict[str, str]:
    """A mapping of texts; a number is taken as it was written."""
    if not isinstance(node.value, dict):
        raise _Misfit(node, "must be a mapping of names to texts")
    return {key: as_text(entry.node) for key, entry in node.value.items()}


def as_seconds(node: Node) -> float:
    """A length of time, in seconds."""
    return _measure(node, seconds_of)


def _measure(node: Node, read: Callable[[object], float]) -> float:
    try:
        return read(node.value)
    except ValueError as error:
        raise _Misfit(node, str(error)) from error


def _attempts(node: Node) -> int:
    """Retries are what comes after the first attempt."""
    if not isinstance(node.value, int) or isinstance(node.value, bool) or not 0 <= node.value <= _MOST_RETRIES:
        raise _Misfit(node, f"must be from 0 to {_MOST_RETRIES}")
    return node.value + 1


def _words(node: Node) -> list[str]:
    """A command as words: a list, or a line that is split as a shell would, each template kept whole."""
    if isinstance(node.value, list):
        return [as_text(word) for word in node.value]
    line = as_text(node).strip()
    if "\n" in line:
        raise _Misfit(node, "has several lines", "write `shell:` for a script")
    templates: list[str] = []

    def hide(match: re.Match[str]) -> str:
        templates.append(match[0])
        return f"\ue000{len(templates) - 1}\ue001"

    try:
        words = shlex.split(_TEMPLATE.sub(hide, line))
    except ValueError as error:
        raise _Misfit(node, f"can't be split into words: {str(error).lower()}") from error
    shells = next((word for word in words if word in _FOR_A_SHELL), None)
    if shells is not None:
        raise _Misfit(
            node, f"`{shells}` means nothing without a shell", "write `shell:` in place of `run:`, or quote it"
        )
    return [re.sub("\ue000(\\d+)\ue001", lambda match: templates[int(match[1])], word) for word in words]


def _needs(node: Node) -> list[object]:
    """Tasks that come before: a name, `{task: .., when: ..}`, or a list of these."""
    items = node.value if isinstance(node.value, list) else [node]
    return [{"task": as_text(item)} if not isinstance(item.value, dict | list) else plain(item) for item in items]


def _resources(node: Node) -> dict[str, float]:
    if not isinstance(node.value, dict):
        raise _Misfit(node, "must be a mapping such as {cpu: 0.5, memory: 512Mi}")
    amounts: dict[str, float] = dict(_DEFAULT_RESOURCES)
    for key, entry in node.value.items():
        if key not in _RESOURCES:
            raise _unknown(Node(value=None, place=entry.place), f"unknown resource `{key}`", key, _RESOURCES)
        name, read = _RESOURCES[key]
        amounts[name] = _measure(entry.node, read)
    return amounts


def _expression(node: Node) -> str:
    """An expression, with or without braces around it; or a list, which is one too."""
    if isinstance(node.value, list):
        return msgspec.json.encode(plain(node)).decode()
    text = as_text(node)
    return text.strip()[2:-2].strip() if _ONE_EXPRESSION.fullmatch(text) else text


def _flag(node: Node) -> bool:
    if not isinstance(node.value, bool):
        raise _Misfit(node, "must be true or false")
    return node.value


def _number(node: Node) -> float:
    if not isinstance(node.value, int | float) or isinstance(node.value, bool):
        raise _Misfit(node, "must be a number")
    return node.value


def _count(node: Node) -> int:
    return int(_measure(node, _whole))


def _bytes(node: Node) -> int:
    return int(_measure(node, bytes_of))


def _list_of(read: Callable[[Node], object]) -> Callable[[Node], list[object]]:
    """A list of such values; one alone is a list too."""
    return lambda node: [read(item) for item in (node.value if isinstance(node.value, list) else [node])]


def _retry(node: Node) -> dict[str, object]:
    if isinstance(node.value, int):
        raise _Misfit(node, "must be a mapping such as {delay: 10s, cap: 10m}", "`retries` says how often")
    return _inside(node, "`retry`", _RETRY)


def _classes(node: Node) -> dict[str, object]:
    """Kinds of failures, each with what is different for it."""
    if not isinstance(node.value, dict):
        raise _Misfit(node, "must be a mapping of kinds of failures, such as {rate_limited: {delay: 15m}}")
    return {
        _failure(Node(value=key, text=key, place=entry.place)): _inside(entry.node, f"`{key}`", _BACKOFF)
        for key, entry in node.value.items()
    }


def _failure(node: Node) -> str:
    kinds = [kind.value for kind in FailureClass]
    kind = as_text(node)
    if kind not in kinds:
        raise _unknown(node, f"there is no kind of failure `{kind}`", kind, kinds)
    return kind


def _rule(node: Node) -> dict[str, object]:
    return _inside(node, "a rule", _RULE)


def _inside(node: Node, what: str, fields: Mapping[str, _Inner]) -> dict[str, object]:
    """A mapping with some of these fields, under the names of the strict form."""
    if not isinstance(node.value, dict):
        raise _Misfit(node, f"must be a mapping with {', '.join(fields)}")
    found: dict[str, object] = {}
    for key, entry in node.value.items():
        if key not in fields:
            raise _unknown(Node(value=None, place=entry.place), f"unknown field `{key}` of {what}", key, fields)
        name, read = fields[key]
        if name in found:
            raise _Misfit(Node(value=None, place=entry.place), f"`{key}` says the same as another field of {what}")
        try:
            found[name] = read(entry.node)
        except _Misfit as misfit:
            misfit.flaw = msgspec.structs.replace(misfit.flaw, why=named(key, misfit.flaw.why))
            raise
    return found


def _unknown(node: Node, why: str, word: str, known: Collection[str]) -> _Misfit:
    return _Misfit(node, why, suggestion(did_you_mean(word, known)) or f"there are {', '.join(known)}")


def _whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError("must be a whole number")


_RESOURCES: dict[str, tuple[str, Callable[[object], float]]] = {
    "cpu": ("cpu_millis", millis_of),
    "memory": ("memory_bytes", bytes_of),
    "gpus": ("gpus", _whole),
    "disk": ("disk_bytes", bytes_of),
    "cpu_millis": ("cpu_millis", _whole),
    "memory_bytes": ("memory_bytes", _whole),
    "disk_bytes": ("disk_bytes", _whole),
}
_DEFAULT_RESOURCES = {"cpu_millis": 1_000, "memory_bytes": 256 * 1024 * 1024}
"""Who says only one of them does not mean nothing of the other."""

_Inner: TypeAlias = "tuple[str, Callable[[Node], object]]"
"""What a field inside of another is called in the strict form, and how it is read."""
_BACKOFF: dict[str, _Inner] = {
    "delay": ("base_seconds", as_seconds),
    "factor": ("factor", _number),
    "cap": ("cap_seconds", as_seconds),
    "attempts": ("max_attempts", _count),
    "base_seconds": ("base_seconds", _number),
    "cap_seconds": ("cap_seconds", _number),
    "max_attempts": ("max_attempts", _count),
}
_RULE: dict[str, _Inner] = {
    "failure": ("failure", _failure),
    "exit_codes": ("exit_codes", _list_of(_count)),
    "types": ("types", _list_of(as_text)),
    "contains": ("contains", as_text),
}
_RETRY: dict[str, _Inner] = {
    "factor": ("factor", _number),
    "cap": ("cap_seconds", as_seconds),
    "memory_factor": ("memory_factor", _number),
    "memory_limit": ("memory_limit_bytes", _bytes),
    "classes": ("classes", _classes),
    "rules": ("rules", _list_of(_rule)),
    "cap_seconds": ("cap_seconds", _number),
    "memory_limit_bytes": ("memory_limit_bytes", _count),
}
_RETRY_NAMES = {key: name for fields in (_BACKOFF, _RULE, _RETRY) for key, (name, _) in fields.items()}
DELAY_OF_RETRY = "retry.delay"
"""`delay` inside of `retry` is a field of tasks themselves in the strict form."""

JOB_FIELDS = {
    "name": Field(("name",), as_text),
    "description": Field(("description",), as_text),
    "labels": Field(("labels",), _texts),
    "on_failure": Field(("on_failure",), as_text),
    "timeout": Field(("timeout_seconds",), as_seconds),
    "timeout_seconds": Field(("timeout_seconds",), plain),
    "retry": Field(("retry",), _retry, _RETRY_NAMES),
    "max_retries": Field(("max_retries",), _count),
    "max_fan_out": Field(("max_fan_out",), _count),
    "tasks": Field(("tasks",), plain),
    "defaults": Field(("defaults",), plain),
}
TASK_FIELDS = {
    "id": Field(("name",), as_text),
    "name": Field(("name",), as_text),
    "needs": Field(("needs",), _needs),
    "run": Field(("work", "run"), _words),
    "shell": Field(("work", "shell"), as_text),
    "python": Field(("work", "python"), as_text),
    "handler": Field(("work", "handler"), as_text),
    "args": Field(("work", "args"), plain),
    "values": Field(("work", "values"), plain),
    "env": Field(("work", "env"), _texts),
    "secrets": Field(("work", "secrets"), _texts),
    "directory": Field(("work", "directory"), as_text),
    "grace": Field(("work", "grace_seconds"), as_seconds),
    "work": Field(("work",), plain),
    "resources": Field(("resources",), _resources),
    "labels": Field(("labels",), _texts),
    "zone": Field(("zone",), as_text),
    "retries": Field(("max_attempts",), _attempts),
    "max_attempts": Field(("max_attempts",), plain),
    "retry_delay": Field(("retry_delay_seconds",), as_seconds),
    "retry_delay_seconds": Field(("retry_delay_seconds",), plain),
    "retry": Field(("retry",), _retry, _RETRY_NAMES),
    DELAY_OF_RETRY: Field(("retry_delay_seconds",), as_seconds),
    "timeout": Field(("timeout_seconds",), as_seconds),
    "timeout_seconds": Field(("timeout_seconds",), plain),
    "soft_timeout": Field(("soft_timeout_seconds",), as_seconds),
    "soft_timeout_seconds": Field(("soft_timeout_seconds",), plain),
    "stall": Field(("stall_seconds",), as_seconds),
    "stall_seconds": Field(("stall_seconds",), plain),
    "expected": Field(("expected_seconds",), as_seconds),
    "expected_seconds": Field(("expected_seconds",), plain),
    "on_skip": Field(("on_skip",), as_text),
    "for_each": Field(("for_each",), _expression),
    "label": Field(("label",), as_text),
    "grows": Field(("grows",), _flag),
}
OWN_FIELDS = frozenset(
    {"id", "name", "needs", "run", "shell", "python", "handler", "args", "values", "work", "for_each", "label"}
)


def unfold_retry(entries: Mapping[str, Entry]) -> Mapping[str, Entry]:
    """The fields of a task or job, with the `delay` of its `retry` as one of them."""
    retry = entries.get("retry")
    if retry is None or not isinstance(retry.node.value, dict) or "delay" not in retry.node.value:
        return entries
    inside = {key: entry for key, entry in retry.node.value.items() if key != "delay"}
    without = msgspec.structs.replace(retry.node, value=inside)
    return {**entries, "retry": Entry(retry.place, without), DELAY_OF_RETRY: retry.node.value["delay"]}


def misfit(node: Node, why: str, note: str = "") -> Exception:
    """What a reader of another file raises if a value can't be taken."""
    return _Misfit(node, why, note)


def named(key: str, why: str) -> str:
    """What is wrong with a field, with its name in front if the sentence lacks one."""
    return f"`{key}` {why}" if _PREDICATE.match(why) else why


def suggestion(sentence: str) -> str:
    """The suggestion that a sentence ends with, as it stands beside a mark."""
    match = SUGGESTION.search(sentence)
    return f"did you mean `{match[1]}`?" if match else ""
