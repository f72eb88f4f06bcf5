"""`mainspring audit`: list the audit log, and verify its hash chains on the client, without trusting the server."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import rich_click as click

from mainspring.cli.options import ResourceGroup
from mainspring.cli.render import terminal
from mainspring.cli.render.output import print_rows
from mainspring.cli.render.tables import AUDIT, AUDIT_FAULTS, CHAINS, HEADS
from mainspring.cli.resource import Listing, Session, listing, with_table_session
from mainspring.core.model.audit_entry import AuditFault, AuditRow, ChainCheck, ChainHead
from mainspring.protocol.errors import InvalidFile
from mainspring.protocol.rest.admin import AuditFaultView, AuditView, HeadView, VerificationView

if TYPE_CHECKING:
    from mainspring.client.client import Client

_FAULTS_FOUND = 1


@click.group("audit", cls=ResourceGroup)
@click.option("--actor", metavar="NAME", help="Filter by actor: token:etl-bot, local, attempt:att_..")
@click.option("--action", metavar="NAME", help="Filter by action, such as cancel_run.")
@click.option("--object", "object", metavar="ID", help="Filter by the id of the object.")
@click.option("--from", "since", metavar="TIME", help="Only entries at or after this time.")
@click.option("--to", "before", metavar="TIME", help="Only entries before this time.")
@listing(50)
def audit(
    session: Session, since: str | None, before: str | None, limit: int, **filters: str | None
) -> Listing[AuditView]:
    """List the audit log, newest first; `verify` checks its integrity.

    \b
    Examples:
      mainspring audit --action cancel_run --from 2026-11-15
      mainspring audit --object run_018f3c2e9a41-9d2c44e1f0a7b35c -o wide
      mainspring audit verify
    """
    start, end = session.time(since, "--from"), session.time(before, "--to")
    return AUDIT, lambda: session.client.audit(**filters, since=start, before=end, limit=limit)


@audit.command("heads")
@with_table_session
def heads(session: Session) -> None:
    """List the head of each tenant's hash chain.

    Store them elsewhere for `audit verify --against`.

    \b
    Examples:
      mainspring audit heads -o json > heads.json
    """
    session.print_rows(session.client.audit_heads(), HEADS)


@audit.command("verify")
@click.option(
    "--against", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Stored output of `audit heads -o json` to compare with.",
)  # fmt: skip
@with_table_session
def verify(session: Session, against: Path | None) -> None:
    """Verify the audit log against its hash chains.

    Exits with 1 if the log was changed. Entries are checked on the client, in the chains of all tenants and of the
    installation (*), or in one chain with --tenant. --against also detects a log that was truncated or rewritten.

    \b
    Examples:
      mainspring audit verify
      mainspring audit verify --tenant acme --against heads.json
    """
    kept = [] if against is None else read_heads(against)
    chains = check_chains(session.client, kept)
    session.print_rows(chains, CHAINS)
    faults = [fault for chain in chains for fault in chain.faults]
    if faults and session.printing.is_human_readable:
        click.echo()
        print_rows(faults, AUDIT_FAULTS, replace(session.printing, columns=(), sort=None))
    if faults:
        sys.exit(_FAULTS_FOUND)


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
        return VerificationView(
            tenant=self._tenant,
            entries=self.entries,
            first_seq=self._first_seq,
            head=msgspec.convert(self._check.head, HeadView | None, from_attributes=True),
            faults=msgspec.convert(self._faults, list[AuditFaultView], from_attributes=True),
        )

    def _check_heads(self, *, before: int | None) -> None:
        """Compare the chain with the heads before a sequence number, or with all remaining ones."""
        while self._heads and (before is None or self._heads[0][0] < before):
            seq, digest = self._heads.pop(0)
            head = ChainHead(tenant=self._tenant, seq=seq, hash=digest)
            self._faults += filter(None, [self._check.fault_at_end(head)])


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
