"""Map-reduce fields of job and pipeline files: `input`, `map`, `reduce` and `invoker` (`map_reduce.py`)."""

from __future__ import annotations

from mainspring.core.work.map_reduce import MAX_ITEM_ATTEMPTS, OnItemFailure, ReduceKind
from mainspring.definitions.files.field_values import (
    Inner,
    Inside,
    ListOf,
    OneOf,
    as_count,
    as_number,
    as_path_inside,
    as_seconds,
    as_text,
    as_words,
    count_between,
    mismatch,
)
from mainspring.definitions.files.sources import Node, plain


def _attempts(node: Node) -> int:
    """Convert retries to attempts."""
    return count_between(node, 0, MAX_ITEM_ATTEMPTS - 1) + 1


def _item(node: Node) -> object:
    if not isinstance(node.value, dict):
        raise mismatch(node, "an item must be a mapping of names to values, such as {queue: standard}")
    return plain(node)


def _items(node: Node) -> list[object]:
    if not isinstance(node.value, list):
        raise mismatch(node, "must be a list of mappings")
    return ListOf(_item)(node)


ITEM_FILE: dict[str, Inner] = {
    "type": ("type", OneOf(("csv", "json"))),
    "path": ("path", as_path_inside),
    "delimiter": ("delimiter", as_text),
    "encoding": ("encoding", as_text),
}
INPUT: dict[str, Inner] = {
    "from": ("from", Inside("`from`", ITEM_FILE)),
    "items": ("items", _items),
    "limit": ("limit", as_count),
}
MAP: dict[str, Inner] = {
    "prompt": ("prompt", as_text),
    "output": ("output", ListOf(as_text)),
    "concurrency": ("concurrency", as_count),
    "attempts": ("attempts", as_count),
    "retries": ("attempts", _attempts),
    "retry_delay": ("retry_delay_seconds", as_seconds),
    "retry_delay_seconds": ("retry_delay_seconds", as_number),
    "timeout": ("timeout_seconds", as_seconds),
    "timeout_seconds": ("timeout_seconds", as_number),
    "on_failure": ("on_failure", OneOf(tuple(OnItemFailure))),
}
REDUCE: dict[str, Inner] = {
    "type": ("type", OneOf(tuple(ReduceKind))),
    "prompt": ("prompt", as_text),
    "output": ("output", ListOf(as_text)),
}
INVOKER: dict[str, Inner] = {
    "command": ("command", as_words),
    "url": ("url", as_text),
    "model": ("model", as_text),
    "key": ("key", as_text),
    "python": ("python", as_text),
    "socket": ("socket", as_text),
}
REDUCTION = Inside("`reduce`", REDUCE)
MAP_NAMES = {key: name for key, (name, _) in MAP.items()}


as_input = Inside("`input`", INPUT)
as_map = Inside("`map`", MAP)
as_invoker = Inside("`invoker`", INVOKER)


def as_reduce(node: Node) -> dict[str, object]:
    """Read the reduce step; a word is the type."""
    return REDUCTION(node) if isinstance(node.value, dict) else {"type": REDUCE["type"][1](node)}
