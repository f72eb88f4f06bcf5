"""Mainspring: workflow orchestrator and job scheduler for Python.

    from mainspring import Client, Context, Refused, Retry, TaskError, Unavailable, current, every, job, serve, task

Start reading at `host/loop.py`, the scheduler's main loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainspring.app.folder_scheduler import PipelineScheduler
    from mainspring.client.aio.client import AsyncClient
    from mainspring.client.client import Client
    from mainspring.dsl.job import Job, job
    from mainspring.dsl.retry import Retry
    from mainspring.dsl.serve import serve
    from mainspring.dsl.task import Task, task
    from mainspring.dsl.triggers import after, cron, every, on_event, once
    from mainspring.protocol.errors import (
        AttemptOver,
        Broken,
        ClaimExpired,
        Closed,
        Conflict,
        Forbidden,
        InvalidFile,
        JobMissing,
        KeyReused,
        MainspringError,
        NotFound,
        NotLeading,
        NotReady,
        Overloaded,
        Refused,
        SchedulerLockError,
        TaskError,
        TooLarge,
        Unauthenticated,
        Unavailable,
        Unreachable,
        VersionMismatch,
        WrongWorker,
    )
    from mainspring.task_context.task_context import Context, current

__all__ = [
    "AsyncClient", "AttemptOver", "Broken", "ClaimExpired", "Client", "Closed", "Conflict", "Context", "Forbidden",
    "InvalidFile", "Job", "JobMissing", "KeyReused", "MainspringError", "NotFound", "NotLeading", "NotReady",
    "Overloaded", "PipelineScheduler", "Refused", "Retry", "SchedulerLockError", "Task", "TaskError", "TooLarge",
    "Unauthenticated", "Unavailable", "Unreachable", "VersionMismatch", "WrongWorker", "__version__", "after",
    "cron", "current", "every", "job", "on_event", "once", "serve", "task",
]  # fmt: skip
__version__ = "0.1.0"

_ERRORS = "protocol.errors"
_HOMES = {
    "AsyncClient": "client.aio.client",
    "Client": "client.client",
    "Context": "task_context.task_context",
    "Job": "dsl.job",
    "PipelineScheduler": "app.folder_scheduler",
    "Retry": "dsl.retry",
    "Task": "dsl.task",
    "after": "dsl.triggers",
    "cron": "dsl.triggers",
    "current": "task_context.task_context",
    "every": "dsl.triggers",
    "job": "dsl.job",
    "on_event": "dsl.triggers",
    "once": "dsl.triggers",
    "serve": "dsl.serve",
    "task": "dsl.task",
}


def __getattr__(name: str) -> object:
    """Import public names lazily, so that the command line starts without them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"mainspring.{_HOMES.get(name, _ERRORS)}"), name)
