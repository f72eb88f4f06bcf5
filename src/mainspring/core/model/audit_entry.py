"""The audit log (SEC-4): who did what, from where, with what before and after, in chains that show any tampering.

1. An entry is written in the transaction of the change that it tells of: there is none without the other (I-73).
2. Within a second it is *sealed*: it gets the next number of its tenant's chain, and a hash over itself and the hash
   of the entry before. Whoever changes, removes or slips in a sealed entry breaks the chain there, and `faults_in`
   names the place. Heads of chains that are kept elsewhere show a chain that was cut short or written anew.

Entries never have a secret in them: no token, and no value of a secret.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import asdict

from mainspring.core.schedules.time_zones import EPOCH

BEGINNING = "0" * 64
"""What the first entry of a chain follows."""
INSTALLATION = "*"
"""The chain of what concerns no tenant alone: workers, settings, tokens for everybody."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One act. The fields are the first columns of `audit`, in the same order."""

    id: str
    """The request that it came with, `req_..`; two acts of one request have a number behind it."""
    at: datetime = EPOCH
    """By the store's clock, given by the store."""
    tenant: str
    """Whose chain it belongs to: INSTALLATION if it concerns no tenant alone."""
    actor: str
    """`token:etl-bot`, `local`, `attempt:att_..`."""
    source: str
    """The address that it came from."""
    act: str
    """The operation, by its name in the OpenAPI document: `cancel_run`."""
    object: str
    """What it was done to: an id, or a name."""
    why: str = ""
    before: str | None = None
    """JSON: what it was like, if that says anything."""
    after: str | None = None
    """JSON: what became of it."""


class AuditRow(AuditEntry, frozen=True, kw_only=True):
    """An entry as it is kept. `seq` is 0 until it is sealed."""

    seq: int = 0
    hash: str = ""


class ChainHead(msgspec.Struct, frozen=True, kw_only=True):
    """Where a chain ends. The fields are the columns of `audit_heads`, in the same order."""

    tenant: str
    seq: int
    hash: str


class AuditFault(msgspec.Struct, frozen=True, kw_only=True):
    """A place where a chain is not what it was when it was sealed."""

    tenant: str
    seq: int
    id: str
    """The entry there; empty if it is one that is missing."""
    why: str


def link(previous: str, seq: int, entry: AuditEntry) -> str:
    """The hash of an entry that follows another: over that one's hash, the number, and every field as JSON."""
    fields = [getattr(entry, name) for name in AuditEntry.__struct_fields__]
    return hashlib.sha256(previous.encode() + msgspec.json.encode([seq, *fields])).hexdigest()


def seal(entries: Iterable[AuditEntry], heads: Mapping[str, ChainHead]) -> list[AuditRow]:
    """The entries with their places in the chains that end in `heads`, in the order in which they are given."""
    ends = {tenant: (head.seq, head.hash) for tenant, head in heads.items()}
    sealed = []
    for entry in entries:
        seq, previous = ends.get(entry.tenant, (0, BEGINNING))
        seq, digest = seq + 1, link(previous, seq + 1, entry)
        ends[entry.tenant] = (seq, digest)
        fields = {name: value for name, value in asdict(entry).items() if name in AuditEntry.__struct_fields__}
        sealed.append(AuditRow(**fields, seq=seq, hash=digest))
    return sealed


def heads_of(sealed: Iterable[AuditRow]) -> list[ChainHead]:
    """Where the chains of these entries end, by tenant."""
    ends = {row.tenant: ChainHead(tenant=row.tenant, seq=row.seq, hash=row.hash) for row in sealed}
    return [ends[tenant] for tenant in sorted(ends)]


class ChainCheck:
    """Goes along one tenant's chain, in order and in parts, and tells where it is broken.

    The first entry is taken as it is if older ones are no longer kept. After a broken place the check goes on with what
    the rows say, so that one change is one fault.
    """

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self.head: ChainHead | None = None
        """How far it has come."""

    def faults_in(self, rows: Sequence[AuditRow]) -> Iterator[AuditFault]:
        """What is wrong with the next part of the chain, whose rows come in the order of their numbers."""
        for row in rows:
            previous = self.head.hash if self.head is not None else BEGINNING if row.seq == 1 else None
            if self.head is not None and row.seq != self.head.seq + 1:
                missing = row.seq - self.head.seq - 1
                yield self._fault(row, f"{missing} missing before it" if missing > 0 else "its number is there twice")
            elif previous is not None and link(previous, row.seq, row) != row.hash:
                yield self._fault(row, "it is not what was sealed")
            self.head = ChainHead(tenant=self._tenant, seq=row.seq, hash=row.hash)

    def fault_at_end(self, head: ChainHead) -> AuditFault | None:
        """What is wrong if the chain should end in this head, or have gone on from it."""
        found = self.head
        if found is None or found.seq < head.seq:
            return AuditFault(tenant=self._tenant, seq=head.seq, id="", why="the end of the chain is missing")
        if found.seq == head.seq and found.hash != head.hash:
            return AuditFault(tenant=self._tenant, seq=head.seq, id="", why="the chain was written anew")
        return None

    def _fault(self, row: AuditRow, why: str) -> AuditFault:
        return AuditFault(tenant=self._tenant, seq=row.seq, id=row.id, why=why)
