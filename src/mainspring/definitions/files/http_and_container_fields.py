"""Fields of HTTP and container tasks in job and pipeline files (`http_calls.py`, `containers.py`)."""

from __future__ import annotations

from mainspring.core.work.containers import PULLS
from mainspring.core.work.http_calls import METHODS
from mainspring.definitions.files.field_values import (
    Inner,
    Inside,
    ListOf,
    OneOf,
    as_count,
    as_number,
    as_seconds,
    as_text,
    as_texts,
    as_words,
)
from mainspring.definitions.files.sources import Node, plain

HTTP: dict[str, Inner] = {
    "url": ("url", as_text),
    "method": ("method", OneOf(METHODS)),
    "headers": ("headers", as_texts),
    "body": ("body", as_text),
    "json": ("json", plain),
    "expect": ("expect", ListOf(as_count)),
    "timeout": ("timeout_seconds", as_seconds),
    "timeout_seconds": ("timeout_seconds", as_number),
}
CONTAINER: dict[str, Inner] = {
    "image": ("image", as_text),
    "run": ("run", as_words),
    "pull": ("pull", OneOf(PULLS)),
}
REQUEST = Inside("`http`", HTTP)
IN_CONTAINER = Inside("`container`", CONTAINER)
HTTP_NAMES = {key: name for key, (name, _) in HTTP.items()}


def as_http(node: Node) -> dict[str, object]:
    """Read a request; a string is the URL."""
    return REQUEST(node) if isinstance(node.value, dict | list) else {"url": as_text(node)}


def as_container(node: Node) -> dict[str, object]:
    """Read a container; a string is the image."""
    return IN_CONTAINER(node) if isinstance(node.value, dict | list) else {"image": as_text(node)}
