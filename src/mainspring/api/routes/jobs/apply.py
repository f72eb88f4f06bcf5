"""Apply many jobs with their schedules: those of a folder or deployment. See `apply_definitions.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.session_validity import Standing
from mainspring.api.http.routing import NDJSON, Router
from mainspring.api.routes.runs.submission import Lines
from mainspring.api.services import Principal, Role, Services
from mainspring.api.submission.actions import reason
from mainspring.api.submission.apply_definitions import AT_ONCE, Applying
from mainspring.protocol.rest.apply import ApplyItem, ApplyLine, ApplyRequest

router = Router()

LARGEST_BYTES = 64 * 1024 * 1024


@router.post(
    "/apply", operation="apply", role=Role.SUBMITTER, answers=NDJSON, returns=ApplyLine, largest_body=LARGEST_BYTES
)
async def apply(
    body: ApplyRequest, request: Request, principal: Principal, services: Services, audit: Auditor
) -> Response:
    """Apply many jobs with their schedules; the response has a line for each item, in the same order.

    Unchanged definitions stay as they are, and definitions not named here are not touched. With `dry_run` nothing is
    written: the lines show what would change.
    """
    applying = Applying(services, principal, audit, reason(body.why), dry_run=body.dry_run)
    if body.dry_run:
        audit.nothing_to_say()
    else:
        audit.will_tell()
    standing = Standing(services, request)
    return Lines(_answer(applying, body.items, standing))


async def _answer(applying: Applying, items: Sequence[ApplyItem], standing: Standing) -> AsyncIterator[bytes]:
    for first in range(0, len(items), AT_ONCE):
        if not await standing.is_valid():
            return
        lines = await applying.put(items[first : first + AT_ONCE], first)
        yield msgspec.json.Encoder().encode_lines(lines)
