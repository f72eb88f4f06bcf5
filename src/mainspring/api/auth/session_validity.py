"""Whether somebody may still do what was begun: a stream or a link outlives the token that opened it otherwise.

A request that takes a moment is checked when it begins. What stays open asks again every few seconds, so that a token
or certificate that was revoked, or has expired, ends what was opened with it.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection

from mainspring.api.services import Services
from mainspring.protocol.errors import Unauthenticated, Unavailable

ASK_AGAIN_SECONDS = 5.0


class Standing:
    """One caller's right to go on."""

    def __init__(self, services: Services, connection: HTTPConnection) -> None:
        self._services = services
        self._connection = connection
        self._asked_at = services.clock.monotonic()

    async def is_valid(self) -> bool:
        """Whether the caller is still somebody. While the store can't be asked, what was true stays true."""
        if self._services.clock.monotonic() < self._asked_at + ASK_AGAIN_SECONDS:
            return True
        self._asked_at = self._services.clock.monotonic()
        try:
            await self._services.who_asks(self._connection)
        except Unauthenticated:
            return False
        except Unavailable:
            pass  # nobody can say now; the next time decides
        return True
