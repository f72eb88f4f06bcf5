"""Connections of callers who may show a certificate (SEC-3). uvicorn does not pass it on: that is done here.

TLS has verified what is shown: it is signed by the authority of workers, is for clients, and its time is not over. Who
that makes of the caller is said by `api/auth/authentication.py`.
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
    """Hears one caller, and has its certificate in the state of every scope, also of a WebSocket's."""

    app_state: dict[str, Any]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Somebody has connected."""
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        shown = tls.getpeercert(binary_form=True) if tls is not None else None
        if not shown:
            return
        try:
            self.app_state = {**self.app_state, STATE: read_peer(shown)}
        except Refused as error:
            # Whoever shows what we can't read is nobody, as without a certificate.
            log.warning("certificate.unreadable", error=str(error))
