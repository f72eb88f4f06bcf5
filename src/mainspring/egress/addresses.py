"""Where a request may go (SAFETY F79): to addresses of the public internet, unless whoever may says otherwise.

A name is resolved once, what comes out is looked at, and the connection goes to that very address. So it does not
matter how an address is written (`2130706433`, `0x7f.1`, `[::ffff:127.0.0.1]`), nor whether the name means something
else a moment later.
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
"""The addresses of a host for a port, the best first."""

_NAT64 = IPv6Network("64:ff9b::/96")
"""The last 32 bits are the IPv4 address that a gateway connects to."""
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""What stands before an IPv4 address, in the last half of an IPv6 address that is a tunnel to it."""
_LAST_32_BITS = 0xFFFF_FFFF
_NOT_PUBLIC = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "64:ff9b:1::/48", "3fff::/20", "5f00::/16"))
)
"""Nobody's, or a cloud's own (where it tells its machines about themselves), and for some releases of Python public."""


def obstacle(address: str) -> str | None:
    """Why an address is not of the public internet, as the end of `it is ..`; None if it is."""
    for one in _meanings(ip_address(address)):
        why = _obstacle(one)
        if why is not None:
            return why
    return None


def resolver(threads: Executor | None = None) -> Resolve:
    """Ask the machine's resolver, which takes as long as it likes, in these threads or in those of the loop."""

    async def resolve(host: str, port: int) -> list[str]:
        """What the machine's resolver says. Raises Unavailable."""
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        try:
            found = await asyncio.get_running_loop().run_in_executor(threads, ask)
        except (OSError, UnicodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or "it is no name"
            raise Unavailable(f"{host} has no address: {why}", reason="no_address") from None
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    return resolve


resolve = resolver()


async def choose(
    host: str, port: int, *, allow_private: bool, allowed_by: str, resolve: Resolve = resolve
) -> list[str]:
    """The addresses of a host that may be connected to. Raises Refused if none may, Unavailable if there is none.

    `allowed_by`: what would have to be otherwise for a private address, as the end of a sentence.
    """
    addresses = await resolve(host, port)
    if not addresses:
        raise Unavailable(f"{host} has no address", reason="no_address")
    allowed = [address for address in addresses if allow_private or obstacle(address) is None]
    if not allowed:
        raise Refused(f"{host} is {obstacle(addresses[0])}, and {allowed_by}", reason="not_public")
    return allowed


def _meanings(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """Where a connection may end: at the address, or at an IPv4 address that is inside of it."""
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


def _obstacle(address: IPv4Address | IPv6Address) -> str | None:
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
