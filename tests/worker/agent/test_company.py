"""Messages that are not urgent share a frame with the next one, and are sent alone if there is none."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mainspring.protocol.wire import Received, Register, Started
from mainspring.worker.agent import uplink
from tests.worker.agent.conftest import Shop
from tests.worker.agent.desk import PATIENCE_SECONDS, Desk, until_it_holds

pytestmark = pytest.mark.processes

ECHO = '{"run": ["echo", "hello"]}'


def until(path: Path) -> str:
    """Return work that ends when a file exists."""
    return msgspec.json.encode({"shell": f"while [ ! -e {path} ]; do sleep 0.02; done"}).decode()


async def test_a_receipt_shares_a_frame_with_the_next_message(
    desk: Desk, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not urgent: a step of a chain of short tasks is one frame."""
    monkeypatch.setattr(uplink, "RECEIPT_SECONDS", PATIENCE_SECONDS)
    shop.open(desk.url)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", "{}"))

    await desk.wait_for(Received)
    assert Started("a") in desk.frames[-1]


async def test_a_receipt_alone_is_sent_soon(desk: Desk, shop: Shop, tmp_path: Path) -> None:
    """The server reschedules attempts without a receipt."""
    shop.open(desk.url)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", until(tmp_path / "go")))
    await desk.wait_for(Started)
    await desk.assign("lease", ("b", ECHO))

    await desk.wait_for(Received, lambda one: one.attempts == ("b",))
    (tmp_path / "go").touch()
    await desk.result("b")


async def test_the_supervisor_forgets_acknowledged_results_also_when_idle(desk: Desk, shop: Shop) -> None:
    """Its result file is empty then."""
    shop.open(desk.url)
    await desk.wait_for(Register)
    await desk.assign("lease", ("a", ECHO))
    await desk.result("a")

    ends = shop.state_dir / "results"
    await until_it_holds(lambda: ends.stat().st_size == 0)
