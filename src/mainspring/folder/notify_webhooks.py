"""`notify` of pipelines, as webhooks on the server.

A folder's webhooks have the note `folder:<scheduleId>:<number>`. Other webhooks are not touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from mainspring.client.aio.client import AsyncClient
from mainspring.definitions.pipeline_file import Pipeline
from mainspring.protocol.errors import NotFound, Refused
from mainspring.protocol.rest.admin import WebhookRequest, WebhookView

log = structlog.get_logger()

_NOTE_PREFIX = "folder:"


class FolderWebhooks:
    """The webhooks of a folder's pipelines."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._existing: dict[str, dict[str, WebhookView]] = {}
        """By scheduleId and note."""

    async def load(self) -> None:
        """Fetch the existing webhooks."""
        self._existing = {}
        async for view in self._client.webhooks():
            if view.note.startswith(_NOTE_PREFIX):
                key = view.note.removeprefix(_NOTE_PREFIX).rpartition(":")[0]
                self._existing.setdefault(key, {})[view.note] = view

    def orphaned_keys(self, known: Iterable[str]) -> list[str]:
        """Keys that have webhooks, but no schedule or pipeline any more."""
        return [key for key in self._existing if key not in set(known)]

    async def follow(self, key: str, pipeline: Pipeline | None) -> list[str]:
        """Sync the webhooks of a pipeline (None: it was removed); return warnings for those that were refused."""
        existing = self._existing.pop(key, {})
        wanted = {} if pipeline is None else _wanted(key, pipeline)
        kept: dict[str, WebhookView] = {}
        warnings: list[str] = []
        for note, request in wanted.items():
            try:
                kept[note] = await self._put(request, existing.pop(note, None))
            except Refused as refused:
                warnings.append(f"{pipeline.file if pipeline else key}: invalid notify: {refused}")
        for view in existing.values():
            await self._delete(view)
        if kept:
            self._existing[key] = kept
        return warnings

    async def _put(self, request: WebhookRequest, existing: WebhookView | None) -> WebhookView:
        if existing is None:
            return await self._client.create_webhook(request)
        if (existing.url, tuple(existing.events), existing.job) == (request.url, request.events, request.job):
            return existing
        return await self._client.change_webhook(existing.id, request)

    async def _delete(self, view: WebhookView) -> None:
        try:
            await self._client.delete_webhook(view.id)
        except NotFound:
            log.debug("folder.webhook_gone", webhook=view.id)


def _wanted(key: str, pipeline: Pipeline) -> Mapping[str, WebhookRequest]:
    return {
        (note := f"{_NOTE_PREFIX}{key}:{number}"): WebhookRequest(
            url=notice.url, events=notice.events, job=pipeline.id, note=note, tenant=pipeline.tenant
        )
        for number, notice in enumerate(pipeline.notices)
    }
