"""LIV-3 with a real server: an assignment that a worker receives and never confirms is taken back."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from websockets.sync.client import connect

from mainspring.protocol.wire import Assign, Heartbeat, Offer, Register, ToWorker
from tests.e2e.cluster import ServerCluster, ended, submit, until, workers_of

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[ToWorker]).decode


@pytest.mark.soak
def test_an_unconfirmed_assignment_goes_to_another_worker(tmp_path: Path) -> None:
    """Takes the 30 s of LIV-3."""
    with ServerCluster(tmp_path) as cluster:
        server = cluster.server()
        address = server.address.replace("http", "ws", 1) + "/api/v1/worker-link"
        with server.client() as client, connect(address, compression=None) as link:
            until(lambda: client.server().leads, "the server leads")  # Before that a worker has to reconnect soon.
            link.send(_encode([Register("mute", "mute:1", Offer(1_000, 1 << 30), {})]))
            run = submit(client, {"name": "one", "tasks": [{"name": "one"}]})
            while not any(isinstance(word, Assign) for word in _words(link.recv())):
                pass
            cluster.worker(server, name="talker")
            while client.run(run.id).state != "SUCCEEDED":
                link.send(_encode([Heartbeat()]))
                with suppress(TimeoutError):
                    client.wait(run.id, timeout_seconds=2.0)
            assert ended(client, run.id).state == "SUCCEEDED"
            assert workers_of(client, run.id) == {"talker"}


def _words(frame: str | bytes) -> list[ToWorker]:
    assert isinstance(frame, bytes)
    return _decode(frame)
