"""A worker in the shard's memory, and the leases that use its capacity.

1. Use is the sum over live leases. `used` caches that sum for placement; the simulator compares the two (I-60).
2. A group is one lease: it uses the capacity of one task, and releases it when its last member has ended or was
   returned (I-65).
3. Reserved capacity (PLC-6) is not in use: only the task that it is reserved for can use it. Reservations may exceed
   the free capacity while tasks are being stopped: then parts of `free` are below zero, and nothing fits.
4. A worker over plain HTTP (WRK-2) gets as many leases as it has claims, one attempt each. Its id has a prefix, so that
   a new leader recognizes it from the rows alone.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.task import Priority, Task
from mainspring.core.placement.task_shapes import Shape

CLAIMANT = "http/"
"""Prefix of the ids of workers that claim work over plain HTTP (WRK-2). Not allowed for agents."""
LEAVING = "leaving"
"""Displayed status of a ready worker that accepts no more work."""


class WorkerStatus(StrEnum):
    """Liveness of a worker, as the shard sees it."""

    EXPECTED = "expected"
    """Holds work according to the rows; no heartbeat in this term yet."""
    READY = "ready"
    SUSPECT = "suspect"
    """Heartbeats are late: keeps its tasks, gets no new ones."""
    LOST = "lost"
    """Heartbeats are missing for too long: its tasks were requeued."""
    GONE = "gone"
    """It said goodbye."""


class Hold(StrEnum):
    """Cordon state, set by an operator (WRK-9)."""

    NONE = ""
    CORDONED = "cordoned"
    """No new tasks; running tasks continue."""
    DRAINING = "draining"
    """Cordoned, and tasks that have not started are recalled."""


class Lease(msgspec.Struct, kw_only=True):
    """Capacity of one task on one worker, used by a group of attempts that run one after another."""

    id: str
    worker_id: str
    tenant: str
    priority: Priority
    shape: Shape
    members: dict[str, Task]
    """Attempt id to task, for attempts that have not ended."""
    received: bool = False
    """The worker has it in its spool."""
    recalled: bool = False
    has_mixed_priorities: bool = False
    """Its tasks have different priorities, because one was changed."""
    since: float = 0.0
    """When it was granted, or restored by a new leader, in shard time (seconds)."""
    last_heartbeat: float = 0.0
    """For a claim: the last heartbeat of its worker, in shard time (seconds)."""

    def update_priority(self) -> None:
        """Update the lease's priority to the highest one of its remaining tasks."""
        priorities = {task.priority for task in self.members.values()}
        self.priority = min(priorities)
        self.has_mixed_priorities = len(priorities) > 1


class Worker(msgspec.Struct, kw_only=True):
    """A worker, its leases and its reservations."""

    id: str
    session: str = ""
    total: Resources = ZERO_RESOURCES
    used: Resources = ZERO_RESOURCES
    reserved: dict[str, Resources] = {}
    """Reserved resources by task id. Changed by `reserve` and `release` only."""
    reserved_total: Resources = ZERO_RESOURCES
    labels: dict[str, str] = {}
    zone: str = ""
    version: str = ""
    status: WorkerStatus = WorkerStatus.EXPECTED
    last_heartbeat: float = 0.0
    """Last heartbeat, in shard time (seconds)."""
    leases: dict[str, Lease] = {}
    refused: set[Shape] = set()
    """Shapes that it refused to run (PLC-7). Cleared when it registers again."""
    watched: int = 0
    """Number of its heartbeat timer; 0: none."""
    hold: Hold = Hold.NONE
    hold_why: str = ""
    """Who cordoned it, and why."""
    leaving: bool = False
    """It accepts no more work in this session."""
    claim_slots: int | None = None
    """Number of leases that its open claims still take; None: it is an agent, and takes as many as fit."""

    @property
    def free(self) -> Resources:
        """Free capacity, without reservations."""
        left = self.total - self.used
        return left - self.reserved_total if self.reserved else left

    def free_for(self, task_id: str) -> Resources:
        """Return the free capacity for this task, including its own reservation."""
        mine = self.reserved.get(task_id)
        return self.free if mine is None else self.free + mine

    def reserve(self, task_id: str, resources: Resources) -> None:
        """Reserve this much for a task. The caller refreshes the worker in the memory."""
        self.release(task_id)
        self.reserved[task_id] = resources
        self.reserved_total += resources

    def release(self, task_id: str) -> None:
        """Release the task's reservation, if any. The caller refreshes the worker."""
        mine = self.reserved.pop(task_id, None)
        if mine is not None:
            self.reserved_total -= mine

    def display_status(self) -> str:
        """Return the displayed status."""
        return LEAVING if self.leaving and self.status is WorkerStatus.READY else self.status

    def accepts_work(self) -> bool:
        """Return whether the worker may get new work: it is not cordoned, not leaving, and has open claims if it is a
        claimant."""
        return not self.hold and not self.leaving and self.claim_slots != 0


def is_claimant(worker_id: str) -> bool:
    """Return whether a worker takes its work by claims."""
    return worker_id.startswith(CLAIMANT)
