"""A test program for DNS rebinding: a name means a public address first, and this machine from then on.

It runs in a network namespace of its own, where the public address belongs to this program. It prints for each sender
the number of connections to the public address, and to this machine.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections import deque

from mainspring.egress.addresses import Resolve
from mainspring.protocol.errors import Refused
from tests.egress.senders import by_channel, by_task, by_webhook
from tests.notify.servers import HttpServer

PUBLIC, LOOPBACK = "8.8.8.8", "127.0.0.1"
_NEW_USER, _NEW_NETWORK = 0x1000_0000, 0x4000_0000
_SET_FLAGS, _SET_ADDRESS, _UP = 0x8914, 0x8916, 0x1


def enter_network_of_its_own() -> None:
    """Enter a network namespace with only a loopback device, which has the public address too."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))
        address = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(PUBLIC))
        fcntl.ioctl(device, _SET_ADDRESS, struct.pack("16s16s", b"lo:1", address))


async def main() -> None:
    """Send in each way, and print who was connected to."""
    told: list[str] = []
    for send in (by_task, by_channel, by_webhook):
        public, loopback, port = await servers()
        await send(f"http://hooks.example.com:{port}/", False, rebinding())
        told.append(f"{send.__name__} {public.connections} {loopback.connections}")
    public, loopback, port = await servers()
    public.status, public.more_headers = "302 Found", [f"location: http://hooks.example.com:{port}/again"]
    try:
        await by_task(f"http://hooks.example.com:{port}/", False, rebinding())
    except Refused:
        told.append(f"redirect {loopback.connections}")
    sys.stdout.write("\n".join(told))


async def servers() -> tuple[HttpServer, HttpServer, int]:
    """Start a server at each address, on the same port."""
    public, loopback = HttpServer(), HttpServer()
    first = await asyncio.start_server(public.serve, PUBLIC, 0)
    port = first.sockets[0].getsockname()[1]
    await asyncio.start_server(loopback.serve, LOOPBACK, port)
    return public, loopback, port


def rebinding() -> Resolve:
    """A resolver that returns the public address once, and this machine from then on."""
    answers = deque([PUBLIC])

    async def resolve(host: str, port: int) -> list[str]:
        return [answers.popleft() if answers else LOOPBACK]

    return resolve


if __name__ == "__main__":
    enter_network_of_its_own()
    asyncio.run(main())
