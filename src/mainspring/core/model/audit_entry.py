"""The audit log (SEC-4): who did what, from where, with the state before and after, in tamper-evident chains.

1. An entry is written in the transaction of the change it records: there is none without the other (I-73).
2. Within a second it is *sealed*: it gets the next sequence number of its tenant's chain, and a hash over itself and
   the hash of the previous entry. Changing, removing or inserting a sealed entry breaks the chain, and `faults_in`
   reports where. Chain heads that are kept elsewhere detect a truncated or rewritten chain.

Entries never contain a secret: no token, and no value of a secret.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import asdict

from mainspring.core.schedules.time_zones import EPOCH

GENESIS_HASH = "0" * 64
"""Previous hash of the first entry of a chain."""
INSTALLATION = "*"
"""Chain of entries that concern no single tenant: workers, settings, tokens for all tenants."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded action. The fields are the first columns of `audit`, in the same order."""

    id: str
    """Id of the request, `req_..`; a number is appended if a request has several entries."""
    at: datetime = EPOCH
    """Store time, set by the store."""
    tenant: str
    """Tenant of the chain, or INSTALLATION."""
    actor: str
    """`token:etl-bot`, `local`, `attempt:att_..`."""
    source: str
    """Client address."""
    action: str
    """Operation id in the OpenAPI document: `cancel_run`."""
    object: str
    """Id or name of the target."""
    why: str = ""
    before: str | None = None
    """Previous state as JSON, if any."""
    after: str | None = None
    """New state as JSON."""


class AuditRow(AuditEntry, frozen=True, kw_only=True):
    """A stored entry. `seq` is 0 until it is sealed."""

    seq: int = 0
    hash: str = ""


class ChainHead(msgspec.Struct, frozen=True, kw_only=True):
    """Last entry of a chain. The fields are the columns of `audit_heads`, in the same order."""

    tenant: str
    seq: int
    hash: str


class AuditFault(msgspec.Struct, frozen=True, kw_only=True):
    """A position where a chain differs from what was sealed."""

    tenant: str
    seq: int
    id: str
    """Id of the entry; empty if the entry is missing."""
    why: str


def chain_hash(previous: str, seq: int, entry: AuditEntry) -> str:
    """Return the hash of an entry: over the previous hash, the sequence number, and every field as JSON."""
    fields = [getattr(entry, name) for name in AuditEntry.__struct_fields__]
    return hashlib.sha256(previous.encode() + msgspec.json.encode([seq, *fields])).hexdigest()


def seal(entries: Iterable[AuditEntry], heads: Mapping[str, ChainHead]) -> list[AuditRow]:
    """Seal entries, in the given order, onto the chains that end in `heads`."""
    ends = {tenant: (head.seq, head.hash) for tenant, head in heads.items()}
    sealed = []
    for entry in entries:
        seq, previous = ends.get(entry.tenant, (0, GENESIS_HASH))
        seq, digest = seq + 1, chain_hash(previous, seq + 1, entry)
        ends[entry.tenant] = (seq, digest)
        sealed.append(AuditRow(**asdict(entry) | {"seq": seq, "hash": digest}))
    return sealed


def heads_of(sealed: Iterable[AuditRow]) -> list[ChainHead]:
    """Return the new chain heads, sorted by tenant."""
    ends = {row.tenant: ChainHead(tenant=row.tenant, seq=row.seq, hash=row.hash) for row in sealed}
    return [ends[tenant] for tenant in sorted(ends)]


class ChainCheck:
    """Verify one tenant's chain, in order and in parts.

    The first entry is trusted if older ones have been pruned. After a fault the check continues from the stored row, so
    that one change is reported as one fault.
    """

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self.head: ChainHead | None = None
        """Last entry checked."""

    def faults_in(self, rows: Sequence[AuditRow]) -> Iterator[AuditFault]:
        """Yield the faults in the next part of the chain, sorted by sequence number."""
        for row in rows:
            previous = self.head.hash if self.head is not None else GENESIS_HASH if row.seq == 1 else None
            if self.head is not None and row.seq != self.head.seq + 1:
                missing = row.seq - self.head.seq - 1
                why = f"entries missing before it: {missing}" if missing > 0 else "duplicate sequence number"
                yield self._fault(row, why)
            elif previous is not None and chain_hash(previous, row.seq, row) != row.hash:
                yield self._fault(row, "differs from what was sealed")
            self.head = ChainHead(tenant=self._tenant, seq=row.seq, hash=row.hash)

    def fault_at_end(self, head: ChainHead) -> AuditFault | None:
        """Return the fault if the chain does not end in this head or continue from it."""
        found = self.head
        if found is None or found.seq < head.seq:
            return AuditFault(tenant=self._tenant, seq=head.seq, id="", why="the end of the chain is missing")
        if found.seq == head.seq and found.hash != head.hash:
            return AuditFault(tenant=self._tenant, seq=head.seq, id="", why="the chain was rewritten")
        return None

    def _fault(self, row: AuditRow, why: str) -> AuditFault:
        return AuditFault(tenant=self._tenant, seq=row.seq, id=row.id, why=why)
