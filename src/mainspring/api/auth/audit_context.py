"""What the audit log says of a request (SEC-4): made here, written by the store in the transaction of the change.

    @router.post("/runs/{run_id}/cancel", operation="cancel_run", role=Role.OPERATOR)
    async def cancel_run(run_id: str, .., audit: Auditor) -> Done:
        entry = audit.entry(run_id, tenant=run.tenant, why=body.why)

A route that changes something asks for an `Auditor`, makes one entry, and gives it to whoever writes the change. A
request that turns out to change nothing by its own wish (a dry run) says `nothing_to_say`. `api/http/routing.py` sees
to it that each answered request has done one of the two (I-73).
"""

from __future__ import annotations

import msgspec

from mainspring.api.services import Principal
from mainspring.core.model.audit_entry import AuditEntry

LARGEST_SIDE_BYTES = 16 * 1024
"""Of `before` and `after` as JSON: of more, only the size is kept."""


class Auditor:
    """Tells of one request."""

    def __init__(self, principal: Principal, *, request_id: str, source: str, act: str) -> None:
        self._principal = principal
        self._request_id = request_id
        self._source = source
        self._act = act
        self.made = 0
        """How many entries it made."""
        self.is_done = False
        """An entry was made, or there is nothing to say."""

    def entry(
        self, object: str, *, tenant: str, why: str = "", before: object = None, after: object = None
    ) -> AuditEntry:
        """What is said of the request: what it was done to, in whose chain, and what it was and became."""
        number = f".{self.made}" if self.made else ""
        self.made += 1
        self.is_done = True
        return AuditEntry(
            id=f"{self._request_id}{number}", tenant=tenant, actor=self._principal.name, source=self._source,
            act=self._act, object=object, why=why, before=_side(before), after=_side(after),
        )  # fmt: skip

    def will_tell(self) -> None:
        """Entries are made while the answer goes out, one for each part of the request that is carried out."""
        self.is_done = True

    def nothing_to_say(self) -> None:
        """The request changes nothing, as it wanted."""
        self.is_done = True


def _side(value: object) -> str | None:
    """One side of a change as JSON."""
    if value is None:
        return None
    text = msgspec.json.encode(value)
    if len(text) > LARGEST_SIDE_BYTES:
        text = msgspec.json.encode({"bytes": len(text)})
    return text.decode()
