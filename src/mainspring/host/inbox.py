"""Events that wait for a shard's next turn: a bounded queue with backpressure.

Two lanes. The urgent lane (P0 runs, actions of people, messages of workers about themselves) is emptied first, so that
nothing important waits behind a backlog. Queued heartbeats of one worker are merged.
"""

from __future__ import annotations

import asyncio
from collections import deque

from msgspec.structs import replace

from mainspring.background import wait_for
from mainspring.protocol.errors import Overloaded
from mainspring.shard.events import Event, WorkerHeartbeat


class Inbox:
    """Events on their way into a shard."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._urgent: deque[Event] = deque()
        self._ordinary: deque[Event] = deque()
        self._beats: dict[str, WorkerHeartbeat] = {}
        self._wakeup = asyncio.Event()
        self.last_had_urgent = False
        """Whether the last events returned included an urgent one; heartbeats do not count."""

    def __len__(self) -> int:
        return len(self._urgent) + len(self._ordinary) + len(self._beats)

    def is_full(self) -> bool:
        """Return whether callers get Overloaded. Heartbeats, returned attempts and results are still taken."""
        return len(self._ordinary) + len(self._urgent) >= self._limit

    def put(self, event: Event, *, urgent: bool = False) -> None:
        """Queue an event that is admitted already: by credit, by the intake limit, or because its kind always is."""
        if isinstance(event, WorkerHeartbeat):
            self._beats[event.worker] = _merge_beats(self._beats.get(event.worker), event)
        elif urgent:
            self._urgent.append(event)
        else:
            self._ordinary.append(event)
        self._wakeup.set()

    def offer(self, event: Event) -> None:
        """Queue a caller's event. Raises Overloaded."""
        if self.is_full():
            raise Overloaded(f"{len(self)} events are queued already")
        self.put(event, urgent=True)

    def wake(self) -> None:
        """Wake `next` early."""
        self._wakeup.set()

    async def next(self, *, wait: float, max_events: int) -> list[Event]:
        """Return up to `max_events` events, urgent ones first; an empty list if none arrives within `wait` seconds."""
        self.last_had_urgent = False
        if not len(self) and wait > 0:
            self._wakeup.clear()
            if not await wait_for(self._wakeup, wait):
                return []
        events = self.take_urgent(max_events)
        while self._ordinary and len(events) < max_events:
            events.append(self._ordinary.popleft())
        return events

    def take_urgent(self, max_events: int) -> list[Event]:
        """Return heartbeats and up to `max_events` other urgent events, without waiting."""
        self.last_had_urgent = bool(self._urgent)
        events: list[Event] = list(self._beats.values())
        self._beats.clear()
        while self._urgent and len(events) < max_events:
            events.append(self._urgent.popleft())
        return events


def _merge_beats(before: WorkerHeartbeat | None, beat: WorkerHeartbeat) -> WorkerHeartbeat:
    """Merge two heartbeats: each reports only the progress since the previous one."""
    if before is None or before.session != beat.session or not before.progress:
        return beat
    latest = {one.attempt: one for one in (*before.progress, *beat.progress)}
    return replace(beat, progress=tuple(latest.values()))
