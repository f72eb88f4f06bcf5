"""The fields of a job file: what each is called, where it goes in the strict form, and how its value is read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from mainspring.core.hints import did_you_mean
from mainspring.sdk.quantities import bytes_of, millis_of, seconds_of
from mainspring.sdk.sources import Flaw, Node, plain

Path: TypeAlias = "tuple[str | int, ...]"
"""The way to a value of the strict form."""
SUGGESTION = re.compile(r",? did you mean (.+)\?$")

_MOST_RETRIES = 4
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_FOR_A_SHELL = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "&>"})


class _Misfit(Exception):
    """A value can't be taken; raised and caught in this file."""

    def __init__(self, node: Node, why: str, note: str = "") -> None:
        super().__init__(why)
        self.flaw = Flaw(place=node.place, why=why, note=note)


class Field(msgspec.Struct, frozen=True):
    """Where a field of the file goes in the strict form, and how."""

    target: Path
    convert: Callable[[Node], object]

    def read(self, node: Node) -> object | Flaw:
        """The value for the strict form, or what is wrong with it."""
        try:
            return self.convert(node)
        except _Misfit as misfit:
            return misfit.flaw


def _text(node: Node) -> str:
    if isinstance(node.value, list | dict) or node.value is None:
        raise _Misfit(node, "must be a text")
    return node.text


def _texts(node: Node) -> dict[str, str]:
    """A mapping of texts; a number is taken as it was written."""
    if not isinstance(node.value, dict):
        raise _Misfit(node, "must be a mapping of names to texts")
    return {key: _text(entry.node) for key, entry in node.value.items()}


def _seconds(node: Node) -> float:
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
        return [_text(word) for word in node.value]
    line = _text(node).strip()
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
    return [{"task": _text(item)} if not isinstance(item.value, dict | list) else plain(item) for item in items]


def _resources(node: Node) -> dict[str, float]:
    if not isinstance(node.value, dict):
        raise _Misfit(node, "must be a mapping such as {cpu: 0.5, memory: 512Mi}")
    amounts: dict[str, float] = dict(_DEFAULT_RESOURCES)
    for key, entry in node.value.items():
        if key not in _RESOURCES:
            note = suggestion(did_you_mean(key, _RESOURCES)) or f"there are {', '.join(_RESOURCES)}"
            raise _Misfit(Node(value=None, place=entry.place), f"unknown resource `{key}`", note)
        name, read = _RESOURCES[key]
        amounts[name] = _measure(entry.node, read)
    return amounts


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

JOB_FIELDS = {
    "name": Field(("name",), _text),
    "on_failure": Field(("on_failure",), _text),
    "timeout": Field(("timeout_seconds",), _seconds),
    "timeout_seconds": Field(("timeout_seconds",), plain),
    "tasks": Field(("tasks",), plain),
    "defaults": Field(("defaults",), plain),
}
TASK_FIELDS = {
    "id": Field(("name",), _text),
    "name": Field(("name",), _text),
    "needs": Field(("needs",), _needs),
    "run": Field(("work", "run"), _words),
    "shell": Field(("work", "shell"), _text),
    "python": Field(("work", "python"), _text),
    "handler": Field(("work", "handler"), _text),
    "args": Field(("work", "args"), plain),
    "env": Field(("work", "env"), _texts),
    "secrets": Field(("work", "secrets"), _texts),
    "directory": Field(("work", "directory"), _text),
    "grace": Field(("work", "grace_seconds"), _seconds),
    "work": Field(("work",), plain),
    "resources": Field(("resources",), _resources),
    "labels": Field(("labels",), _texts),
    "zone": Field(("zone",), _text),
    "retries": Field(("max_attempts",), _attempts),
    "max_attempts": Field(("max_attempts",), plain),
    "retry_delay": Field(("retry_delay_seconds",), _seconds),
    "retry_delay_seconds": Field(("retry_delay_seconds",), plain),
    "timeout": Field(("timeout_seconds",), _seconds),
    "timeout_seconds": Field(("timeout_seconds",), plain),
    "expected": Field(("expected_seconds",), _seconds),
    "expected_seconds": Field(("expected_seconds",), plain),
    "on_skip": Field(("on_skip",), _text),
}
OWN_FIELDS = frozenset({"id", "name", "needs", "run", "shell", "python", "handler", "args", "work"})


def suggestion(sentence: str) -> str:
    """The suggestion that a sentence ends with, as it stands beside a mark."""
    match = SUGGESTION.search(sentence)
    return f"did you mean `{match[1]}`?" if match else ""
