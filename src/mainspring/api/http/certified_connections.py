"""HTTP connections with optional client certificates (SEC-3), which uvicorn does not pass on.

TLS has verified the certificate: signed by the CA of workers, for client use, not expired.
`api/auth/authentication.py` maps it to a caller.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from mainspring.api.http.connections import Connection
from mainspring.api.http.peer_certificates import STATE
from mainspring.protocol.certificates import read_peer
from mainspring.protocol.errors import Refused

log = structlog.get_logger()


class CertifiedConnection(Connection):
    """One connection, with the client certificate in the state of every scope, including WebSockets."""

    app_state: dict[str, Any]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Read the client certificate of a new connection."""
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        shown = tls.getpeercert(binary_form=True) if tls is not None else None
        if not shown:
            return
        try:
            self.app_state = {**self.app_state, STATE: read_peer(shown)}
        except Refused as error:
            # An unreadable certificate counts as none.
            log.warning("certificate.unreadable", error=str(error))
