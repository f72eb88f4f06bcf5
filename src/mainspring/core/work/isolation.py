"""Isolation levels of tasks (WRK-4).

    none        only a process group of its own: for a personal machine
    process     another user if the agent may, limits on memory, processes, files and open files
    sandbox     that, and a read-only root, a private /tmp, its own processes, no network unless declared
    container   its own image, run by docker or podman

A worker runs every task at least at its own level, and offers levels as labels. A task that requests a level
(`isolation: sandbox`) requires that label, and is placed accordingly.
"""

from __future__ import annotations

from enum import StrEnum

ISOLATION_LABEL = "isolation/"
"""Label prefix: a worker that can run a sandbox has the label `isolation/sandbox`."""


class Isolation(StrEnum):
    """Isolation level, from weakest to strongest."""

    NONE = "none"
    PROCESS = "process"
    SANDBOX = "sandbox"
    CONTAINER = "container"


LEVELS = tuple(Isolation)


def at_least(one: Isolation, other: Isolation) -> Isolation:
    """Return the stronger of two levels."""
    return max(one, other, key=LEVELS.index)


def label_of(level: Isolation) -> str:
    """Return the label of a level, for workers that offer it and tasks that request it."""
    return f"{ISOLATION_LABEL}{level}"
