"""Alerts: records their episodes and sends notices to the channels (OBS-6).

    outbox "alert" ──► take ──► open, count or resolve an episode ──► outbox "notify", one row per channel
    outbox "notify" ──► deliver ──► the channel

1. An episode and its notices are one transaction: no notice is lost or sent for the same change twice.
2. Each channel has its own rows: a failing channel is retried by the outbox, and delays no other.
3. For one channel and key, "resolved" follows "firing".
4. Unreadable rows, and rows of a channel that no longer exists, are logged and dropped: a retry would not help.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Protocol

import msgspec
import structlog

from mainspring.core.model.alerts import OUTBOX_KIND, Alert, AlertKind, Severity
from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.notices import AlertFilter, Notice, NoticeState, link_to_run, matches
from mainspring.host.outbox.delivery import Receiver
from mainspring.protocol.ids import new_id
from mainspring.store.ports.schedules import AlertRow, Alerts

log = structlog.get_logger()

NOTIFY_KIND = "notify"
"""Outbox kind of notices. Delivered concurrently: the receiver waits for channels."""
MAX_CONCURRENT = 4
"""Concurrent deliveries to one channel, so that a burst of alerts does not flood it."""


class Channel(Protocol):
    """A notification channel."""

    @property
    def name(self) -> str:
        """Unique among the channels."""
        ...

    @property
    def alert_filter(self) -> AlertFilter:
        """The alerts that it gets."""
        ...

    async def send(self, delivery: str, notice: Notice) -> None:
        """Send a notice, or raise. A delivery may be repeated; receivers can deduplicate by its id."""
        ...


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of a row of kind "notify"."""

    channel: str
    notice: Notice


class Alerting:
    """The outbox receivers of alerts, with the channels of this server."""

    def __init__(self, store: Alerts, channels: Sequence[Channel] = (), address: str = "") -> None:
        self._store = store
        self._channels = {channel.name: channel for channel in channels}
        self._semaphores = {name: asyncio.Semaphore(MAX_CONCURRENT) for name in self._channels}
        self._address = address

    def receivers(self) -> dict[str, Receiver]:
        """Return the receivers by outbox kind."""
        return {OUTBOX_KIND: self.take, NOTIFY_KIND: self.deliver}

    async def take(self, row: OutboxRow) -> None:
        """Open an episode, count a repetition, or resolve it."""
        try:
            alert = msgspec.json.decode(row.payload, type=Alert)
        except msgspec.DecodeError as fault:
            log.warning("alert.unreadable", id=row.id, payload=row.payload, fault=str(fault))
            return
        if alert.resolved:
            await self._resolve(alert)
        else:
            await self._open(alert, row.id)

    async def deliver(self, row: OutboxRow) -> None:
        """Send a notice through its channel. Raises if it did not arrive."""
        try:
            delivery = msgspec.json.decode(row.payload, type=Delivery)
        except msgspec.DecodeError as fault:
            log.warning("notice.unreadable", id=row.id, payload=row.payload, fault=str(fault))
            return
        channel = self._channels.get(delivery.channel)
        if channel is None:
            log.warning("notice.dropped", id=row.id, channel=delivery.channel, because="unknown channel")
            return
        async with self._semaphores[channel.name]:
            await channel.send(row.id, delivery.notice)
        log.info("notice.sent", id=row.id, channel=channel.name)

    async def _open(self, alert: Alert, row_id: str) -> None:
        episode = AlertRow(
            # Derived from the row's id: a row that is taken twice is one episode.
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
        def notices(episode: AlertRow) -> list[OutboxRow]:
            # The summary of the end is more useful than the summary of the beginning repeated.
            summary = alert.summary or episode.summary
            over = msgspec.structs.replace(episode, resolved_at=alert.at, summary=summary)
            return self._notices(over, NoticeState.RESOLVED)

        episode = await self._store.resolve_alert(alert.key, alert.at, notices)
        if episode is not None:
            log.info("alert.resolved", id=episode.id, kind=episode.kind, tenant=episode.tenant, summary=alert.summary)

    def _notices(self, episode: AlertRow, state: NoticeState) -> list[OutboxRow]:
        """Return an outbox row for each subscribed channel."""
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
            OutboxRow(
                id=f"{NOTIFY_KIND}:{episode.id}:{name}:{'on' if state is NoticeState.FIRING else 'over'}",
                key=f"{NOTIFY_KIND}:{name}:{episode.key}",
                kind=NOTIFY_KIND,
                payload=msgspec.json.encode(Delivery(channel=name, notice=notice)).decode(),
                created_at=episode.resolved_at or episode.opened_at,
            )
            for name, channel in self._channels.items()
            if matches(channel.alert_filter, notice)
        ]
