"""The certificate that came with a connection, where `certified_connections.py` left it in the scope of a request."""

from __future__ import annotations

from starlette.types import Scope

from mainspring.protocol.certificates import WorkerCertificate

STATE = "mainspring.certificate"
"""Where the state of a scope has it."""


def certificate_of(scope: Scope) -> WorkerCertificate | None:
    """The certificate of a connection, if it has one."""
    found = scope.get("state", {}).get(STATE)
    return found if isinstance(found, WorkerCertificate) else None
