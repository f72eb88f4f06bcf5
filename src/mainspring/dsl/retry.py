"""`Retry`: how often a task is tried again, and after how long."""

from __future__ import annotations

import msgspec

from mainspring.definitions.quantities import seconds_of
from mainspring.protocol.errors import Refused

MOST_RETRIES = 4
_BETWEEN = ".."


class Retry(msgspec.Struct, frozen=True):
    """So many retries; `backoff="2s..60s"` waits 2 s, then longer each time by `factor`, and never more than 60 s.

    `backoff="10s"` says only how long the first wait is. What is worth another try the task says itself, by raising
    `TaskError`.
    """

    times: int
    backoff: str | float | None = None
    factor: float | None = None

    def __post_init__(self) -> None:
        if type(self.times) is not int or not 0 <= self.times <= MOST_RETRIES:
            raise Refused(f"Retry({self.times!r}): a task is tried again from 0 to {MOST_RETRIES} times")
        self._bounds()

    def fields(self) -> dict[str, object]:
        """What a task's definition says of it."""
        first, last = self._bounds()
        policy = {"cap_seconds": last, "factor": self.factor}
        said = {field: value for field, value in policy.items() if value is not None}
        return {
            "max_attempts": self.times + 1,
            **({"retry_delay_seconds": first} if first is not None else {}),
            **({"retry": said} if said else {}),
        }

    def _bounds(self) -> tuple[float | None, float | None]:
        """The first wait and the longest one, in seconds."""
        if self.backoff is None:
            return None, None
        first, between, last = (
            str(self.backoff).partition(_BETWEEN) if isinstance(self.backoff, str) else (self.backoff, "", "")
        )
        try:
            shortest = seconds_of(first)
            longest = seconds_of(last) if between else None
        except ValueError:
            raise Refused(f'backoff={self.backoff!r}: it is a length of time, or two as in "2s..60s"') from None
        if longest is not None and longest < shortest:
            raise Refused(f"backoff={self.backoff!r}: the longest wait is shorter than the first")
        return shortest, longest
