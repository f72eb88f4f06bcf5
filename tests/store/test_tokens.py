"""Tokens: stored as a digest, revoked, with their last use."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.protocol.errors import Conflict, Rejected
from mainspring.store.ports.front import TokenRow
from mainspring.store.ports.store import Store
from tests.store.builders import DAY, HOUR, NOW, new_number
from tests.store.conftest import execute


def a_token(**changes: Any) -> TokenRow:
    """A valid token."""
    values: dict[str, Any] = {
        "id": f"tok{new_number()}", "hash": "ab12", "tenant": "acme", "roles": ("submitter", "viewer"),
        "name": "nightly", "created_by": "ann", "created_at": NOW, "expires_at": NOW + DAY,
    }  # fmt: skip
    return TokenRow(**(values | changes))


async def test_a_token_is_found_by_its_public_part_as_it_was_kept(store: Store) -> None:
    plain = a_token()
    used_up = a_token(roles=(), tenant="*", revoked_at=NOW, last_used_at=NOW - HOUR, expires_at=NOW - DAY)
    await store.insert_token(plain)
    await store.insert_token(used_up)

    assert await store.find_token(plain.id) == plain
    assert await store.find_token(used_up.id) == used_up
    assert await store.find_token("unknown") is None


async def test_an_id_that_is_taken_is_a_conflict_and_the_first_token_stays(store: Store) -> None:
    first = a_token()
    await store.insert_token(first)

    with pytest.raises(Conflict):
        await store.insert_token(msgspec.structs.replace(first, hash="cd34"))

    assert await store.find_token(first.id) == first


async def test_the_same_token_again_changes_nothing(store: Store) -> None:
    token = a_token()
    await store.insert_token(token)
    await store.revoke_token(token.id)
    revoked = await store.find_token(token.id)

    await store.insert_token(token)

    assert await store.find_token(token.id) == revoked


async def test_a_role_that_no_store_takes_is_rejected(store: Store) -> None:
    with pytest.raises(Rejected):
        await store.insert_token(a_token(roles=("a\0b",)))

    assert await store.list_tokens(None) == []


async def test_tokens_are_listed_by_creation_of_one_tenant_or_of_everybody(store: Store) -> None:
    second = a_token(created_at=NOW + HOUR)
    first = a_token()
    other = a_token(tenant="other", created_at=NOW + 2 * HOUR)
    for token in (other, second, first):
        await store.insert_token(token)

    assert await store.list_tokens("acme") == [first, second]
    assert await store.list_tokens(None) == [first, second, other]
    assert await store.list_tokens("nobody") == []


async def test_at_most_1000_tokens_are_listed(store: Store) -> None:
    await store.insert_token(a_token(id="t1000"))
    rest = ", ".join(TokenRow.__struct_fields__[1:])
    copies = f"""
        INSERT INTO tokens (id, {rest}) WITH RECURSIVE numbers (n) AS (
            SELECT 1001 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2001
        ) SELECT 't' || n, {rest} FROM numbers, tokens RETURNING id"""
    assert len(await execute(store, copies)) == 1001

    assert [token.id for token in await store.list_tokens(None)] == [f"t{number}" for number in range(1000, 2000)]


async def test_a_token_is_ended_once_by_the_stores_clock(store: Store) -> None:
    token = a_token()
    await store.insert_token(token)
    before = await store.time()

    assert await store.revoke_token(token.id)
    found = await store.find_token(token.id)
    assert found is not None
    assert found.revoked_at is not None
    assert before <= found.revoked_at <= await store.time()

    assert not await store.revoke_token(token.id)
    assert await store.find_token(token.id) == found


async def test_a_token_that_is_not_there_can_not_be_ended(store: Store) -> None:
    assert not await store.revoke_token("unknown")


async def test_use_is_noted_for_these_tokens_and_no_other(store: Store) -> None:
    tokens = [a_token() for _ in range(3)]
    for token in tokens:
        await store.insert_token(token)
    before = await store.time()

    await store.token_used([tokens[0].id, tokens[2].id, "unknown"])

    first, second, third = [await store.find_token(token.id) for token in tokens]
    assert first is not None
    assert third is not None
    assert first.last_used_at is not None
    assert before <= first.last_used_at <= await store.time()
    assert third.last_used_at is not None
    assert second == tokens[1]
