"""Messages that are not urgent share a frame with the next one, and are sent alone if there is none."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mainspring.protocol.wire import Received, Register, Started
from mainspring.worker.agent import uplink
from tests.worker.agent.conftest import AgentHarness
from tests.worker.agent.fake_server import TIMEOUT_SECONDS, FakeServer, wait_until

pytestmark = pytest.mark.processes

ECHO = '{"run": ["echo", "hello"]}'


def until(path: Path) -> str:
    """Return work that ends when a file exists."""
    return msgspec.json.encode({"shell": f"while [ ! -e {path} ]; do sleep 0.02; done"}).decode()


async def test_a_receipt_shares_a_frame_with_the_next_message(
    fake_server: FakeServer, harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not urgent: a step of a chain of short tasks is one frame."""
    monkeypatch.setattr(uplink, "RECEIPT_SECONDS", TIMEOUT_SECONDS)
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", "{}"))

    await fake_server.wait_for(Received)
    assert Started("a") in fake_server.frames[-1]


async def test_a_receipt_alone_is_sent_soon(fake_server: FakeServer, harness: AgentHarness, tmp_path: Path) -> None:
    """The server reschedules attempts without a receipt."""
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", until(tmp_path / "go")))
    await fake_server.wait_for(Started)
    await fake_server.assign("lease", ("b", ECHO))

    await fake_server.wait_for(Received, lambda one: one.attempts == ("b",))
    (tmp_path / "go").touch()
    await fake_server.result("b")


async def test_the_supervisor_forgets_acknowledged_results_also_when_idle(
    fake_server: FakeServer, harness: AgentHarness
) -> None:
    """Its result file is empty then."""
    harness.open(fake_server.url)
    await fake_server.wait_for(Register)
    await fake_server.assign("lease", ("a", ECHO))
    await fake_server.result("a")

    ends = harness.state_dir / "results"
    await wait_until(lambda: ends.stat().st_size == 0)
