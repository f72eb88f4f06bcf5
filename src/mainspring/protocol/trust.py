"""The certificate authorities that this machine trusts, for connections to other servers."""

from __future__ import annotations

import ssl
from functools import cache


@cache
def machine_trust() -> ssl.SSLContext:
    """Return the process's TLS context for clients, with the machine's authorities or those of `SSL_CERT_FILE`.

    Loading the authorities takes 20 to 50 ms, so it is done once. All callers share the context and must not change it.
    """
    return ssl.create_default_context()
