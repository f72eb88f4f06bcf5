"""A virtual worker: the messages that it got, and the attempts that it holds."""

from __future__ import annotations

from mainspring.protocol.wire import Answer, Assign, Offer, ToWorker


class VirtualWorker:
    """State of a virtual worker: its session, messages and attempts."""

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
        """Record a message, and apply it to the attempts."""
        self.told.append(message)
        if isinstance(message, Assign):
            self.holds += [one.attempt for one in message.group]
        elif isinstance(message, Answer) and message.attempt in self.holds:
            self.holds.remove(message.attempt)
