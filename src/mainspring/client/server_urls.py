"""Server URLs and query parameters."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

import httpx2

from mainspring.protocol.errors import Unreachable

API = "/api/v1"
Parameters: TypeAlias = "Mapping[str, str | int | bool | datetime | Sequence[str] | None]"


def read_address(url: str) -> httpx2.URL:
    """Parse a server URL. Raises Unreachable if it is invalid."""
    try:
        address = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise _not_an_address(url, str(error)) from error
    if address.scheme not in {"http", "https"} or not address.host:
        raise _not_an_address(url, "it must start with http:// or https://")
    return address


def query_params(params: Parameters | None) -> httpx2.QueryParams:
    """Return the parameters that have a value as a query; a list repeats its parameter."""
    words: list[tuple[str, str]] = []
    for name, value in (params or {}).items():
        if isinstance(value, bool):
            words.append((name, "true" if value else "false"))
        elif isinstance(value, str | int):
            words.append((name, str(value)))
        elif isinstance(value, datetime):
            words.append((name, value.isoformat()))
        elif value is not None:
            words.extend((name, text) for text in value)
    return httpx2.QueryParams(tuple(words))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def unreachable(url: str, fault: httpx2.TransportError) -> Unreachable:
    """Return the error of a request without a response: address, cause, hint."""
    error = Unreachable(f"no response from {url}: {str(fault) or type(fault).__name__}")
    error.hint = "start a server with `mainspring server`, or set its URL with --server or MAINSPRING_SERVER_URL"
    return error


def _not_an_address(url: str, why: str) -> Unreachable:
    error = Unreachable(f"{url!r} is not a valid server URL: {why}")
    error.hint = "example: http://127.0.0.1:8484"
    return error
