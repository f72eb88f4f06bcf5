"""Join tokens and worker identities: limited uses, one name each, and revocation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.protocol.errors import Conflict
from mainspring.store.ports.admin import AuditFilter
from mainspring.store.ports.store import Store
from mainspring.store.ports.workers import IdentityRow, JoinTokenRow
from tests.store.admin_builders import an_entry
from tests.store.builders import DAY, HOUR, NOW, new_number


def a_join_token(**changes: Any) -> JoinTokenRow:
    """A token for one machine."""
    values: dict[str, Any] = {
        "id": f"join{new_number()}", "hash": "ab12", "name": "rack", "pools": ("gpu", "default"), "uses_left": 1,
        "created_by": "ann", "created_at": NOW, "expires_at": NOW + HOUR,
    }  # fmt: skip
    return JoinTokenRow(**(values | changes))


def an_identity(token: JoinTokenRow, **changes: Any) -> IdentityRow:
    """A worker that joined with a token."""
    values: dict[str, Any] = {
        "name": "w1", "key": "k1", "pools": token.pools, "serial": "1f", "join_token": token.id, "enrolled_at": NOW,
        "renewed_at": NOW, "expires_at": NOW + DAY,
    }  # fmt: skip
    return IdentityRow(**(values | changes))


async def given(store: Store, **changes: Any) -> JoinTokenRow:
    """A stored join token."""
    row = a_join_token(**changes)
    await store.insert_join_token(row, an_entry())
    return row


async def entries(store: Store, name: str) -> int:
    """Number of audit entries of this object."""
    return len(await store.list_audit(AuditFilter(object=name), None, 100))


async def test_a_join_token_is_found_and_listed_as_it_was_kept_and_ended_once(store: Store) -> None:
    later, first = await given(store, created_at=NOW + HOUR), await given(store)
    assert await store.find_join_token(first.id) == first
    assert await store.find_join_token("unknown") is None
    assert await store.list_join_tokens() == [first, later]

    assert await store.revoke_join_token(first.id, an_entry(object="ended"))
    assert not await store.revoke_join_token(first.id, an_entry(object="ended"))
    assert not await store.revoke_join_token("unknown", an_entry(object="ended"))

    found = await store.find_join_token(first.id)
    assert found is not None
    assert found.revoked_at is not None
    assert await entries(store, "ended") == 2


async def test_a_token_is_used_as_often_as_it_may_be(store: Store) -> None:
    token = await given(store, uses_left=2)
    assert await store.enroll(an_identity(token), an_entry(object="w1"))
    assert await store.enroll(an_identity(token, name="w2", key="k2"), an_entry(object="w2"))

    assert not await store.enroll(an_identity(token, name="w3", key="k3"), an_entry(object="w3"))

    assert [row.name for row in await store.list_identities("", 10)] == ["w1", "w2"]
    assert [row.name for row in await store.list_identities("w1", 10)] == ["w2"]
    assert [await entries(store, name) for name in ("w1", "w2", "w3")] == [1, 1, 0]


async def test_a_joined_worker_may_ask_again_with_the_same_key(store: Store) -> None:
    token = await given(store)
    await store.enroll(an_identity(token), an_entry())

    assert await store.enroll(an_identity(token, serial="2a"), an_entry())
    assert not await store.enroll(an_identity(token, name="w2"), an_entry())

    found = await store.find_identity("w1")
    assert found == an_identity(token, serial="2a")


@pytest.mark.parametrize(
    "changes", [{"revoked_at": NOW}, {"expires_at": NOW}, {"uses_left": 0}], ids=["revoked", "expired", "used up"]
)
async def test_a_token_that_is_not_good_lets_nobody_join(store: Store, changes: dict[str, Any]) -> None:
    token = await given(store, **changes)

    assert not await store.enroll(an_identity(token), an_entry())

    assert await store.find_identity("w1") is None
    assert await store.find_join_token(token.id) == token


async def test_a_name_is_one_identitys_until_that_is_over(store: Store) -> None:
    token = await given(store, uses_left=9)
    await store.enroll(an_identity(token), an_entry())
    thief = an_identity(token, key="k2")

    with pytest.raises(Conflict):
        await store.enroll(thief, an_entry(object="theft"))

    assert await store.find_identity("w1") == an_identity(token)
    assert await entries(store, "theft") == 0
    left = await store.find_join_token(token.id)
    assert left is not None
    assert left.uses_left == 8, "who was refused has used nothing"
    late = replace(thief, enrolled_at=NOW + DAY, expires_at=NOW + 2 * DAY)
    late_token = await given(store, expires_at=NOW + 3 * DAY)
    assert await store.enroll(replace(late, join_token=late_token.id), an_entry())


async def test_a_key_that_was_revoked_never_comes_back(store: Store) -> None:
    token = await given(store, uses_left=9)
    await store.enroll(an_identity(token), an_entry())
    assert await store.revoke_identity("w1", an_entry())
    assert not await store.revoke_identity("w1", an_entry())
    assert not await store.revoke_identity("unknown", an_entry())

    with pytest.raises(Conflict):
        await store.enroll(an_identity(token), an_entry())
    assert not await store.renew_identity(an_identity(token, serial="2a"), an_entry())

    assert await store.enroll(an_identity(token, key="k2"), an_entry())
    assert not await store.renew_identity(an_identity(token, serial="2a"), an_entry())
    found = await store.find_identity("w1")
    assert found == an_identity(token, key="k2")


async def test_a_renewal_changes_the_certificate_and_nothing_else(store: Store) -> None:
    token = await given(store)
    row = an_identity(token)
    await store.enroll(row, an_entry())
    renewed = replace(row, serial="2a", renewed_at=NOW + HOUR, expires_at=NOW + 2 * DAY)

    assert await store.renew_identity(replace(renewed, pools=("everything",)), an_entry(object="renewed"))
    assert not await store.renew_identity(replace(renewed, key="k2"), an_entry(object="renewed"))

    assert await store.find_identity("w1") == renewed
    assert await entries(store, "renewed") == 1


async def test_machines_that_join_at_once_share_what_a_token_has(store: Store) -> None:
    token = await given(store, uses_left=3)

    joined = await asyncio.gather(
        *(store.enroll(an_identity(token, name=f"w{n}", key=f"k{n}"), an_entry()) for n in range(8))
    )

    assert sum(joined) == 3
    assert len(await store.list_identities("", 10)) == 3
