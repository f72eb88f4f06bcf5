"""How a machine becomes a worker with a certificate of its own (SEC-3), as far as a server decides it."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from mainspring.protocol.certificates import Authority, WorkerCertificate
from mainspring.protocol.errors import Forbidden

ENROL = "enrol it with `mainspring join-token create` and `mainspring worker --join`"
"""What helps whoever has no certificate that is good."""
CERTIFICATE_LIFE = timedelta(hours=24)
SHORTEST_LIFE = timedelta(minutes=1)
LONGEST_LIFE = timedelta(days=365)


class Enrolment(msgspec.Struct, frozen=True, kw_only=True):
    """The authority of workers, as one server knows it."""

    certificate: Path
    """Of the authority: what it signed is believed."""
    authority: Authority | None = None
    """None: this server believes certificates, and gives none."""
    life: timedelta = CERTIFICATE_LIFE
    """Of a certificate of a worker."""
    is_required: bool = False
    """A token is not enough for a worker."""

    def sign(self, request: str, name: str, *, now: datetime) -> tuple[str, WorkerCertificate]:
        """A certificate for a worker, in PEM, and what it says. Raises Refused; Forbidden if this server gives none."""
        if self.authority is None:
            raise Forbidden("this server gives no certificates: it was started without --worker-ca-key")
        return self.authority.sign_worker(request, name, now=now, life=self.life)
