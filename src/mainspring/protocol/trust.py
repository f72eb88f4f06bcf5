"""TLS contexts of HTTP clients: the certificate authorities that they trust, and their own certificate."""

from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path

from mainspring.protocol.errors import Refused


@cache
def machine_trust() -> ssl.SSLContext:
    """Return the process's TLS context for clients, with the machine's authorities or those of `SSL_CERT_FILE`.

    Loading the authorities takes 20 to 50 ms, so it is done once. All callers share the context and must not change it.
    """
    return ssl.create_default_context()


def tls_context(
    scheme: str, *, ca_cert: Path | str | None = None, certificate: tuple[Path, Path] | None = None
) -> ssl.SSLContext:
    """Return the TLS context for requests to a server: it trusts `ca_cert`, or else the machine's authorities.

    `certificate` is the client certificate and its key. No authorities are loaded for http. Raises Refused.
    """
    if scheme != "https":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_cert is None and certificate is None:
        return machine_trust()
    try:
        context = ssl.create_default_context(cafile=ca_cert)
        if certificate is not None:
            context.load_cert_chain(*certificate)
    except OSError as error:  # ssl.SSLError is one too
        names = ", ".join(map(str, filter(None, (ca_cert, *(certificate or ())))))
        raise Refused(f"can't load the certificates: {error} ({names})") from error
    return context
