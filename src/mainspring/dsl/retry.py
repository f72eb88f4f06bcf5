"""`Retry`: number of retries and backoff of a task."""

from __future__ import annotations

import msgspec

from mainspring.core.text.durations import parse_seconds
from mainspring.protocol.errors import Refused

MAX_RETRIES = 4
_SEPARATOR = ".."


class Retry(msgspec.Struct, frozen=True):
    """Retry up to `times` times; `backoff="2s..60s"` waits 2 s, then multiplies the delay by `factor`, up to 60 s.

    `backoff="10s"` sets only the first delay. A task marks an error as retryable by raising `TaskError`.
    """

    times: int
    backoff: str | float | None = None
    factor: float | None = None

    def __post_init__(self) -> None:
        if type(self.times) is not int or not 0 <= self.times <= MAX_RETRIES:
            raise Refused(f"Retry({self.times!r}): the number of retries must be from 0 to {MAX_RETRIES}")
        self._bounds()

    def fields(self) -> dict[str, object]:
        """Return the fields of a task's definition."""
        first, last = self._bounds()
        policy = {"cap_seconds": last, "factor": self.factor}
        given = {field: value for field, value in policy.items() if value is not None}
        return {
            "max_attempts": self.times + 1,
            **({"retry_delay_seconds": first} if first is not None else {}),
            **({"retry": given} if given else {}),
        }

    def _bounds(self) -> tuple[float | None, float | None]:
        """Return the first and the longest delay, in seconds."""
        if self.backoff is None:
            return None, None
        first, separator, last = (
            str(self.backoff).partition(_SEPARATOR) if isinstance(self.backoff, str) else (self.backoff, "", "")
        )
        try:
            shortest = parse_seconds(first)
            longest = parse_seconds(last) if separator else None
        except ValueError:
            raise Refused(f'backoff={self.backoff!r}: must be a duration, or a range such as "2s..60s"') from None
        if longest is not None and longest < shortest:
            raise Refused(f"backoff={self.backoff!r}: the longest delay is shorter than the first")
        return shortest, longest
