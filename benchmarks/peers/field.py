"""All measured systems: ours first, then the other required ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from benchmarks.peers.field_brokers import BROKERS
from benchmarks.peers.field_ours import OURS
from benchmarks.peers.field_tables import TABLES
from benchmarks.peers.field_workflows import WORKFLOWS
from benchmarks.peers.peer import Peer


def chosen(only: Collection[str], skip: Collection[str]) -> list[Peer]:
    """Return the selected systems, in the order of measurement.

    Raises ValueError, with a user-facing message, for an unknown name, and if a required system is skipped.
    """
    names = {peer.name for peer in FIELD}
    if unknown := sorted({*only, *skip} - names):
        raise ValueError(f"nobody is called {', '.join(unknown)}; there are {', '.join(sorted(names))}")
    if forced := sorted(peer.name for peer in FIELD if peer.required and peer.name in skip):
        raise ValueError(f"{', '.join(forced)} may not be skipped; to try a part of the run, use --only")
    return [peer for peer in FIELD if (not only or peer.name in only) and peer.name not in skip]


def _in_order(peers: Sequence[Peer]) -> tuple[Peer, ...]:
    """Required systems first: if time runs out, optional ones are not measured."""
    return tuple(sorted(peers, key=lambda peer: not peer.required))


FIELD: tuple[Peer, ...] = (OURS, *_in_order([*TABLES, *BROKERS, *WORKFLOWS]))
