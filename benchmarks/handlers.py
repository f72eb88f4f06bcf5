"""The functions that the end-to-end benchmark has its worker serve."""

from __future__ import annotations

import time

from mainspring import task


@task
def noop() -> None:
    """Does nothing."""


@task
def stamp() -> dict[str, float]:
    """Says when it was called, and when it was about to return."""
    began = time.time()
    return {"began": began, "ended": time.time()}


@task
def spread(count: int) -> dict[str, object]:
    """Gives a fan-out its items, and says when."""
    return {"items": list(range(count)), "ended": time.time()}
