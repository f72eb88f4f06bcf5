"""The head queue of each tenant at one priority while it is dispatched (PLC-4): the one with the oldest task."""

from __future__ import annotations

import heapq

from mainspring.core.fairness.fair_queues import FairQueues, Head
from mainspring.core.model.task import Priority
from mainspring.core.placement.task_shapes import Shape


class QueueHeads:
    """The queues of one priority during dispatch, those of each tenant by their oldest tasks.

    After an attempt only the queue that was tried is read again; all of them if a shape was woken.
    """

    def __init__(self, queues: FairQueues, priority: Priority, only: Shape | None = None) -> None:
        self._queues = queues
        self._priority = priority
        self._only = only
        self._skipped: set[tuple[str, Shape]] = set()
        self._begin()

    def any_left(self) -> bool:
        """Return whether any queue may be tried now. False is definite."""
        if self._wake_count != self._queues.wake_count:
            self._begin()
        return bool(self._open)

    def first(self, tenant: str) -> Shape | None:
        """The shape of a tenant's oldest task that can be tried now."""
        if not self.any_left():
            return None
        queues, heap = self._queues, self._heaps.get(tenant)
        if heap is None:
            heap = self._heaps[tenant] = queues.heads(self._priority, tenant, only=self._only)
            heapq.heapify(heap)
        while heap:
            shape = heap[0][2]
            head = None
            if shape in queues.parked:
                self._open.discard(shape)
            elif (tenant, shape) not in self._skipped:
                head = queues.head_of(self._priority, tenant, shape)
            if head is None:
                heapq.heappop(heap)
            elif head == heap[0]:
                return shape
            else:
                heapq.heapreplace(heap, head)
        return None

    def skip(self, tenant: str, shape: Shape) -> None:
        """Skip a queue for the rest of this pass."""
        self._skipped.add((tenant, shape))

    def _begin(self) -> None:
        self._heaps: dict[str, list[Head]] = {}
        self._open = self._queues.open_shapes(self._priority, only=self._only)
        self._wake_count = self._queues.wake_count
