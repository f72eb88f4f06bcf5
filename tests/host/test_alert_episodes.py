"""Alerts: each subscribed channel gets the start and the end of an episode once; no channel delays another."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import count

import msgspec
import pytest
from structlog.testing import capture_logs

from mainspring.core.model.alerts import Alert, AlertKind, Severity, alert_row
from mainspring.core.model.batch import Batch, OutboxRow
from mainspring.core.model.notices import AlertFilter, Notice
from mainspring.host.outbox.alert_episodes import MAX_CONCURRENT, NOTIFY_KIND, Alerting, Delivery
from mainspring.host.outbox.delivery import MAX_CONCURRENT_SECONDS, OutboxDelivery
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.schedules import AlertRow
from tests.host.host_harness import SHARD, HostHarness


class Recorder:
    """A channel that records notices, and can be made to fail or hang."""

    def __init__(self, name: str, alert_filter: AlertFilter | None = None) -> None:
        self.name = name
        self.alert_filter = alert_filter or AlertFilter()
        self.got: list[tuple[str, Notice]] = []
        self.failing = 0
        self.hanging = False
        self.tries: list[float] = []
        self.at_once = 0
        self.max_concurrent = 0

    async def send(self, delivery: str, notice: Notice) -> None:
        """Record a notice, or raise."""
        self.tries.append(asyncio.get_running_loop().time())
        self.at_once += 1
        self.max_concurrent = max(self.max_concurrent, self.at_once)
        try:
            if self.hanging:
                await asyncio.Event().wait()
            await asyncio.sleep(0)
        finally:
            self.at_once -= 1
        if self.failing > 0:
            self.failing -= 1
            raise Unavailable("not reachable")
        self.got.append((delivery, notice))

    @property
    def states(self) -> list[str]:
        """The states received, in order."""
        return [notice.state for _, notice in self.got]


_numbers = count(1)


def alert(
    harness: HostHarness,
    key: str = "quarantined:task_1",
    *,
    over: bool = False,
    severity: Severity = Severity.HIGH,
    **more: str,
) -> OutboxRow:
    """An outbox row of an alert."""
    reported = Alert(
        kind=AlertKind.QUARANTINED,
        key=key,
        severity=severity,
        tenant=more.get("tenant", "acme"),
        summary=more.get("summary", "load is free again" if over else "load is held"),
        details={"run": "run_1", "kills": 3},
        resolved=over,
        at=harness.clock.wall(),
    )
    return alert_row(reported, f"{key}:{next(_numbers)}")


async def write(harness: HostHarness, *rows: OutboxRow) -> None:
    """Write rows to the outbox, like a batch."""
    await harness.store.ensure_shard(SHARD)
    term = await harness.store.campaign(SHARD, "writer", 77, timedelta(days=1))
    assert term is not None
    await harness.store.commit(term, term.batch_no + 1, Batch(outbox=list(rows)))


async def deliver(harness: HostHarness, *channels: Recorder, seconds: float = 5.0) -> None:
    """Run a server with these channels for a while."""
    alerting = Alerting(harness.store, channels, "http://here.test")
    delivery = OutboxDelivery(harness.store, harness.clock, "h1", alerting.receivers(), concurrent_kinds={NOTIFY_KIND})
    running = asyncio.create_task(delivery.run())
    await harness.wait(seconds)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def episodes(harness: HostHarness) -> list[AlertRow]:
    """All episodes, latest first."""
    return await harness.store.list_alerts(None, None, "", 100)


async def test_start_and_end_of_an_episode_are_sent_once(harness: HostHarness) -> None:
    """However often the alert is repeated in between."""
    ops = Recorder("ops")
    await write(harness, alert(harness), alert(harness), alert(harness, summary="load is held still"))
    await deliver(harness, ops)
    assert ops.states == ["firing"]
    (episode,) = await episodes(harness)
    assert (episode.count, episode.summary, episode.resolved_at) == (3, "load is held still", None)

    await write(harness, alert(harness, over=True), alert(harness, over=True))
    await deliver(harness, ops)
    assert ops.states == ["firing", "resolved"]
    (episode,) = await episodes(harness)
    assert episode.resolved_at is not None


async def test_a_notice_has_all_fields(harness: HostHarness) -> None:
    """Both notices of an episode have its id and a link to the run."""
    ops = Recorder("ops")
    await write(harness, alert(harness), alert(harness), alert(harness, over=True))
    await deliver(harness, ops)

    (first, began), (second, ended) = ops.got
    (episode,) = await episodes(harness)
    assert first == f"notify:{episode.id}:ops:on"
    assert second == f"notify:{episode.id}:ops:over"
    assert began == Notice(
        id=episode.id,
        state=began.state,
        kind=AlertKind.QUARANTINED,
        severity=Severity.HIGH,
        tenant="acme",
        summary="load is held",
        details={"run": "run_1", "kills": 3},
        opened_at=episode.opened_at,
        link="http://here.test/api/v1/runs/run_1",
    )
    assert (ended.id, ended.count, ended.summary) == (episode.id, 2, "load is free again")
    assert ended.resolved_at == episode.resolved_at


async def test_the_next_episode_is_sent_again(harness: HostHarness) -> None:
    """It has another id."""
    ops = Recorder("ops")
    await write(harness, alert(harness), alert(harness, over=True), alert(harness))
    await deliver(harness, ops, seconds=20.0)

    assert ops.states == ["firing", "resolved", "firing"]
    assert len({notice.id for _, notice in ops.got}) == 2


async def test_an_end_without_an_episode_is_not_sent(harness: HostHarness) -> None:
    """There is nothing to resolve."""
    ops = Recorder("ops")
    await write(harness, alert(harness, over=True))
    await deliver(harness, ops)

    assert ops.got == []
    assert await episodes(harness) == []


async def test_each_channel_gets_what_it_subscribes_to(harness: HostHarness) -> None:
    """By tenant, severity and kind."""
    everything, acme, high, others = (
        Recorder("everything"),
        Recorder("acme", AlertFilter(tenant="acme")),
        Recorder("high", AlertFilter(min_severity=Severity.HIGH)),
        Recorder("others", AlertFilter(kinds=frozenset({AlertKind.STALLED}))),
    )
    await write(
        harness,
        alert(harness, "a", severity=Severity.HIGH),
        alert(harness, "b", severity=Severity.WARNING),
        alert(harness, "c", severity=Severity.HIGH, tenant="globex"),
    )
    await deliver(harness, everything, acme, high, others)

    assert [len(channel.got) for channel in (everything, acme, high, others)] == [3, 2, 2, 0]


async def test_a_failing_channel_is_retried_and_delays_no_other(harness: HostHarness) -> None:
    """With exponential backoff; the end of an episode follows its start."""
    bad, good = Recorder("bad"), Recorder("good")
    bad.failing = 4
    await write(harness, alert(harness), alert(harness, over=True))
    await deliver(harness, bad, good, seconds=4.0)
    assert (bad.states, good.states) == ([], ["firing", "resolved"])

    await deliver(harness, bad, good, seconds=120.0)
    assert (bad.states, good.states) == (["firing", "resolved"], ["firing", "resolved"])


async def test_a_hanging_channel_delays_no_other(harness: HostHarness) -> None:
    """Neither other channels nor other alerts; it times out and is retried."""
    bad, good = Recorder("bad"), Recorder("good")
    bad.hanging = True
    await write(harness, *(alert(harness, f"key{number}") for number in range(150)))
    await deliver(harness, bad, good, seconds=20.0)
    assert len(good.got) == 150
    assert bad.got == []

    bad.hanging = False
    await deliver(harness, bad, good, seconds=MAX_CONCURRENT_SECONDS + 60)
    assert len(bad.got) == 150


async def test_concurrency_per_channel_is_limited(harness: HostHarness) -> None:
    """With a hundred alerts at once."""
    ops = Recorder("ops")
    await write(harness, *(alert(harness, f"key{number}") for number in range(100)))
    await deliver(harness, ops)

    assert len(ops.got) == 100
    assert ops.max_concurrent == MAX_CONCURRENT


async def test_another_server_continues_a_delivery(harness: HostHarness) -> None:
    """Between the episode and its notice, and between the notice and its mark."""
    ops = Recorder("ops")
    row = alert(harness)
    await write(harness, row)
    await Alerting(harness.store, [ops]).take(row)
    assert ops.got == []

    await deliver(harness, ops)
    assert ops.states == ["firing"]
    (episode,) = await episodes(harness)
    assert episode.count == 1


async def test_a_server_that_stops_during_a_delivery_leaves_the_row_to_the_next(harness: HostHarness) -> None:
    """With the same id, by which the receiver deduplicates it."""
    ops = Recorder("ops")
    ops.hanging = True
    await write(harness, alert(harness))
    await deliver(harness, ops)
    assert ops.at_once == 0
    assert ops.got == []

    ops.hanging = False
    await deliver(harness, ops)
    assert ops.states == ["firing"]


async def test_notices_of_a_deleted_channel_are_dropped(harness: HostHarness) -> None:
    """With a log line."""
    old, new = Recorder("old"), Recorder("new")
    old.failing = 100
    await write(harness, alert(harness))
    await deliver(harness, old)

    with capture_logs() as lines:
        await deliver(harness, new, seconds=30.0)

    assert [line["channel"] for line in lines if line["event"] == "notice.dropped"] == ["old"]
    assert harness.rows("SELECT count(*) FROM outbox WHERE delivered_at IS NULL") == [(0,)]


@pytest.mark.parametrize("kind", ["alert", NOTIFY_KIND])
@pytest.mark.parametrize("payload", ['{"alert": "unexplained", "task": "task_1"}', "[]", "{"])
async def test_unreadable_rows_are_logged_and_dropped(harness: HostHarness, kind: str, payload: str) -> None:
    """A retry would not help."""
    await write(harness, OutboxRow(id="x", key="x", kind=kind, payload=payload, created_at=harness.clock.wall()))
    with capture_logs() as lines:
        await deliver(harness, Recorder("ops"))

    assert [line["payload"] for line in lines if line["event"].endswith(".unreadable")] == [payload]
    assert harness.rows("SELECT count(*) FROM outbox WHERE delivered_at IS NULL") == [(0,)]


async def test_without_channels_an_episode_is_recorded_and_logged(harness: HostHarness) -> None:
    """Once."""
    await write(harness, alert(harness), alert(harness))
    with capture_logs() as lines:
        await deliver(harness)

    (line,) = [line for line in lines if line["event"] == "alert"]
    assert (line["log_level"], line["kind"], line["summary"]) == ("warning", "quarantined", "load is held")
    assert [episode.count for episode in await episodes(harness)] == [2]


async def test_the_error_of_a_delivery_is_recorded(harness: HostHarness) -> None:
    """With the notice, so that any server can retry it."""
    await write(harness, alert(harness))
    ops = Recorder("ops")
    ops.failing = 100
    await deliver(harness, ops)

    ((payload, fault),) = harness.rows("SELECT payload, fault FROM outbox WHERE kind = 'notify'")
    assert msgspec.json.decode(str(payload), type=Delivery).channel == "ops"
    assert "not reachable" in str(fault)
