"""How leaders are reached without a network, and how long a worker is waited for."""

from __future__ import annotations

import pytest

from mainspring.errors import NotLeading, Unavailable
from mainspring.host.reaching import LOOK_SECONDS, HostReach
from mainspring.shard.events import CancelRun
from mainspring.wire import Look
from tests.host.hall import SHARD, Hall, Hand


async def test_nobody_leads(hall: Hall) -> None:
    """Whoever asks comes back later."""
    reach = HostReach(await hall.start())
    with pytest.raises(NotLeading):
        await reach.ask(SHARD, CancelRun(run_id="run_1", by="ann"))
    with pytest.raises(NotLeading):
        await reach.look(SHARD, "/data/ready")


async def test_a_worker_whose_disk_hangs_is_not_waited_for(hall: Hall) -> None:
    """It has been asked, and says nothing."""
    hand = await Hand("w1", await hall.lead(), "s1").welcome()
    began = hall.clock.monotonic()
    with pytest.raises(Unavailable, match="within 5 s"):
        await HostReach(hall.hosts["h1"]).look(SHARD, "/data/ready")
    assert hall.clock.monotonic() - began == pytest.approx(LOOK_SECONDS, abs=0.1)
    assert (await hand.hear(Look)).path == "/data/ready"
