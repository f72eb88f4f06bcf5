"""Which event loop our processes run on, and tasks in it that end by themselves.

Tasks that are to run for as long as their owner does are supervised instead (`host/background.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

log = structlog.get_logger()
_T = TypeVar("_T")

_TASKS: set[asyncio.Task[Any]] = set()
"""The loop itself keeps no task from being collected before its end."""


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one; the standard loop does the same, a little slower."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop


def start_task(work: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
    """Start a task that nobody has to wait for: if it fails, that is logged."""
    task = asyncio.create_task(work)
    _TASKS.add(task)

    def ended(task: asyncio.Task[_T]) -> None:
        _TASKS.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("task.failed", task=name, fault=repr(error), exc_info=error)

    task.add_done_callback(ended)
    return task
