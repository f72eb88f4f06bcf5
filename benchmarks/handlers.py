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
