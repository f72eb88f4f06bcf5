"""Audit entries of a request (SEC-4): created here, written by the store in the transaction of the change.

    @router.post("/runs/{run_id}/cancel", operation="cancel_run", role=Role.OPERATOR)
    async def cancel_run(run_id: str, .., audit: Auditor) -> Done:
        entry = audit.entry(run_id, tenant=run.tenant, why=body.why)

A route that changes something takes an `Auditor`, creates one entry, and passes it to the write. A request that
changes nothing by design (a dry run) calls `skip_entry`. `api/http/routing.py` checks that each answered request
has done one of the two (I-73).
"""

from __future__ import annotations

import msgspec

from mainspring.api.auth.principal import Principal
from mainspring.core.model.audit_entry import AuditEntry

MAX_SIDE_BYTES = 16 * 1024
"""Size limit of `before` and `after` as JSON; of larger values only the size is recorded."""


class Auditor:
    """Creates the audit entries of one request."""

    def __init__(self, principal: Principal, *, request_id: str, source: str, action: str) -> None:
        self.actor = principal.name
        self._request_id = request_id
        self._source = source
        self._action = action
        self.entry_count = 0
        """Number of entries created."""
        self.is_done = False
        """Whether an entry was created, or none is needed."""

    def entry(
        self, object: str, *, tenant: str, why: str = "", before: object = None, after: object = None
    ) -> AuditEntry:
        """Create an entry: the object, its tenant's chain, the reason, and the values before and after."""
        number = f".{self.entry_count}" if self.entry_count else ""
        self.entry_count += 1
        self.is_done = True
        return AuditEntry(
            id=f"{self._request_id}{number}", tenant=tenant, actor=self.actor, source=self._source,
            action=self._action, object=object, why=why, before=_side(before), after=_side(after),
        )  # fmt: skip

    def defer_entries(self) -> None:
        """Announce that entries are created while the response is streamed, one for each part that is executed."""
        self.is_done = True

    def skip_entry(self) -> None:
        """Mark the request as one that changes nothing."""
        self.is_done = True


def _side(value: object) -> str | None:
    """Encode the value before or after a change."""
    if value is None:
        return None
    text = msgspec.json.encode(value)
    if len(text) > MAX_SIDE_BYTES:
        text = msgspec.json.encode({"bytes": len(text)})
    return text.decode()
