"""How far a task is kept apart from its worker and from its neighbours (WRK-4).

    none        nothing but a process group of its own: for one person's own machine
    process     another user if the agent may, limits on memory, processes, files and open files
    sandbox     that, and a root that can't be written, a /tmp of its own, its own processes, no network unless declared
    container   an image of its own, run by docker or podman

A worker runs everything at least at its own level, and says as labels which levels it can offer. A task that asks for
one (`isolation: sandbox`) wants that label, and is placed only where it is.
"""

from __future__ import annotations

from enum import StrEnum

ISOLATION_LABEL = "isolation/"
"""A worker that can run a task in a sandbox has the label `isolation/sandbox`."""


class Isolation(StrEnum):
    """A level, from the least to the most."""

    NONE = "none"
    PROCESS = "process"
    SANDBOX = "sandbox"
    CONTAINER = "container"


LEVELS = tuple(Isolation)


def at_least(one: Isolation, other: Isolation) -> Isolation:
    """The stronger of two levels."""
    return max(one, other, key=LEVELS.index)


def label_of(level: Isolation) -> str:
    """The label of a worker that offers this level, and of a task that asks for it."""
    return f"{ISOLATION_LABEL}{level}"
