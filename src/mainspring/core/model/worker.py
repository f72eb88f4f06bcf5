"""A worker as the shard sees it, and the leases that take its room.

1. Use is the sum over live leases. `used` is that sum, kept so that placement need not add up; `use_of` adds up, and
   the sweep and the simulator compare the two (I-60).
2. A group is one lease: it takes the room of one task, and gives it back when its last member has ended or been
   returned (I-65).
3. Room that is kept for a task (PLC-6) is not in use: nobody has it, and nobody but that task finds it free. More may
   be kept than is there, while it is being freed: then parts of `free` are below zero, and nothing fits.
4. A worker that takes its work over plain HTTP (WRK-2) gets as many leases as it has claims for, one attempt each. Its
   id says so: the rows alone tell a new leader which ones these are.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mainspring.core.model.resources import NOTHING, Resources
from mainspring.core.model.task import Priority, Task
from mainspring.core.placement.task_shapes import Shape

CLAIMANT = "http/"
"""How the ids of workers begin that claim their work over plain HTTP (WRK-2). No agent may have such a name."""
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
    is_mixed: bool = False
    """Its tasks have different priorities: one was changed."""
    since: float = 0.0
    """When it was given, or found by a new leader, in seconds of the shard's life."""
    heard: float = 0.0
    """If it was claimed: when its worker last spoke of it, in seconds of the shard's life."""

    def reconsider(self) -> None:
        """A task of it has another priority, or is over: the lease has that of the most important one."""
        priorities = {task.priority for task in self.members.values()}
        self.priority = min(priorities)
        self.is_mixed = len(priorities) > 1


class Worker(msgspec.Struct, kw_only=True):
    """A worker and what it has in hands."""

    id: str
    session: str = ""
    total: Resources = NOTHING
    used: Resources = NOTHING
    kept: dict[str, Resources] = {}
    """Task id to the room that is kept for it. Changed by `keep` and `give_back` only."""
    kept_total: Resources = NOTHING
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
    wants: int | None = None
    """How many leases more its open claims are for; None: it is an agent, and takes as many as fit."""

    @property
    def free(self) -> Resources:
        """What is left of it for anybody."""
        left = self.total - self.used
        return left - self.kept_total if self.kept else left

    def free_for(self, task_id: str) -> Resources:
        """What is left of it for this task, with the room that is kept for it."""
        mine = self.kept.get(task_id)
        return self.free if mine is None else self.free + mine

    def keep(self, task_id: str, resources: Resources) -> None:
        """Let nobody but this task have so much of it from now on. The caller refreshes the worker in the memory."""
        self.give_back(task_id)
        self.kept[task_id] = resources
        self.kept_total += resources

    def give_back(self, task_id: str) -> None:
        """Let anybody have what is kept for this task, if anything is. The caller refreshes the worker."""
        mine = self.kept.pop(task_id, None)
        if mine is not None:
            self.kept_total -= mine

    def status_for_people(self) -> str:
        """What its row says of it."""
        return LEAVING if self.leaving and self.status is WorkerStatus.READY else self.status

    def takes_new(self) -> bool:
        """Whether nobody minds that it gets something new: neither a person nor the worker itself."""
        return not self.hold and not self.leaving and self.wants != 0


def is_claimant(worker_id: str) -> bool:
    """Whether the worker of this id takes its work by claims."""
    return worker_id.startswith(CLAIMANT)


def use_of(worker: Worker) -> Resources:
    """What the live leases of a worker add up to."""
    total = NOTHING
    for lease in worker.leases.values():
        total += lease.shape.resources
    return total
