"""Verify the hash chains of the audit log on the client, without trusting the server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainspring.cli.render import terminal
from mainspring.core.model.audit_entry import AuditFault, AuditRow, ChainCheck, ChainHead
from mainspring.protocol.errors import InvalidFile
from mainspring.protocol.rest.admin import AuditFaultView, AuditView, HeadView, VerificationView

if TYPE_CHECKING:
    from mainspring.client.client import Client


def read_heads(path: Path) -> list[HeadView]:
    """Read stored heads: a JSON list or JSON Lines. Raises InvalidFile."""
    text = path.read_bytes()
    try:
        if text.lstrip().startswith(b"["):
            return msgspec.json.decode(text, type=list[HeadView])
        return msgspec.json.Decoder(HeadView).decode_lines(text)
    except msgspec.DecodeError as error:
        raise InvalidFile(f"{path}: must be the output of `audit heads -o json`: {error}") from error


def check_chains(client: Client, kept: Sequence[HeadView]) -> list[VerificationView]:
    """Verify every chain, or only that of the client's tenant.

    The server's heads are read first, so each chain must reach at least them, and also the stored heads.
    """
    ends = [head for head in (*client.audit_heads(), *kept) if client.tenant in {None, head.tenant}]
    tenants = sorted({head.tenant for head in ends})
    total = sum(max(head.seq for head in ends if head.tenant == tenant) for tenant in tenants)
    checked = []
    with terminal.progress_bar("checking", total) as advance:
        done = 0
        for tenant in tenants:
            chain = _Chain(tenant, [head for head in ends if head.tenant == tenant])
            for part in client.audit_chain(tenant):
                chain.add_page(part)
                advance(done + chain.entries)
            done += chain.entries
            checked.append(chain.result())
    return checked


class _Chain:
    """Verification of one chain from its first entry to its end, past the known heads."""

    def __init__(self, tenant: str, heads: Iterable[HeadView]) -> None:
        self._tenant = tenant
        self._check = ChainCheck(tenant)
        self._heads = sorted({(head.seq, head.hash) for head in heads})
        self._faults: list[AuditFault] = []
        self._first_seq = 0
        self.entries = 0

    def add_page(self, part: Sequence[AuditView]) -> None:
        """Check the next page of entries."""
        rows = [_row(entry) for entry in part]
        self.entries += len(rows)
        if not self._first_seq:
            self._first_seq = rows[0].seq
            # Heads before the oldest retained entry can't be verified any more.
            self._heads = [head for head in self._heads if head[0] >= self._first_seq]
        for row in rows:
            self._check_heads(before=row.seq)
            self._faults += self._check.faults_in([row])

    def result(self) -> VerificationView:
        """Return the result."""
        self._check_heads(before=None)
        end = self._check.head
        return VerificationView(
            tenant=self._tenant,
            entries=self.entries,
            first_seq=self._first_seq,
            head=None if end is None else HeadView(tenant=end.tenant, seq=end.seq, hash=end.hash),
            faults=[AuditFaultView(tenant=one.tenant, seq=one.seq, id=one.id, why=one.why) for one in self._faults],
        )

    def _check_heads(self, *, before: int | None) -> None:
        """Compare the chain with the heads before a sequence number, or with all remaining ones."""
        for seq, digest in self._pop_heads(before):
            head = ChainHead(tenant=self._tenant, seq=seq, hash=digest)
            self._faults += filter(None, [self._check.fault_at_end(head)])

    def _pop_heads(self, before: int | None) -> Iterator[tuple[int, str]]:
        while self._heads and (before is None or self._heads[0][0] < before):
            yield self._heads.pop(0)


def _row(entry: AuditView) -> AuditRow:
    """Return an entry in its sealed form."""
    return AuditRow(
        id=entry.id, at=entry.at, tenant=entry.tenant, actor=entry.actor, source=entry.source, action=entry.action,
        object=entry.object, why=entry.why, before=_side(entry.before), after=_side(entry.after), seq=entry.seq,
        hash=entry.hash,
    )  # fmt: skip


def _side(raw: msgspec.Raw) -> str | None:
    text = bytes(raw).decode()
    return None if text == "null" else text
