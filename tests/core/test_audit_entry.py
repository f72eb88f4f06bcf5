"""Audit chains: any tampering with a sealed entry is detected and located."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from mainspring.core.model.audit_entry import (
    GENESIS_HASH,
    AuditEntry,
    AuditFault,
    AuditRow,
    ChainCheck,
    ChainHead,
    chain_hash,
    heads_of,
    seal,
)

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def entries(count: int, tenant: str = "acme") -> list[AuditEntry]:
    """Some entries."""
    return [
        AuditEntry(
            id=f"req_{number}", at=NOW + timedelta(seconds=number), tenant=tenant, actor="token:ann",
            source="192.0.2.7", action="cancel_run", object=f"run_{number}", before=None, after="{}",
        )
        for number in range(1, count + 1)
    ]  # fmt: skip


def check(rows: list[AuditRow], part: int = 100) -> list[AuditFault]:
    """Return the faults of a chain that is read in parts."""
    going = ChainCheck("acme")
    return [fault for first in range(0, len(rows), part) for fault in going.faults_in(rows[first : first + part])]


def test_each_entry_is_linked_to_the_previous_one_of_its_tenant() -> None:
    mixed = [entry for pair in zip(entries(3, "a"), entries(3, "b"), strict=True) for entry in pair]

    sealed = seal(mixed, {})

    for tenant in ("a", "b"):
        chain = [row for row in sealed if row.tenant == tenant]
        assert [row.seq for row in chain] == [1, 2, 3]
        assert [row.hash for row in chain] == [
            chain_hash(previous, row.seq, row)
            for previous, row in zip([GENESIS_HASH, chain[0].hash, chain[1].hash], chain, strict=True)
        ]
    assert [(head.tenant, head.seq) for head in heads_of(sealed)] == [("a", 3), ("b", 3)]


@given(st.integers(0, 8))
def test_sealing_in_parts_gives_the_same_chain(stop: int) -> None:
    all_at_once = seal(entries(8), {})

    first = seal(entries(8)[:stop], {})
    second = seal(entries(8)[stop:], {head.tenant: head for head in heads_of(first)})

    assert first + second == all_at_once


@given(st.integers(1, 5))
def test_an_untouched_chain_has_no_faults_in_whatever_parts_it_is_read(part: int) -> None:
    assert check(seal(entries(5), {}), part) == []


def test_a_chain_with_a_pruned_beginning_has_no_faults() -> None:
    assert check(seal(entries(5), {})[2:]) == []


CHANGES: dict[str, Any] = {
    "id": "req_x", "at": NOW, "tenant": "other", "actor": "token:bob", "source": "", "action": "pause_run",
    "object": "run_x", "why": "no", "before": "null", "after": None,
}  # fmt: skip


def test_every_field_is_part_of_the_hash() -> None:
    assert set(CHANGES) == set(AuditEntry.__struct_fields__)


@pytest.mark.parametrize("field", CHANGES)
@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_change_of_any_field_is_located(field: str, place: int) -> None:
    rows = seal(entries(5), {})
    rows[place] = replace(rows[place], **{field: CHANGES[field]})

    assert [(fault.seq, fault.why) for fault in check(rows)] == [(place + 1, "differs from what was sealed")]


def test_text_can_not_be_moved_between_fields() -> None:
    first, second = entries(1)[0], replace(entries(1)[0], actor="token:an", source="n192.0.2.7")

    assert chain_hash(GENESIS_HASH, 1, first) != chain_hash(GENESIS_HASH, 1, second)


@pytest.mark.parametrize("part", [1, 2, 100])
def test_a_missing_entry_is_found(part: int) -> None:
    rows = seal(entries(5), {})
    del rows[2]

    found = check(rows, part)

    assert [(fault.seq, fault.id, fault.why) for fault in found] == [(4, "req_4", "entries missing before it: 1")]


def test_a_duplicate_entry_is_found() -> None:
    rows = seal(entries(3), {})
    rows.insert(2, replace(rows[1], id="req_forged"))

    assert [(fault.id, fault.why) for fault in check(rows)] == [("req_forged", "duplicate sequence number")]


def test_a_truncated_or_rewritten_end_is_found_by_its_head() -> None:
    rows = seal(entries(5), {})
    (head,) = heads_of(rows)
    anew = seal([replace(entry, actor="token:bob") for entry in entries(5)], {})

    for kept, why in (
        (rows, None),
        (rows[:4], "the end of the chain is missing"),
        (anew, "the chain was rewritten"),
    ):
        going = ChainCheck("acme")
        assert list(going.faults_in(kept)) == []
        fault = going.fault_at_end(head)
        assert (fault and fault.why) == why


def test_a_deleted_chain_has_a_missing_end_and_a_longer_chain_is_valid() -> None:
    rows = seal(entries(5), {})
    going = ChainCheck("acme")
    list(going.faults_in(rows))

    assert going.fault_at_end(ChainHead(tenant="acme", seq=3, hash=rows[2].hash)) is None
    gone = ChainCheck("acme").fault_at_end(ChainHead(tenant="acme", seq=3, hash=rows[2].hash))
    assert gone is not None
    assert gone.seq == 3
