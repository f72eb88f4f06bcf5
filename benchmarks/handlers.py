"""Handlers of the end-to-end benchmark."""

from __future__ import annotations

import time

from mainspring import task


@task
def noop() -> None:
    """Do nothing."""


@task
def stamp() -> dict[str, float]:
    """Return the times of the call and of the return."""
    began = time.time()
    return {"began": began, "ended": time.time()}


@task
def spread(count: int) -> dict[str, object]:
    """Return the items of a fan-out, with the time."""
    return {"items": list(range(count)), "ended": time.time()}
