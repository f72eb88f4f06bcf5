"""Fields of HTTP, container, Kubernetes and Ray tasks in job and pipeline files.

Their rules are in `core/work/`: `http_calls.py`, `containers.py`, `remote_jobs.py`.
"""

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
KUBERNETES: dict[str, Inner] = {
    "image": ("image", as_text),
    "run": ("run", as_words),
    "namespace": ("namespace", as_text),
    "service_account": ("service_account", as_text),
    "user": ("user", as_count),
}
RAY: dict[str, Inner] = {
    "run": ("run", as_words),
    "runtime_env": ("runtime_env", plain),
}
HTTP_NAMES = {key: name for key, (name, _) in HTTP.items()}


def as_http(node: Node) -> dict[str, object]:
    """Read a request; a string is the URL."""
    return Inside("`http`", HTTP)(node) if isinstance(node.value, dict | list) else {"url": as_text(node)}


def as_container(node: Node) -> dict[str, object]:
    """Read a container; a string is the image."""
    return Inside("`container`", CONTAINER)(node) if isinstance(node.value, dict | list) else {"image": as_text(node)}


as_kubernetes = Inside("`kubernetes`", KUBERNETES)
as_ray = Inside("`ray`", RAY)
