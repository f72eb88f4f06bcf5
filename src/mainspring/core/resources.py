"""What tasks ask for and workers offer, as vectors of whole numbers."""

from __future__ import annotations

import msgspec

NAMES = ("cpu_millis", "memory_bytes", "gpus", "disk_bytes")


class Resources(msgspec.Struct, frozen=True, gc=False, order=False, forbid_unknown_fields=True):
    """An amount of each resource. Whole numbers, so that adding and taking away never drifts."""

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

    def fits(self, room: Resources) -> bool:
        """Whether this much is there in `room`."""
        return (
            self.cpu_millis <= room.cpu_millis
            and self.memory_bytes <= room.memory_bytes
            and self.gpus <= room.gpus
            and self.disk_bytes <= room.disk_bytes
        )

    def is_negative(self) -> bool:
        """Whether any part is below zero, which no amount that exists can be."""
        return self.cpu_millis < 0 or self.memory_bytes < 0 or self.gpus < 0 or self.disk_bytes < 0


NOTHING = Resources()


def dominant_share(used: Resources, total: Resources) -> float:
    """The largest fraction that `used` takes of any one resource of `total`: a tenant's share (PLC-4)."""
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
