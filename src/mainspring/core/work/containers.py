"""A task that runs in a container (WRK-3): what a job says of it, and what is wrong with that.

{"container": {"image": "python:3.13-slim", "run": ["python", "-c", "print({{ params.day }})"]}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Fault

PULLS = ("missing", "always", "never")
LONGEST_IMAGE = 500
MOST_WORDS = 1_000
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::\d{1,5})?/)?"  # a registry
    r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(?:@[a-z0-9]+:[0-9a-f]{32,128})?"
)
_TRANSPORTS = frozenset(
    {"containers-storage", "dir", "docker-archive", "docker-daemon", "oci", "oci-archive", "ostree", "sif", "tarball"}
)
"""What stands before a colon where podman takes a file of the machine for an image."""


class ContainerRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An image, and what is run in it."""

    image: str
    run: tuple[str, ...] = ()
    """The words of the command, templates each, in place of the image's entrypoint; what the image says if there are
    none."""
    pull: str = "missing"
    """When the image is fetched: missing, always, never."""


def faults_in(container: ContainerRun, where: str) -> Iterator[Fault]:
    """What is wrong with it, but for its templates."""
    if (why := fault_in_image(container.image)) is not None:
        yield Fault(where=f"{where}.image", why=why)
    if container.run and not container.run[0]:
        yield Fault(where=f"{where}.run", why="must begin with a program, or be left out")
    if len(container.run) > MOST_WORDS:
        yield Fault(where=f"{where}.run", why=f"has more than {MOST_WORDS} words")
    if container.pull not in PULLS:
        hint = did_you_mean(container.pull, PULLS)
        yield Fault(where=f"{where}.pull", why=f"must be one of {', '.join(PULLS)}{hint}")


def fault_in_image(image: str) -> str | None:
    """Why this can't be the name of an image, as the end of a sentence."""
    if len(image) <= LONGEST_IMAGE and _IMAGE.fullmatch(image) and image.partition(":")[0] not in _TRANSPORTS:
        return None
    return "is no name of an image, such as python:3.13-slim" if image else "is empty"
