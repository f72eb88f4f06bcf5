"""Restate: a service of handlers, served by hypercorn as `app`. `server` is its server; by default it is the driver.

The driver speaks plain HTTP by itself: a library for it would be the slowest part.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import restate

from benchmarks.peers.marks import mark
from benchmarks.peers.programs import given
from benchmarks.peers.programs.answering import answer_questions

_CLIENTS = 16
_WAIT_SECONDS = 200
_ACCEPTED = (b"200", b"202")
service = restate.Service("Peers")


@service.handler()
async def noop(context: restate.Context, number: int) -> int:
    """A handler of one step."""

    async def step() -> int:
        mark(number)
        return number

    return int(await context.run_typed("step", step))


@service.handler()
async def steps(context: restate.Context, numbers: list[int]) -> int:
    """One step after another."""
    first, count = numbers
    for number in range(first, first + count):

        async def step(number: int = number) -> int:
            mark(number)
            return number

        await context.run_typed(f"step-{number}", step)
    return count


@service.handler()
async def spread(context: restate.Context, numbers: list[int]) -> int:
    """A call of a handler for each, and a step after all of them."""
    first, count = numbers
    calls = [context.service_call(noop, arg=number) for number in range(first, first + count)]
    for call in calls:
        await call

    async def step() -> int:
        mark(first + count)
        return count

    return int(await context.run_typed("last", step))


app = restate.app([service])


class Driver:
    """Calls handlers through the server."""

    def __init__(self) -> None:
        self._address = ("127.0.0.1", given.port(0))
        _post(("127.0.0.1", given.port(1)), "/deployments", {"uri": f"http://127.0.0.1:{given.port(3)}"})
        self._open = http.client.HTTPConnection(*self._address, timeout=_WAIT_SECONDS)

    def enqueue(self, first: int, count: int) -> None:
        """One request each; several tasks are requested by several clients."""
        if count > 1:
            asyncio.run(self._by_clients(iter(range(first, first + count))))
            return
        self._open.request("POST", "/Peers/noop/send", str(first), {"content-type": "application/json"})
        _checked(self._open.getresponse())

    def chain(self, first: int, count: int) -> None:
        """A handler of this number of steps."""
        _post(self._address, "/Peers/steps", [first, count])

    def fan_out(self, first: int, count: int) -> None:
        """A handler that calls others."""
        _post(self._address, "/Peers/spread", [first, count])

    async def _by_clients(self, numbers: Iterator[int]) -> None:
        await asyncio.gather(*(self._client(numbers) for _ in range(_CLIENTS)))

    async def _client(self, numbers: Iterator[int]) -> None:
        reader, writer = await asyncio.open_connection(*self._address)
        for number in numbers:
            body = str(number).encode()
            writer.write(
                b"POST /Peers/noop/send HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\n\r\n%s" % (len(body), body)
            )
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert head.split(b" ", 2)[1] in _ACCEPTED, head
            length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
        writer.close()


def _post(address: tuple[str, int], path: str, value: object) -> None:
    connection = http.client.HTTPConnection(*address, timeout=_WAIT_SECONDS)
    connection.request("POST", path, json.dumps(value), {"content-type": "application/json"})
    _checked(connection.getresponse())
    connection.close()


def _checked(response: http.client.HTTPResponse) -> None:
    said = response.read()
    assert response.status < 300, (response.status, said)


def become_server() -> None:
    """Replace this process by its server: the native program, without the npm wrapper script."""
    (program,) = Path(os.environ["NODE_PATH"]).glob("@restatedev/restate-server-*/bin/restate-server")
    os.execv(program, [str(program)])  # noqa: S606 - a program of its environment


if __name__ == "__main__":
    if sys.argv[1:] == ["server"]:
        become_server()
    driver = Driver()
    answer_questions({"enqueue": driver.enqueue, "chain": driver.chain, "fan_out": driver.fan_out})
