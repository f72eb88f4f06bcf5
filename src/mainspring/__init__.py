"""Mainspring: runs of tasks, decided in memory, remembered in fenced batches.

    from mainspring import Client, Context, TaskError, current, serve, task

Start reading at `host/loop.py`, the loop that everything else serves.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainspring.errors import TaskError
    from mainspring.sdk.client import Client
    from mainspring.sdk.context import Context, current
    from mainspring.sdk.serving import serve
    from mainspring.sdk.tasks import task

__all__ = ["Client", "Context", "TaskError", "__version__", "current", "serve", "task"]
__version__ = "0.1.0"

_HOMES = {
    "Client": "sdk.client",
    "Context": "sdk.context",
    "TaskError": "errors",
    "current": "sdk.context",
    "serve": "sdk.serving",
    "task": "sdk.tasks",
}


def __getattr__(name: str) -> object:
    """What users import is loaded when they ask for it: the command line starts without it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"mainspring.{_HOMES[name]}"), name)
