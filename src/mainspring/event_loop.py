"""The event loop of all processes, and tasks in it that end on their own.

Tasks that run as long as their owner are supervised instead (`background.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

log = structlog.get_logger()
_T = TypeVar("_T")

_TASKS: set[asyncio.Task[Any]] = set()
"""References to running tasks: the event loop keeps only weak ones."""


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of uvloop, if it is installed; None for the standard loop, which is a little slower."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop


def start_task(work: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
    """Start a task that need not be awaited: a failure is logged."""
    task = asyncio.create_task(work)
    _TASKS.add(task)

    def ended(task: asyncio.Task[_T]) -> None:
        _TASKS.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("task.failed", task=name, fault=repr(error), exc_info=error)

    task.add_done_callback(ended)
    return task
