"""A worker of a played world: nothing but what it was told and has in hands."""

from __future__ import annotations

from mainspring.protocol.wire import Answer, Assign, Offer, ToWorker


class PlayedWorker:
    """What the world knows of a worker: its session, and what it was told and has in hands."""

    def __init__(self, name: str, offer: Offer, labels: dict[str, str], zone: str) -> None:
        self.name = name
        self.offer = offer
        self.labels = labels
        self.zone = zone
        self.sessions = 0
        self.told: list[ToWorker] = []
        self.holds: list[str] = []
        self.closed = False

    @property
    def session(self) -> str:
        return f"{self.name}:{self.sessions}"

    def hear(self, message: ToWorker) -> None:
        """Keep what was said, and what it means for what the worker has in hands."""
        self.told.append(message)
        if isinstance(message, Assign):
            self.holds += [one.attempt for one in message.group]
        elif isinstance(message, Answer) and message.attempt in self.holds:
            self.holds.remove(message.attempt)
