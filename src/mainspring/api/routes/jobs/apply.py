"""Apply many jobs with their schedules: those of a folder or deployment. See `apply_definitions.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mainspring.api.auth.access import Access, SessionValidity
from mainspring.api.auth.principal import Role
from mainspring.api.http.routing import NDJSON, Router
from mainspring.api.routes.runs.submission import NdjsonResponse
from mainspring.api.submission.actions import reason
from mainspring.api.submission.apply_definitions import MAX_GROUP, Definitions, DefinitionWriter
from mainspring.protocol.rest.apply import ApplyItem, ApplyItemResult, ApplyRequest

router = Router()

MAX_BODY_BYTES = 64 * 1024 * 1024


@router.post(
    "/apply",
    operation="apply",
    role=Role.SUBMITTER,
    answers=NDJSON,
    returns=ApplyItemResult,
    max_body_bytes=MAX_BODY_BYTES,
)
async def apply(body: ApplyRequest, request: Request, access: Access, definitions: Definitions) -> Response:
    """Apply many jobs with their schedules; the response has a line for each item, in the same order.

    Unchanged definitions stay as they are, and definitions not named here are not touched. With `dry_run` nothing is
    written: the lines show what would change.
    """
    writer = DefinitionWriter(definitions=definitions, why=reason(body.why), dry_run=body.dry_run)
    if body.dry_run:
        definitions.audit.skip_entry()
    else:
        definitions.audit.defer_entries()
    validity = access.session(request)
    return NdjsonResponse(_answer(writer, body.items, validity))


async def _answer(
    writer: DefinitionWriter, items: Sequence[ApplyItem], validity: SessionValidity
) -> AsyncIterator[bytes]:
    for first in range(0, len(items), MAX_GROUP):
        if not await validity.is_valid():
            return
        lines = await writer.put(items[first : first + MAX_GROUP], first)
        yield msgspec.json.Encoder().encode_lines(lines)
