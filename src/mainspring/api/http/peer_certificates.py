"""The client certificate of a request, from the scope state set by `connections.py`."""

from __future__ import annotations

from starlette.types import Scope

from mainspring.protocol.certificates import WorkerCertificate

STATE = "mainspring.certificate"
"""Key in the state of a scope."""


def certificate_of(scope: Scope) -> WorkerCertificate | None:
    """Return the client certificate of a connection, if any."""
    found = scope.get("state", {}).get(STATE)
    return found if isinstance(found, WorkerCertificate) else None
