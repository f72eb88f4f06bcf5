"""Requests that exceed a limit: one character, one label, one level too many (SEC-6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.api.api_harness import NOOP
from tests.api.permission_matrix import NIGHTLY, OWN

Things = Mapping[str, str]
"""For each kind of resource in a path, the id of an existing one."""
Request = tuple[str, str, dict[str, object]]
"""A method, a path, and request arguments."""


def post(path: str, **more: object) -> Callable[[Things], Request]:
    """A POST request independent of existing resources."""
    return lambda _: ("POST", path, more)


def get(path: str, **params: object) -> Callable[[Things], Request]:
    """A GET request."""
    return lambda _: ("GET", path, {"params": params})


def announced(path: str, size_bytes: int) -> Callable[[Things], Request]:
    """A request whose Content-Length alone exceeds the limit."""
    headers = {"content-length": str(size_bytes + 1), "content-type": "application/json"}
    return post(path, content=b"{}", headers=headers)


def job(**header: object) -> Callable[[Things], Request]:
    """A job with these fields."""
    return post("/api/v1/jobs", json={**NOOP, **header})


def task(**fields: object) -> Callable[[Things], Request]:
    """A job whose task has these fields."""
    return job(tasks=[{"name": "only", **fields}])


def run(**fields: object) -> Callable[[Things], Request]:
    """A run with these fields."""
    return post("/api/v1/runs", json={"job": "noop", "tenant": OWN, **fields})


def schedule(**fields: object) -> Callable[[Things], Request]:
    """A schedule with these fields in its definition."""
    return post("/api/v1/schedules", json={"tenant": OWN, "definition": {**NIGHTLY, **fields}})


def put(path: str, **body: object) -> Callable[[Things], Request]:
    """A PUT request; `{tasks}` in the path is the id of a task."""
    return lambda things: ("PUT", path.format(**things), {"json": body})


def action(path: str, **body: object) -> Callable[[Things], Request]:
    """A POST request on a resource."""
    return lambda things: ("POST", path.format(**things), {"json": body})


def long(length: int) -> str:
    """Return a text one character too long."""
    return "x" * (length + 1)


def many(count: int) -> dict[str, str]:
    """Return one label too many."""
    return {f"l{number}": "x" for number in range(count + 1)}


def deep(depth: int) -> object:
    """Return lists nested one level too deep."""
    value: object = 1
    for _ in range(depth + 1):
        value = [value]
    return value


def large_job(start: bytes, piece: bytes, count: int, end: bytes) -> Callable[[Things], Request]:
    """A large job, built only when it is sent."""

    def make(_: Things) -> Request:
        body = b'{"name":"large","tasks":[' + start + piece * count + end + b"]}"
        return "POST", "/api/v1/jobs", {"content": body}

    return make
