# Made from aio/client_apply.py by tools/sync_client.py: change that file, then run `make client`.
"""The client's part for definitions: many jobs with their schedules are put at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mainspring.client.api_calls import Calls
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.rest.apply import MOST_ITEMS, ApplyItem, ApplyLine, ApplyRequest

_BYTES_AT_ONCE = 4 * 1024 * 1024


class ApplyCalls(Calls):
    """Definitions, many at once."""

    def apply(self, items: Iterable[ApplyItem], *, dry_run: bool = False, why: str = "") -> Iterator[ApplyLine]:
        """Put jobs with their schedules; what became of each item comes back in the same order.

        They go in requests of at most a thousand. What is there in the same form is left as it is, so this is safe to
        repeat. With `dry_run` nothing is written: the lines say what would change. Raises Unavailable if the server
        stopped before the last item, for example because a token was revoked.
        """
        first = 0
        for batch in _batches(items, self.tenant):
            body = msgspec.json.encode(ApplyRequest(items=batch, dry_run=dry_run, why=why))
            answer = self._connection.request("POST", "/apply", body=body, repeatable=True)
            lines = msgspec.json.Decoder(ApplyLine).decode_lines(answer.content)
            for line in lines:
                yield msgspec.structs.replace(line, number=first + line.number)
            if len(lines) < len(batch):
                raise Unavailable(f"the server stopped after {len(lines)} of {len(batch)} items")
            first += len(batch)


def _batches(items: Iterable[ApplyItem], tenant: str | None) -> Iterator[list[ApplyItem]]:
    """Items as a server takes them in one request, each for a tenant."""
    batch: list[ApplyItem] = []
    size = 0
    for item in items:
        own = len(item.job) + sum(len(one.definition) for one in item.schedules)
        if batch and (len(batch) >= MOST_ITEMS or size + own > _BYTES_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(item if item.tenant else msgspec.structs.replace(item, tenant=tenant))
        size += own
    if batch:
        yield batch
