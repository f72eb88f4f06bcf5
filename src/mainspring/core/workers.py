"""A worker as the shard sees it, and the leases that take its room.

1. Use is the sum over live leases. `used` is that sum, kept so that placement need not add up; `use_of` adds up, and
   the sweep and the simulator compare the two (I-60).
2. A group is one lease: it takes the room of one task, and gives it back when its last member has ended or been
   returned (I-65).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mainspring.core.resources import NOTHING, Resources
from mainspring.core.shapes import Shape
from mainspring.core.tasks import Priority, Task

LEAVING = "leaving"
"""What people see as the status of a worker that is ready, and has said that it wants nothing more."""


class WorkerStatus(StrEnum):
    """What the shard thinks of a worker."""

    EXPECTED = "expected"
    """The rows say that it holds work; it has not been heard of in this term."""
    READY = "ready"
    SUSPECT = "suspect"
    """Silent for a while: keeps what it has, gets nothing new."""
    LOST = "lost"
    """Silent for too long: what it had has been taken back."""
    GONE = "gone"
    """It said goodbye."""


class Hold(StrEnum):
    """What a person has decided about a worker (WRK-9)."""

    NONE = ""
    CORDONED = "cordoned"
    """It gets nothing new; what it has goes on."""
    DRAINING = "draining"
    """Cordoned, and what it has not started is called back."""


class Lease(msgspec.Struct, kw_only=True):
    """One task's room on one worker, held by a group of attempts that run one after another."""

    id: str
    worker_id: str
    tenant: str
    priority: Priority
    shape: Shape
    members: dict[str, Task]
    """Attempt id to task, for those that are not over."""
    received: bool = False
    """The worker has it in its journal."""
    recalled: bool = False

    def reconsider(self) -> None:
        """A task of it has another priority: the lease has that of the most important one."""
        self.priority = min(task.priority for task in self.members.values())


class Worker(msgspec.Struct, kw_only=True):
    """A worker and what it has in hands."""

    id: str
    session: str = ""
    total: Resources = NOTHING
    used: Resources = NOTHING
    labels: dict[str, str] = {}
    zone: str = ""
    version: str = ""
    status: WorkerStatus = WorkerStatus.EXPECTED
    heard: float = 0.0
    """When it was last heard of, in seconds of the shard's life."""
    leases: dict[str, Lease] = {}
    refused: set[Shape] = set()
    """Shapes that it said it can't run (PLC-7). Forgotten when it registers again."""
    watched: int = 0
    """The number of the timer that watches over its silence; 0: none does."""
    hold: Hold = Hold.NONE
    hold_why: str = ""
    """By whom it is held, and why."""
    leaving: bool = False
    """It has said in this session that it wants nothing more."""

    @property
    def free(self) -> Resources:
        """What is left of it."""
        return self.total - self.used

    def status_for_people(self) -> str:
        """What its row says of it."""
        return LEAVING if self.leaving and self.status is WorkerStatus.READY else self.status

    def takes_new(self) -> bool:
        """Whether nobody minds that it gets something new: neither a person nor the worker itself."""
        return not self.hold and not self.leaving


class OpenWorkers:
    """The workers that are ready, may get something new and have some room, in a list that can be sampled from."""

    def __init__(self) -> None:
        self.all: list[Worker] = []
        self._places: dict[str, int] = {}
        self._free_cpu: dict[str, int] = {}
        self.free_cpu_millis = 0

    def update(self, worker: Worker) -> bool:
        """Take a worker in or out, as its status, holds and room are now; True if it is in."""
        self.discard(worker.id)
        free = worker.total.cpu_millis - worker.used.cpu_millis
        if worker.status is not WorkerStatus.READY or free <= 0 or not worker.takes_new():
            return False
        self._places[worker.id] = len(self.all)
        self.all.append(worker)
        self._free_cpu[worker.id] = free
        self.free_cpu_millis += free
        return True

    def discard(self, worker_id: str) -> None:
        """Take a worker out, if it is in."""
        place = self._places.pop(worker_id, None)
        if place is None:
            return
        self.free_cpu_millis -= self._free_cpu.pop(worker_id)
        last = self.all.pop()
        if last.id != worker_id:
            self.all[place] = last
            self._places[last.id] = place


def use_of(worker: Worker) -> Resources:
    """What the live leases of a worker add up to."""
    total = NOTHING
    for lease in worker.leases.values():
        total += lease.shape.resources
    return total
