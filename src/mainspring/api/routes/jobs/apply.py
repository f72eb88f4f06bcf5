"""Many jobs with their schedules are put at once: those of a folder or of a deployment. How: `apply_definitions.py`."""

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
    """Put many jobs with their schedules; a line of the answer for each item, in the same order.

    What is there already in the same form stays as it is, and what is not named here is left alone. With `dry_run`
    nothing is written: the lines say what would change.
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
