"""Starved queues: those that found no capacity, and when each is checked next (`shard/placement/preemption.py`).

A queue is the tasks of one priority, tenant and shape. It is here from the moment it finds no capacity until a check
finds that no task of it waits without a reservation.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping

import msgspec

from mainspring.core.model.task import Priority
from mainspring.core.placement.task_shapes import Shape

QueueKey = tuple[Priority, str, Shape]
RECHECK_SECONDS = 1.0
"""After a check that found nothing."""
_LOG_EVERY_SECONDS = 10.0
_MAX_LOGGED = 1_000
"""Shapes logged per interval at most."""


class StarvedQueue(msgspec.Struct, kw_only=True):
    """State of one starved queue."""

    head: str = ""
    """Its first task at the last check."""
    since: float
    """Since when that task has been starved. All times here are shard time."""
    due: float


class StarvedQueues:
    """All starved queues of a shard."""

    def __init__(self) -> None:
        self._known: dict[QueueKey, StarvedQueue] = {}
        self._due: dict[Priority, list[tuple[float, int, QueueKey]]] = {priority: [] for priority in Priority}
        self._count = 0
        self._alarm: float | None = None
        """When the current timer fires, if one is set."""
        self._next_alarm: float | None = None
        """When a timer should fire, as far as known."""
        self._swept = -1.0
        """When queues of parked shapes were last marked."""
        self._is_new = False
        """Whether queues were added since then: there may be others of the same shape."""
        self._changed_workers: dict[str, None] = {}
        self.changed_workers: Mapping[str, None] = self._changed_workers
        """Workers with reservations of which a part may have become free."""
        self._logged_at: dict[Shape, float] = {}
        """When each shape was last logged, oldest first."""
        self.max_logged = _MAX_LOGGED
        """Zero for forecasts, which have no decision log."""

    def mark_starved(self, queue_key: QueueKey, shard_time: float) -> None:
        """Mark a queue as starved. A queue that waits for its next check keeps its time."""
        if queue_key not in self._known:
            self._known[queue_key] = StarvedQueue(since=shard_time, due=shard_time)
            self._put(queue_key, shard_time)
            self._is_new = True

    def mark_starved_since(self, queue_key: QueueKey, head: str, waited: float, shard_time: float) -> None:
        """Mark a queue whose head lost its reservation to another task after waiting this long."""
        self.mark_starved(queue_key, shard_time)
        starved = self._known[queue_key]
        starved.head, starved.since = head, shard_time - waited
        if starved.due > shard_time:
            self.defer(queue_key, shard_time)

    def sweep(
        self, priority: Priority, shard_time: float, parked: Callable[[Iterable[Priority]], Iterable[QueueKey]]
    ) -> None:
        """Mark the queues of parked shapes as starved: one queue parks the shape for all.

        P0 queues are few and can't wait; the others are marked once a second.
        """
        if priority is Priority.P0:
            swept: tuple[Priority, ...] = (Priority.P0,)
        elif shard_time >= self._swept + RECHECK_SECONDS:
            self._swept, self._is_new = shard_time, False
            swept = (Priority.P1, Priority.P2)
        else:
            if self._is_new:
                self.wake(self._swept + RECHECK_SECONDS)
            return
        for queue_key in parked(swept):
            self.mark_starved(queue_key, shard_time)

    def note_changed_worker(self, worker_id: str) -> None:
        """Capacity of a worker with reservations may have become free."""
        self._changed_workers[worker_id] = None

    def clear_changed_workers(self) -> None:
        """All priorities have seen the changed workers."""
        self._changed_workers.clear()

    def set_alarm(self) -> float | None:
        """When a timer has to be set to fire; None if the current one is early enough."""
        due, self._next_alarm = self._next_alarm, None
        if due is None or (self._alarm is not None and due >= self._alarm):
            return None
        self._alarm = due
        return due

    def has_alarm(self) -> bool:
        """Whether a timer is set."""
        return self._alarm is not None

    def clear_alarm(self) -> None:
        """The timer has fired."""
        self._alarm = None

    def known(self) -> Mapping[QueueKey, StarvedQueue]:
        """All starved queues."""
        return self._known

    def restore(self, queue_key: QueueKey, starved: StarvedQueue) -> None:
        """Restore a queue with its state."""
        self._known[queue_key] = starved
        self._put(queue_key, starved.due)

    def defer(self, queue_key: QueueKey, due: float, wake_at: float | None = None) -> None:
        """Check a queue again in the first turn after `due`; at `wake_at` at the latest."""
        self._known[queue_key].due = due
        self._put(queue_key, due)
        if wake_at is not None:
            self.wake(wake_at)

    def check_now(self, priority: Priority, shard_time: float, could_help: Callable[[Shape], bool]) -> None:
        """Check the queues of a priority now that a change could help."""
        for queue_key, starved in self._known.items():
            if queue_key[0] is priority and starved.due > shard_time and could_help(queue_key[2]):
                self.defer(queue_key, shard_time)

    def wake(self, at: float) -> None:
        """Make sure that there is a turn at that time."""
        self._next_alarm = at if self._next_alarm is None else min(at, self._next_alarm)

    def forget(self, queue_key: QueueKey) -> None:
        """Remove a queue that is no longer starved."""
        self._known.pop(queue_key, None)

    def starved(self, queue_key: QueueKey, head: str, shard_time: float) -> StarvedQueue:
        """State of a queue with this head; its wait restarts if the head has changed."""
        starved = self._known[queue_key]
        if starved.head != head:
            starved.head, starved.since = head, shard_time
        return starved

    def pop_due(self, priority: Priority, shard_time: float, most: int) -> list[QueueKey]:
        """Queues to check now. The caller defers or removes each."""
        heap, found = self._due[priority], dict[QueueKey, None]()
        while heap and heap[0][0] <= shard_time and len(found) < most:
            due, _, queue_key = heapq.heappop(heap)
            known = self._known.get(queue_key)
            if known is not None and known.due == due:
                found[queue_key] = None
        return list(found)

    def should_log(self, shape: Shape, shard_time: float) -> bool:
        """Whether to log now that a shape found no capacity; marks it as logged."""
        logged_at = self._logged_at
        while logged_at and shard_time - next(iter(logged_at.values())) >= _LOG_EVERY_SECONDS:
            del logged_at[next(iter(logged_at))]
        if shape in logged_at or len(logged_at) >= self.max_logged:
            return False
        logged_at[shape] = shard_time
        return True

    def _put(self, queue_key: QueueKey, due: float) -> None:
        self._count += 1
        heapq.heappush(self._due[queue_key[0]], (due, self._count, queue_key))
