"""Client methods for applying many jobs and schedules at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

import msgspec

from mainspring.client.aio.api_calls import Calls
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.rest.apply import MAX_ITEMS, ApplyItem, ApplyItemResult, ApplyRequest

_MAX_BATCH_BYTES = 4 * 1024 * 1024


class ApplyCalls(Calls):
    """Bulk apply of definitions."""

    async def apply(
        self, items: Iterable[ApplyItem], *, dry_run: bool = False, why: str = ""
    ) -> AsyncIterator[ApplyItemResult]:
        """Create or update jobs with their schedules; yields a result per item, in the same order.

        Requests have at most a thousand items. Idempotent: identical definitions are unchanged. With `dry_run` nothing
        is written, and the results are what would change. Raises Unavailable if the server stopped before the last
        item, for example because a token was revoked.
        """
        first = 0
        for batch in _batches(items, self.tenant):
            body = msgspec.json.encode(ApplyRequest(items=batch, dry_run=dry_run, why=why))
            answer = await self._connection.request("POST", "/apply", body=body, repeatable=True)
            lines = msgspec.json.Decoder(ApplyItemResult).decode_lines(answer.content)
            for line in lines:
                yield msgspec.structs.replace(line, number=first + line.number)
            if len(lines) < len(batch):
                raise Unavailable(f"the server stopped after {len(lines)} of {len(batch)} items")
            first += len(batch)


def _batches(items: Iterable[ApplyItem], tenant: str | None) -> Iterator[list[ApplyItem]]:
    """Split items into requests, and fill in the tenant."""
    batch: list[ApplyItem] = []
    size = 0
    for item in items:
        own = len(item.job) + sum(len(one.definition) for one in item.schedules)
        if batch and (len(batch) >= MAX_ITEMS or size + own > _MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item if item.tenant else msgspec.structs.replace(item, tenant=tenant))
        size += own
    if batch:
        yield batch
