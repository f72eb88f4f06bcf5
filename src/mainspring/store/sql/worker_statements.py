"""Join tokens and the identities of workers, as SQL that both databases understand (as in `lists.py`)."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from mainspring.store.ports.workers import IdentityRow, JoinTokenRow
from mainspring.store.sql.lists import MAX_LISTED, Listing, columns

S = TypeVar("S", bound=msgspec.Struct)

COUNT_USE = """
    UPDATE join_tokens SET uses_left = uses_left - 1
    WHERE id = $1 AND uses_left > 0 AND revoked_at IS NULL AND expires_at > $2 RETURNING id
"""
HAS_JOINED = """
    SELECT name FROM worker_identities WHERE name = $1 AND key = $2 AND join_token = $3 AND revoked_at IS NULL
"""
RENEW = """
    UPDATE worker_identities SET serial = $3, renewed_at = $4, expires_at = $5
    WHERE name = $1 AND key = $2 AND revoked_at IS NULL RETURNING name
"""


def insert_join_token(marks: str) -> str:
    """Keep a join token; `marks` is how the database names the values of a row."""
    return f"INSERT INTO join_tokens ({columns(JoinTokenRow)}) VALUES ({marks})"


def put_identity(marks: str) -> str:
    """Keep an identity, unless its name is another's, or its key was revoked under this name."""
    names = IdentityRow.__struct_fields__
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name != "name")
    is_same = "worker_identities.key = excluded.key"
    return f"""
        INSERT INTO worker_identities ({columns(IdentityRow)}) VALUES ({marks})
        ON CONFLICT (name) DO UPDATE SET {changes}
        WHERE CASE WHEN {is_same} THEN worker_identities.revoked_at IS NULL
            ELSE worker_identities.revoked_at IS NOT NULL OR worker_identities.expires_at <= excluded.enrolled_at END
        RETURNING name
    """


def revoke(table: str, key: str, now: str) -> str:
    """End the row with this key, unless it was ended before. `now` is how the database names the time."""
    return f"UPDATE {table} SET revoked_at = {now} WHERE {key} = $1 AND revoked_at IS NULL RETURNING {key}"


def join_token(id: str) -> Listing:
    """One by its id."""
    return Listing(f"SELECT {columns(JoinTokenRow)} FROM join_tokens WHERE id = $1", [id])


def join_tokens() -> Listing:
    """All by creation."""
    return Listing(f"SELECT {columns(JoinTokenRow)} FROM join_tokens ORDER BY created_at, id LIMIT {MAX_LISTED}", [])


def identity(name: str) -> Listing:
    """One by its name."""
    return Listing(f"SELECT {columns(IdentityRow)} FROM worker_identities WHERE name = $1", [name])


def identities(after: str, limit: int) -> Listing:
    """Identities by name."""
    return Listing(
        f"SELECT {columns(IdentityRow)} FROM worker_identities WHERE name > $2 ORDER BY name LIMIT $1", [limit, after]
    )


class WorkerLists(Protocol):
    """The part of `store/ports/workers.py` that only reads, on top of what an adapter reads with."""

    async def _listed(self, struct: type[S], wanted: Listing) -> list[S]:
        """The structs that a statement finds."""
        ...

    async def find_join_token(self, id: str) -> JoinTokenRow | None:
        """A join token."""
        found = await self._listed(JoinTokenRow, join_token(id))
        return found[0] if found else None

    async def list_join_tokens(self) -> list[JoinTokenRow]:
        """All join tokens."""
        return await self._listed(JoinTokenRow, join_tokens())

    async def find_identity(self, name: str) -> IdentityRow | None:
        """The identity of a worker."""
        found = await self._listed(IdentityRow, identity(name))
        return found[0] if found else None

    async def list_identities(self, after: str, limit: int) -> list[IdentityRow]:
        """Identities by name."""
        return await self._listed(IdentityRow, identities(after, limit))
