"""What waits for a shard's next turn: bounded, and pushing back.

Two lanes. The urgent one (P0 runs, people's acts, what workers say of themselves) is emptied first, so that nothing
important waits behind a backlog. Beats of one worker that wait together are one.
"""

from __future__ import annotations

import asyncio
from collections import deque

from msgspec.structs import replace

from mainspring.protocol.errors import Overloaded
from mainspring.shard.events import Event, WorkerBeat


class Inbox:
    """Events on their way into a shard."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._urgent: deque[Event] = deque()
        self._ordinary: deque[Event] = deque()
        self._beats: dict[str, WorkerBeat] = {}
        self._something = asyncio.Event()
        self.gave_urgent = False
        """Whether there was something urgent, more than a beat, among what was given last."""

    def __len__(self) -> int:
        return len(self._urgent) + len(self._ordinary) + len(self._beats)

    def is_full(self) -> bool:
        """Whether callers are to be pushed back. Beats, returns and results that had credit are still taken."""
        return len(self._ordinary) + len(self._urgent) >= self._limit

    def put(self, event: Event, *, urgent: bool = False) -> None:
        """Take an event that has been let in before: by credit, by intake's measure, or because it always flows."""
        if isinstance(event, WorkerBeat):
            self._beats[event.worker] = _joined(self._beats.get(event.worker), event)
        elif urgent:
            self._urgent.append(event)
        else:
            self._ordinary.append(event)
        self._something.set()

    def offer(self, event: Event) -> None:
        """Take a caller's event, or raise Overloaded."""
        if self.is_full():
            raise Overloaded(f"{len(self)} events wait already")
        self.put(event, urgent=True)

    def wake(self) -> None:
        """End a wait of `next` early."""
        self._something.set()

    async def next(self, *, wait: float, max_events: int) -> list[Event]:
        """At most `max_events` events, urgent ones first; nothing if none came within `wait` seconds."""
        self.gave_urgent = False
        if not len(self) and wait > 0:
            self._something.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._something.wait()
            except TimeoutError:
                return []
        events = self.take_urgent(max_events)
        while self._ordinary and len(events) < max_events:
            events.append(self._ordinary.popleft())
        return events

    def take_urgent(self, most: int) -> list[Event]:
        """Beats, and at most `most` other events that are urgent, as far as they are here."""
        self.gave_urgent = bool(self._urgent)
        events: list[Event] = list(self._beats.values())
        self._beats.clear()
        while self._urgent and len(events) < most:
            events.append(self._urgent.popleft())
        return events


def _joined(before: WorkerBeat | None, beat: WorkerBeat) -> WorkerBeat:
    """Two beats as one: a beat tells only of what has moved since the one before."""
    if before is None or before.session != beat.session or not before.progress:
        return beat
    latest = {one.attempt: one for one in (*before.progress, *beat.progress)}
    return replace(beat, progress=tuple(latest.values()))
