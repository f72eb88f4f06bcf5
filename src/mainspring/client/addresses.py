"""Where a server is, and what is asked there: addresses, their parameters, and who is believed."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import httpx2

from mainspring.protocol.errors import Refused, Unreachable

API = "/api/v1"
Parameters: TypeAlias = "Mapping[str, str | int | bool | Sequence[str] | None]"


def read_address(url: str) -> httpx2.URL:
    """The address of a server. Raises Unreachable if it is none."""
    try:
        address = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise _not_an_address(url, str(error)) from error
    if address.scheme not in {"http", "https"} or not address.host:
        raise _not_an_address(url, "it must begin with http:// or https://")
    return address


def said(params: Parameters | None) -> httpx2.QueryParams:
    """The parameters that have a value, as they stand in an address: a list is said several times."""
    words: list[tuple[str, str]] = []
    for name, value in (params or {}).items():
        if isinstance(value, bool):
            words.append((name, "true" if value else "false"))
        elif isinstance(value, str | int):
            words.append((name, str(value)))
        elif value is not None:
            words.extend((name, text) for text in value)
    return httpx2.QueryParams(tuple(words))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def trust(
    scheme: str, *, ca_cert: Path | str | None = None, certificate: tuple[Path, Path] | None = None
) -> ssl.SSLContext:
    """Which certificates are believed: those that `ca_cert` has signed, else the machine's, or those in SSL_CERT_FILE.

    `certificate` is what is shown to the server, and its key. Loading all that takes a while. Raises Refused.
    """
    if scheme != "https":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context = ssl.create_default_context(cafile=ca_cert)
        if certificate is not None:
            context.load_cert_chain(*certificate)
    except OSError as error:  # ssl.SSLError is one too
        names = ", ".join(map(str, filter(None, (ca_cert, *(certificate or ())))))
        raise Refused(f"the certificates can't be used: {error} ({names})") from error
    return context


def unreachable(url: str, fault: httpx2.TransportError) -> Unreachable:
    """No answer came: which address, why, and what to do."""
    error = Unreachable(f"no answer from {url}: {str(fault) or type(fault).__name__}")
    error.hint = "start a server with `mainspring server`, or say where it is with --server or MAINSPRING_SERVER_URL"
    return error


def _not_an_address(url: str, why: str) -> Unreachable:
    error = Unreachable(f"{url!r} is no address of a server: {why}")
    error.hint = "an address looks like http://127.0.0.1:8484"
    return error
