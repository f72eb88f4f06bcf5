"""Permitted destinations of requests (F79): public internet addresses, unless private ones are allowed.

A name is resolved once, the result is checked, and the connection goes to that address. So neither the notation of an
address (`2130706433`, `0x7f.1`, `[::ffff:127.0.0.1]`) nor a later change of the name (DNS rebinding) matters.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from mainspring.protocol.errors import Refused, Unavailable

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Returns the addresses of a host for a port, best first."""

_NAT64 = IPv6Network("64:ff9b::/96")
"""The last 32 bits are the IPv4 address to which a gateway connects."""
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""Prefixes of the embedded IPv4 address in the interface identifier of a tunnel address."""
_LAST_32_BITS = 0xFFFF_FFFF
_NOT_PUBLIC = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "64:ff9b:1::/48", "3fff::/20", "5f00::/16"))
)
"""Reserved, or metadata services of clouds; some releases of Python count them as public."""


def why_not_public(address: str) -> str | None:
    """Return the kind of an address that is not public, to follow "it is"; None if it is public."""
    kinds = map(_why_not_public, _effective_addresses(ip_address(address)))
    return next((why for why in kinds if why is not None), None)


def resolver(threads: Executor | None = None) -> Resolve:
    """Create a function that asks the system's resolver in these threads, or in those of the event loop."""

    async def resolve(host: str, port: int) -> list[str]:
        """Ask the system's resolver, without a timeout. Raises Unavailable."""
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        try:
            found = await asyncio.get_running_loop().run_in_executor(threads, ask)
        except (OSError, UnicodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or "invalid host name"
            raise Unavailable(f"{host} has no address: {why}", reason="no_address") from None
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    return resolve


resolve = resolver()


async def choose_addresses(
    host: str, port: int, *, allow_private: bool, allowed_by: str, resolve: Resolve = resolve
) -> list[str]:
    """Return the permitted addresses of a host. Raises Refused if none is permitted, Unavailable if there is none.

    `allowed_by` says what does not permit private addresses, as the end of a sentence.
    """
    addresses = await resolve(host, port)
    if not addresses:
        raise Unavailable(f"{host} has no address", reason="no_address")
    allowed = [address for address in addresses if allow_private or why_not_public(address) is None]
    if not allowed:
        raise Refused(f"{host} is {why_not_public(addresses[0])}, and {allowed_by}", reason="not_public")
    return allowed


def _effective_addresses(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """Return the addresses at which a connection may end: the address, or an embedded IPv4 address."""
    if isinstance(address, IPv4Address):
        yield address
    elif address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address in _NAT64:
        yield IPv4Address(int(address) & _LAST_32_BITS)
    else:
        yield address
        if address.sixtofour is not None:
            yield address.sixtofour
        if int(address) >> 32 & _LAST_32_BITS in _ISATAP:
            yield IPv4Address(int(address) & _LAST_32_BITS)


def _why_not_public(address: IPv4Address | IPv6Address) -> str | None:
    kinds = [
        (address.is_unspecified, "the unspecified address"),
        (address.is_loopback, "a loopback address"),
        (address.is_link_local, "a link-local address"),
        (address.is_multicast, "a multicast address"),
        (address.is_private, "a private address"),
        (isinstance(address, IPv6Address) and address.is_site_local, "a private address"),
        (address.is_reserved or not address.is_global, "a reserved address"),
        (any(address in network for network in _NOT_PUBLIC), "a reserved address"),
    ]
    return next((why for applies, why in kinds if applies), None)
