"""The part of the store's port for who workers are (SEC-3): join tokens, and the identities that were given for them.

The promises at the top of `store/ports/store.py` hold here too, and those of `store/ports/admin.py` about the audit
log.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

import msgspec

from mainspring.core.model.audit_entry import AuditEntry


class JoinTokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A join token as it is kept: never the token itself. The fields are the columns of `join_tokens`, in order."""

    id: str
    """The public part of the token, by which it is looked up."""
    hash: str
    """SHA-256 of the whole token, in hexadecimal."""
    name: str
    """What it is for, for people."""
    pools: tuple[str, ...]
    """The pools that whoever joins with it may serve."""
    uses_left: int
    """How many workers may still join with it."""
    created_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None


class IdentityRow(msgspec.Struct, frozen=True, kw_only=True):
    """Who a worker is. The fields are the columns of `worker_identities`, in the same order."""

    name: str
    """The worker's name: nobody else may use it."""
    key: str
    """SHA-256 of its public key, in hexadecimal. Its certificates are renewed, the key stays."""
    pools: tuple[str, ...]
    serial: str
    """Of its latest certificate, in hexadecimal."""
    join_token: str
    """The id of the token that it joined with."""
    enrolled_at: datetime
    renewed_at: datetime
    expires_at: datetime
    """When its latest certificate ends, and with it the identity."""
    revoked_at: datetime | None = None


class WorkerIdentities(Protocol):
    """For who workers are."""

    async def insert_join_token(self, row: JoinTokenRow, audit: AuditEntry) -> None:
        """Keep a join token."""
        ...

    async def find_join_token(self, id: str) -> JoinTokenRow | None:
        """A join token by its public part, whether or not it is still good."""
        ...

    async def list_join_tokens(self) -> list[JoinTokenRow]:
        """All join tokens by creation; at most 1,000."""
        ...

    async def revoke_join_token(self, id: str, audit: AuditEntry) -> bool:
        """End a join token now; False if there is none, or it had been ended. The entry is written if there is one."""
        ...

    async def enroll(self, row: IdentityRow, audit: AuditEntry) -> bool:
        """Keep the identity of a worker that joined at its `enrolled_at`, and count that use of its join token.

        False, having written nothing, if the token is used up or no longer good. Who had joined with the same token,
        by the same name and with the same key, has used it already. Raises Conflict, having written nothing, if the
        name is another identity's: one with another key, neither revoked nor expired; or if that very key was revoked.
        """
        ...

    async def renew_identity(self, row: IdentityRow, audit: AuditEntry) -> bool:
        """Keep the latest certificate of an identity; False if it is not there with this key, or was revoked."""
        ...

    async def find_identity(self, name: str) -> IdentityRow | None:
        """The identity of a worker, whether or not it is still good."""
        ...

    async def list_identities(self, after: str, limit: int) -> list[IdentityRow]:
        """Identities by name, those behind `after`."""
        ...

    async def revoke_identity(self, name: str, audit: AuditEntry) -> bool:
        """End an identity now; False if there is none, or it had been ended. The entry is written if there is one."""
        ...
