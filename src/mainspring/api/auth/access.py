"""What the credentials of a caller permit on this server (SEC-1, SEC-3, WRK-6).

authenticate     the caller of a request
session          re-validation of streams and links, which would otherwise outlive the credential that opened them
check_worker     permission to act as a worker, checked on register and claim, over any transport
attempt_token    the token of a task attempt
"""

from __future__ import annotations

from datetime import datetime, timedelta

from starlette.requests import HTTPConnection

from mainspring.api.auth import permissions, tokens
from mainspring.api.auth.authentication import TokenIdentities
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.http.peer_certificates import certificate_of
from mainspring.api.worker_link.enrollment import ENROLL_HINT, Enrollment
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Forbidden, Unauthenticated, Unavailable

VALIDITY_CHECK_SECONDS = 5.0
ATTEMPT_TOKEN_LIFETIME = timedelta(days=367)
"""Longer than any attempt may run, including extensions: a token is valid only while its attempt runs, which is checked
with every request.
"""


class Access:
    """Authentication and worker permissions on one server."""

    def __init__(
        self, identities: TokenIdentities, clock: Clock, *, cluster_secret: str, enrollment: Enrollment | None
    ) -> None:
        """`enrollment` is None if workers authenticate with tokens only.

        The servers of one store share `cluster_secret`: it signs the tokens of attempts and the payloads of webhooks.
        """
        self.enrollment = enrollment
        self._identities = identities
        self._clock = clock
        self._secret = cluster_secret

    async def authenticate(self, connection: HTTPConnection) -> Principal:
        """Return the caller of a connection. Raises Unauthenticated."""
        certificate = certificate_of(connection.scope)
        return await self._identities.of(connection.headers, client_of(connection), certificate)

    def session(self, connection: HTTPConnection) -> SessionValidity:
        """Return the validity of the session that a connection has just opened."""
        return SessionValidity(self, connection, self._clock)

    def attempt_token(self, attempt: str, now: datetime) -> str:
        """Create the token of an attempt."""
        return tokens.make_attempt_token(self._secret, attempt, now + ATTEMPT_TOKEN_LIFETIME)

    def webhook_secret(self, webhook_id: str) -> str:
        """Return the signing secret of a webhook."""
        return tokens.webhook_secret(self._secret, webhook_id)

    def check_worker(self, principal: Principal) -> None:
        """Raise Forbidden unless the caller may act as a worker: with a certificate, or a token where that suffices.

        A worker with a token receives work of all tenants of its pool.
        """
        if Role.ADMIN not in principal.roles:
            permissions.check(principal, Role.WORKER, "worker_link")
        permissions.check_all_tenants(principal)
        if principal.worker is None and self.enrollment is not None and self.enrollment.is_required:
            raise Forbidden(f"workers need a certificate on this server: {ENROLL_HINT}")

    async def check_worker_name(self, principal: Principal, *, name: str, pool: str) -> None:
        """Raise Forbidden unless the caller may act as the worker of this name, in this pool.

        A certificate is valid for its own name and pools. A token is valid for every name without a certificate.
        """
        self.check_worker(principal)
        own = principal.worker
        if own is None:
            if self.enrollment is not None and await self._identities.worker_named(name) is not None:
                raise Forbidden(f"the name {name} belongs to a worker with a certificate")
        elif name != own.name:
            raise Forbidden(f"the certificate is for worker {own.name}, not for {name}")
        elif pool not in own.pools:
            raise Forbidden(f"worker {name} may serve {', '.join(own.pools)}, not {pool}")


class SessionValidity:
    """Validity of one caller's session, checked again every few seconds.

    Short requests are checked once. A revoked or expired token or certificate ends open streams and links.
    """

    def __init__(self, access: Access, connection: HTTPConnection, clock: Clock) -> None:
        self._access = access
        self._connection = connection
        self._clock = clock
        self._checked_at = clock.monotonic()

    async def is_valid(self) -> bool:
        """Return whether the credential is still valid. If the store is unavailable, assume that it is."""
        if self._clock.monotonic() < self._checked_at + VALIDITY_CHECK_SECONDS:
            return True
        self._checked_at = self._clock.monotonic()
        try:
            await self._access.authenticate(self._connection)
        except Unauthenticated:
            return False
        except Unavailable:
            pass  # unknown now; the next check decides
        return True


def client_of(connection: HTTPConnection) -> str:
    """Return the client address of a connection; empty if it has none."""
    return connection.client.host if connection.client is not None else ""
