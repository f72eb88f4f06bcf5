"""Re-validation of long-lived sessions: streams and links would otherwise outlive the credential that opened them.

Short requests are checked once. Open streams re-check every few seconds, so that a revoked or expired token or
certificate ends them.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection

from mainspring.api.services import Services
from mainspring.protocol.errors import Unauthenticated, Unavailable

VALIDITY_CHECK_SECONDS = 5.0


class SessionValidity:
    """Validity of one caller's session."""

    def __init__(self, services: Services, connection: HTTPConnection) -> None:
        self._services = services
        self._connection = connection
        self._checked_at = services.clock.monotonic()

    async def is_valid(self) -> bool:
        """Return whether the credential is still valid. If the store is unavailable, assume that it is."""
        if self._services.clock.monotonic() < self._checked_at + VALIDITY_CHECK_SECONDS:
            return True
        self._checked_at = self._services.clock.monotonic()
        try:
            await self._services.authenticate(self._connection)
        except Unauthenticated:
            return False
        except Unavailable:
            pass  # unknown now; the next check decides
        return True
