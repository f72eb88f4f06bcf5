"""Resource vectors: task requests and worker capacity, in whole numbers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

NAMES = ("cpu_millis", "memory_bytes", "gpus", "disk_bytes")
_BYTES = {"memory_bytes": "memory", "disk_bytes": "disk"}
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


class Resources(msgspec.Struct, frozen=True, gc=False, order=False, forbid_unknown_fields=True):
    """An amount of each resource. Whole numbers, so that adding and subtracting never drifts."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    disk_bytes: int = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_millis + other.cpu_millis,
            self.memory_bytes + other.memory_bytes,
            self.gpus + other.gpus,
            self.disk_bytes + other.disk_bytes,
        )

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_millis - other.cpu_millis,
            self.memory_bytes - other.memory_bytes,
            self.gpus - other.gpus,
            self.disk_bytes - other.disk_bytes,
        )

    def fits(self, capacity: Resources) -> bool:
        """Return whether this amount fits into `capacity`."""
        return (
            self.cpu_millis <= capacity.cpu_millis
            and self.memory_bytes <= capacity.memory_bytes
            and self.gpus <= capacity.gpus
            and self.disk_bytes <= capacity.disk_bytes
        )

    def is_negative(self) -> bool:
        """Return whether any resource is below zero."""
        return self.cpu_millis < 0 or self.memory_bytes < 0 or self.gpus < 0 or self.disk_bytes < 0


ZERO_RESOURCES = Resources()


def largest_of(amounts: Iterable[Resources]) -> Resources:
    """Return the largest amount of each resource; zero if there are none."""
    distinct = set(amounts)
    return Resources(*(max((getattr(one, name) for one in distinct), default=0) for name in NAMES))


def dominant_share(used: Resources, total: Resources) -> float:
    """Return the largest fraction that `used` takes of any one resource of `total`: a tenant's dominant share
    (PLC-4)."""
    share = 0.0
    if total.cpu_millis:
        share = used.cpu_millis / total.cpu_millis
    if total.memory_bytes:
        share = max(share, used.memory_bytes / total.memory_bytes)
    if total.gpus:
        share = max(share, used.gpus / total.gpus)
    if total.disk_bytes:
        share = max(share, used.disk_bytes / total.disk_bytes)
    return share


def format_amount(name: str, amount: int) -> str:
    """Format an amount of one resource: `0.5 cores`, `512 MiB of memory`, `1 GPU`."""
    number, unit = _scaled(name, amount)
    return f"{number} {unit}{'s' if name not in _BYTES and number != '1' else ''}"


def format_part(name: str, part: int, whole: int) -> str:
    """Format a part of an amount of one resource: `3 of 40 cores`, `512 MiB of memory of 2 GiB of memory`."""
    number, unit = _scaled(name, part)
    shown = number if unit == _scaled(name, whole)[1] else format_amount(name, part)
    return f"{shown} of {format_amount(name, whole)}"


def _scaled(name: str, amount: int) -> tuple[str, str]:
    """Return the number and the unit, in the singular."""
    if name in _BYTES:
        unit = min(max(0, amount.bit_length() - 1) // 10, len(_UNITS) - 1)
        return f"{amount / 1024**unit:.4g}", f"{_UNITS[unit]} of {_BYTES[name]}"
    return (f"{amount / 1_000:.10g}", "core") if name == "cpu_millis" else (f"{amount:.10g}", "GPU")


def format_amounts(resources: Resources) -> list[str]:
    """Format the amount of each resource, omitting zeros."""
    return [format_amount(name, amount) for name in NAMES if (amount := getattr(resources, name))]
