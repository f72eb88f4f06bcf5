"""User-supplied requests never reach this machine or its network (SEC-5): one corpus for all senders."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mainspring.protocol.errors import Refused, Unavailable
from tests.egress.corpus import URLS
from tests.egress.senders import Send, by_channel, by_task, by_webhook, here
from tests.notify.servers import HttpServer, http_server

SENDERS = pytest.mark.parametrize("send", [by_task, by_channel, by_webhook])


@asynccontextmanager
async def both_loopbacks() -> AsyncIterator[list[HttpServer]]:
    """Servers on 127.0.0.1 and ::1. They answer, so that only a refusal prevents success."""
    async with http_server() as four, http_server(host="::1") as six:
        yield [four, six]


@SENDERS
async def test_nothing_of_the_corpus_reaches_this_machine(send: Send) -> None:
    """Refused, or without an address; never an answer, and never a connection."""
    async with both_loopbacks() as servers:
        for url in URLS:
            for server in servers:
                with pytest.raises((Refused, Unavailable)) as caught:
                    await send(url.replace("{port}", str(server.port)), False, here)
                assert isinstance(caught.value, Refused) or caught.value.reason == "no_address", (url, caught.value)
        assert [server.connections for server in servers] == [0, 0]


@SENDERS
async def test_private_addresses_can_be_allowed(send: Send) -> None:
    """Then to both, in any notation."""
    async with both_loopbacks() as (four, six):
        for url in (f"http://127.0.0.1:{four.port}/", f"http://0x7f.1:{four.port}/", f"http://[::1]:{six.port}/"):
            await send(url, True, here)
        assert (len(four.got), len(six.got)) == (2, 1)


@SENDERS
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "169.254.169.254", "10.0.0.1", "::ffff:127.0.0.1", "::"])
async def test_a_name_that_resolves_to_this_machine_is_refused(send: Send, address: str) -> None:
    """Its address counts, not its name."""

    async def there(host: str, port: int) -> list[str]:
        return [address]

    async with both_loopbacks() as servers:
        for server in servers:
            with pytest.raises(Refused) as refused:
                await send(f"http://hooks.example.com:{server.port}/", False, there)
            assert refused.value.reason == "not_public"
        assert [server.connections for server in servers] == [0, 0]


async def test_a_redirect_to_this_machine_is_refused() -> None:
    """Each hop is checked like the first one: here the names of a permitted machine and of a forbidden one."""
    async with http_server() as first, http_server() as second:
        first.status = "302 Found"

        async def names(host: str, port: int) -> list[str]:
            if port == first.port:
                return ["127.0.0.1"]
            raise Refused(f"{host} is not to be reached")

        for place in ("http://127.0.0.1:{port}/", "http://2130706433:{port}/", "//localhost:{port}/x"):
            first.more_headers = [f"location: {place.replace('{port}', str(second.port))}"]
            with pytest.raises(Refused):
                await by_task(f"http://start.test:{first.port}/", True, names)
        assert (first.connections, second.connections) == (3, 0)


@pytest.mark.parametrize(
    "place", ["file:///etc/passwd", "gopher://x/", "http://a@127.0.0.1/", "http://\\x/", "http://x:0/"]
)
async def test_a_redirect_to_another_scheme_is_refused(place: str) -> None:
    """A response can't choose another way to get there."""
    async with http_server() as server:
        server.status, server.more_headers = "302 Found", [f"location: {place}"]
        with pytest.raises(Refused):
            await by_task(f"http://127.0.0.1:{server.port}/", True, here)
        assert server.connections == 1


@pytest.mark.processes
def test_dns_rebinding_does_not_reach_this_machine() -> None:
    """In a network of its own with a public address: the connection goes to the address that was checked."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.egress.rebinding"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["by_task", "1", "0", "by_channel", "1", "0", "by_webhook", "1", "0", "redirect", "0"]
