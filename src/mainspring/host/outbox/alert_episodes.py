"""From a row of the outbox to people: keeps the episodes of alerts and sends them on (OBS-6).

    outbox "alert" ──► take ──► an episode begins, counts, or is over ──► outbox "notify", one row for each channel
    outbox "notify" ──► deliver ──► the channel

1. An episode and what is to be sent about it are one transaction: nobody is told twice, and nobody is forgotten.
2. Each channel has its own rows: one that fails is tried again by the outbox, and holds up no other.
3. For one channel and key, "it is over" comes behind "it began".
4. What can't be read, or is for a channel that is gone, is logged and dropped: trying again would not help.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Protocol

import msgspec
import structlog

from mainspring.core.model.alerts import OUTBOX_KIND, Alert, AlertKind, Severity
from mainspring.core.model.batch import Outgoing
from mainspring.core.model.notices import Notice, NoticeState, Wish, link_to_run, wants
from mainspring.host.outbox.delivery import Receiver
from mainspring.protocol.ids import new_id
from mainspring.store.ports.schedules import AlertRow, Alerts

log = structlog.get_logger()

NOTIFY_KIND = "notify"
"""Of rows that are to be delivered aside: their receiver waits for channels."""
AT_ONCE = 4
"""Deliveries under way to one channel: a hundred alerts in a second are no reason to storm it."""


class Channel(Protocol):
    """A way to people."""

    @property
    def name(self) -> str:
        """Unique among the channels."""
        ...

    @property
    def wish(self) -> Wish:
        """What it is to be told."""
        ...

    async def send(self, delivery: str, notice: Notice) -> None:
        """Tell them, or raise. The same delivery may come twice: its id goes along."""
        ...


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of a row of kind "notify"."""

    channel: str
    notice: Notice


class Alerting:
    """The receivers of alerts, around the channels of this server."""

    def __init__(self, store: Alerts, channels: Sequence[Channel] = (), address: str = "") -> None:
        self._store = store
        self._channels = {channel.name: channel for channel in channels}
        self._turns = {name: asyncio.Semaphore(AT_ONCE) for name in self._channels}
        self._address = address

    def receivers(self) -> dict[str, Receiver]:
        """For the delivery of the outbox."""
        return {OUTBOX_KIND: self.take, NOTIFY_KIND: self.deliver}

    async def take(self, row: Outgoing) -> None:
        """Begin an episode, count it once more, or end it."""
        try:
            alert = msgspec.json.decode(row.payload, type=Alert)
        except msgspec.DecodeError as fault:
            log.warning("alert.unreadable", id=row.id, payload=row.payload, fault=str(fault))
            return
        if alert.resolved:
            await self._resolve(alert)
        else:
            await self._open(alert, row.id)

    async def deliver(self, row: Outgoing) -> None:
        """Send a notice through its channel. Raises if it did not arrive."""
        try:
            delivery = msgspec.json.decode(row.payload, type=Delivery)
        except msgspec.DecodeError as fault:
            log.warning("notice.unreadable", id=row.id, payload=row.payload, fault=str(fault))
            return
        channel = self._channels.get(delivery.channel)
        if channel is None:
            log.warning("notice.dropped", id=row.id, channel=delivery.channel, because="there is no such channel here")
            return
        async with self._turns[channel.name]:
            await channel.send(row.id, delivery.notice)
        log.info("notice.sent", id=row.id, channel=channel.name)

    async def _open(self, alert: Alert, row_id: str) -> None:
        episode = AlertRow(
            # Drawn from the row's id: the same row, taken twice, is the same episode.
            id=new_id("alert", alert.at, Random(row_id)),
            key=alert.key,
            kind=alert.kind,
            severity=alert.severity,
            tenant=alert.tenant,
            summary=alert.summary,
            details=msgspec.json.encode(alert.details).decode(),
            opened_at=alert.at,
            last_at=alert.at,
        )
        if await self._store.open_alert(episode, self._notices(episode, NoticeState.FIRING)):
            log.warning(
                "alert", id=episode.id, kind=alert.kind, severity=alert.severity, tenant=alert.tenant,
                summary=alert.summary, details=alert.details,
            )  # fmt: skip

    async def _resolve(self, alert: Alert) -> None:
        def notices(episode: AlertRow) -> list[Outgoing]:
            # What ended it says more to whoever was told than what began it, said again.
            summary = alert.summary or episode.summary
            over = msgspec.structs.replace(episode, resolved_at=alert.at, summary=summary)
            return self._notices(over, NoticeState.RESOLVED)

        episode = await self._store.resolve_alert(alert.key, alert.at, notices)
        if episode is not None:
            log.info("alert.resolved", id=episode.id, kind=episode.kind, tenant=episode.tenant, summary=alert.summary)

    def _notices(self, episode: AlertRow, state: NoticeState) -> list[Outgoing]:
        """A row of the outbox for each channel that wants it."""
        details = msgspec.json.decode(episode.details, type=dict[str, str | int | float | bool | None])
        notice = Notice(
            id=episode.id,
            state=state,
            kind=AlertKind(episode.kind),
            severity=Severity(episode.severity),
            tenant=episode.tenant,
            summary=episode.summary,
            details=details,
            opened_at=episode.opened_at,
            resolved_at=episode.resolved_at,
            count=episode.count,
            link=link_to_run(self._address, details),
        )
        return [
            Outgoing(
                id=f"{NOTIFY_KIND}:{episode.id}:{name}:{'on' if state is NoticeState.FIRING else 'over'}",
                key=f"{NOTIFY_KIND}:{name}:{episode.key}",
                kind=NOTIFY_KIND,
                payload=msgspec.json.encode(Delivery(channel=name, notice=notice)).decode(),
                created_at=episode.resolved_at or episode.opened_at,
            )
            for name, channel in self._channels.items()
            if wants(channel.wish, notice)
        ]
