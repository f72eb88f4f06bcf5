"""Requests that go too far: one character, one label, one level more than is allowed (SEC-6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.api.matrix import NIGHTLY, OWN
from tests.api.office import NOOP

Things = Mapping[str, str]
"""For each kind of thing in a path, the id of one that is there."""
Request = tuple[str, str, dict[str, object]]
"""A method, a path, and what goes with it."""


def post(path: str, **more: object) -> Callable[[Things], Request]:
    """A request that is the same whatever there is."""
    return lambda _: ("POST", path, more)


def get(path: str, **params: object) -> Callable[[Things], Request]:
    """A question."""
    return lambda _: ("GET", path, {"params": params})


def announced(path: str, size_bytes: int) -> Callable[[Things], Request]:
    """A body of which only the length is said: that is enough."""
    headers = {"content-length": str(size_bytes + 1), "content-type": "application/json"}
    return post(path, content=b"{}", headers=headers)


def job(**header: object) -> Callable[[Things], Request]:
    """A job with something in its header."""
    return post("/api/v1/jobs", json={**NOOP, **header})


def task(**fields: object) -> Callable[[Things], Request]:
    """A job with something in its task."""
    return job(tasks=[{"name": "only", **fields}])


def run(**fields: object) -> Callable[[Things], Request]:
    """A run of a job."""
    return post("/api/v1/runs", json={"job": "noop", "tenant": OWN, **fields})


def schedule(**fields: object) -> Callable[[Things], Request]:
    """A schedule with something in its definition."""
    return post("/api/v1/schedules", json={"tenant": OWN, "definition": {**NIGHTLY, **fields}})


def put(path: str, **body: object) -> Callable[[Things], Request]:
    """Something in the place of what is there; `{tasks}` in the path is the id of a task."""
    return lambda things: ("PUT", path.format(**things), {"json": body})


def act(path: str, **body: object) -> Callable[[Things], Request]:
    """Something is done to what is there."""
    return lambda things: ("POST", path.format(**things), {"json": body})


def long(length: int) -> str:
    """A text that is longer by one character."""
    return "x" * (length + 1)


def many(count: int) -> dict[str, str]:
    """One label more."""
    return {f"l{number}": "x" for number in range(count + 1)}


def deep(depth: int) -> object:
    """Lists in each other."""
    value: object = 1
    for _ in range(depth + 1):
        value = [value]
    return value


def large_job(start: bytes, piece: bytes, count: int, end: bytes) -> Callable[[Things], Request]:
    """A job whose tasks have so many pieces; made when it is wanted."""

    def make(_: Things) -> Request:
        body = b'{"name":"large","tasks":[' + start + piece * count + end + b"]}"
        return "POST", "/api/v1/jobs", {"content": body}

    return make
