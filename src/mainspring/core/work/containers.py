"""Container tasks (WRK-3): definition and validation.

{"container": {"image": "python:3.13-slim", "run": ["python", "-c", "print({{ params.day }})"]}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Fault, faults_at

PULLS = ("missing", "always", "never")
MAX_IMAGE_LENGTH = 500
MAX_ARGUMENTS = 1_000
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::\d{1,5})?/)?"  # a registry
    r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(?:@[a-z0-9]+:[0-9a-f]{32,128})?"
)
_TRANSPORTS = frozenset(
    {"containers-storage", "dir", "docker-archive", "docker-daemon", "oci", "oci-archive", "ostree", "sif", "tarball"}
)
"""Prefixes with which podman would read a local file as an image."""


class ContainerRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An image, and the command run in it."""

    image: str
    run: tuple[str, ...] = ()
    """Arguments of the command, each a template, in place of the image's entrypoint; empty: the image's own."""
    pull: str = "missing"
    """Pull policy: missing, always, never."""


def faults_in(container: ContainerRun, where: str) -> Iterator[Fault]:
    """Yield the faults in a definition, except in its templates."""
    yield from faults_at(f"{where}.image", fault_in_image(container.image))
    if container.run and not container.run[0]:
        yield Fault(f"{where}.run", "must begin with a program, or be left out")
    if len(container.run) > MAX_ARGUMENTS:
        yield Fault(f"{where}.run", f"has more than {MAX_ARGUMENTS} arguments")
    if container.pull not in PULLS:
        hint = did_you_mean(container.pull, PULLS)
        yield Fault(f"{where}.pull", f"must be one of {', '.join(PULLS)}{hint}")


def fault_in_image(image: str) -> str | None:
    """Return why an image name is invalid, or None."""
    if len(image) <= MAX_IMAGE_LENGTH and _IMAGE.fullmatch(image) and image.partition(":")[0] not in _TRANSPORTS:
        return None
    return "is not an image name such as python:3.13-slim" if image else "is empty"
