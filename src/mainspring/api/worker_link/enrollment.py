"""Enrollment: signing worker certificates (SEC-3)."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from mainspring.protocol.certificates import Authority, WorkerCertificate
from mainspring.protocol.errors import Forbidden

ENROLL_HINT = "enroll it with `mainspring join-token create` and `mainspring worker --join`"
"""Hint for workers without a valid certificate."""
CERTIFICATE_LIFETIME = timedelta(hours=24)
MIN_LIFETIME = timedelta(minutes=1)
MAX_LIFETIME = timedelta(days=365)


class Enrollment(msgspec.Struct, frozen=True, kw_only=True):
    """The CA of workers, as configured on one server."""

    certificate: Path
    """CA certificate that verifies workers."""
    authority: Authority | None = None
    """None: this server verifies certificates, but issues none."""
    life: timedelta = CERTIFICATE_LIFETIME
    """Lifetime of worker certificates."""
    is_required: bool = False
    """Whether workers must have a certificate instead of a token."""

    def sign(self, request: str, name: str, *, now: datetime) -> tuple[str, WorkerCertificate]:
        """Sign a worker certificate; return its PEM and content. Raises Refused; Forbidden without a CA key."""
        if self.authority is None:
            raise Forbidden("this server issues no certificates: it was started without --worker-ca-key")
        return self.authority.sign_worker(request, name, now=now, life=self.life)
