"""Restrictions of simulated code: no real clock, no randomness of the machine, no threads."""

from __future__ import annotations

import gc
import os
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from unittest import mock

import structlog

_FORBIDDEN: tuple[tuple[Any, str], ...] = (
    *((time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "sleep")),
    *((uuid, name) for name in ("uuid1", "uuid4")),
    (os, "urandom"),
    *((secrets, name) for name in ("randbits", "token_bytes", "token_hex", "randbelow", "choice")),
    *((random, name) for name in ("random", "randrange", "randint", "choice", "shuffle", "sample", "uniform")),
    *((random, name) for name in ("getrandbits", "expovariate")),
    (threading.Thread, "start"),
)


class Escaped(AssertionError):
    """Simulated code tried to use the machine's clock, randomness or threads."""


@contextmanager
def sealed(log: Callable[[str, str, dict[str, object]], None]) -> Iterator[None]:
    """Run simulated code: anything non-deterministic raises, and log events go to `log`."""
    before = structlog.get_config()
    collecting = gc.isenabled()
    with _forbidden():
        structlog.configure(wrapper_class=_recorder(log), processors=[], cache_logger_on_first_use=False)
        gc.disable()
        try:
            yield
        finally:
            structlog.configure(**before)
            gc.collect()
            if collecting:
                gc.enable()


@contextmanager
def _forbidden() -> Iterator[None]:
    patches = [mock.patch.object(owner, name, _refusal(f"{owner.__name__}.{name}")) for owner, name in _FORBIDDEN]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in reversed(patches):
            patch.stop()


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise Escaped(f"{name} was called in the simulation")

    return refuse


def _recorder(log: Callable[[str, str, dict[str, object]], None]) -> type:
    class Recorder:
        """A logger that hands each event to the simulation."""

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def info(self, event: str, **fields: object) -> None:
            """Log an ordinary event."""
            log("info", event, fields)

        def warning(self, event: str, **fields: object) -> None:
            """Log an event that faults cause."""
            log("warning", event, fields)

        def error(self, event: str, **fields: object) -> None:
            """Log an event that should not happen."""
            log("error", event, fields)

        exception = error

    return Recorder
