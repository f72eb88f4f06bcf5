# Made from aio/client_sharing.py by tools/sync_client.py: change that file, then run `make client`.
"""The client's part for who may use what: pools, policies, quotas, grants, groups, freezes, and how things stand."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.client.api_calls import Calls
from mainspring.protocol.rest.runs import Done
from mainspring.protocol.rest.sharing import (
    BookingRequest,
    FreezeRequest,
    FreezeView,
    GrantRequest,
    GrantView,
    GroupRequest,
    GroupView,
    LevelView,
    PolicyRequest,
    PolicyView,
    PoolRequest,
    PoolView,
    QueueView,
    QuotaRequest,
    QuotaView,
    RaiseRequest,
    TenantUseView,
)


class SharingCalls(Calls):
    """How a fleet is shared."""

    # pools, and the policies that pin work to them

    def pools(self, *, limit: int | None = None) -> Iterator[PoolView]:
        """The pools, by name."""
        return self._list("/pools", PoolView, {}, limit)

    def pool_named(self, name: str) -> PoolView:
        """A pool."""
        return self._get(f"/pools/{name}", PoolView)

    def put_pool(self, name: str, wish: PoolRequest, *, if_match: int | None = None) -> PoolView:
        """Describe a pool. Raises Outdated if `if_match` is said, and is not its version."""
        return self._put(f"/pools/{name}", wish, PoolView, version=if_match)

    def policies(self, *, limit: int | None = None) -> Iterator[PolicyView]:
        """The policies, by name."""
        return self._list("/policies", PolicyView, {}, limit)

    def put_policy(self, name: str, wish: PolicyRequest, *, if_match: int | None = None) -> PolicyView:
        """Keep a policy. Raises Outdated if `if_match` is said, and is not its version."""
        return self._put(f"/policies/{name}", wish, PolicyView, version=if_match)

    def drop_policy(self, name: str, why: str = "", *, if_match: int | None = None) -> Done:
        """Take a policy away."""
        return self._delete(f"/policies/{name}", version=if_match, params={"why": why or None})

    # quotas

    def quotas(self, *, tenant: str | None = None, limit: int | None = None) -> Iterator[QuotaView]:
        """The quotas that somebody set, by tenant and pool; without `tenant` those of the client's, if it has one."""
        return self._list("/quotas", QuotaView, {"tenant": tenant or self.tenant}, limit)

    def quota(self, tenant: str, pool: str = "") -> QuotaView:
        """A tenant's quota in a pool, or for every pool that has none of its own; version 0 if nobody set one."""
        return self._get(f"/tenants/{tenant}/quota", QuotaView, {"pool": pool or None})

    def put_quota(self, tenant: str, wish: QuotaRequest, pool: str = "", *, if_match: int | None = None) -> QuotaView:
        """Set a tenant's quota. Raises Outdated if `if_match` is said, and is not its version."""
        params = {"pool": pool or None}
        return self._put(f"/tenants/{tenant}/quota", wish, QuotaView, version=if_match, params=params)

    def raise_quota(self, tenant: str, wish: RaiseRequest, pool: str = "") -> QuotaView:
        """Let another quota hold for a while, in the place of what it was raised to before."""
        params = {"pool": pool or None}
        return self._post(f"/tenants/{tenant}/quota/raise", wish, QuotaView, repeatable=True, params=params)

    def end_raise(self, tenant: str, pool: str = "", why: str = "") -> Done:
        """Let the quota itself hold again."""
        params = {"pool": pool or None, "why": why or None}
        return self._delete(f"/tenants/{tenant}/quota/raise", params=params)

    def put_booking(self, tenant: str, name: str, wish: BookingRequest, pool: str = "") -> QuotaView:
        """Let more be guaranteed to a tenant at recurring times, in the place of what is booked under the same name."""
        params = {"pool": pool or None}
        return self._put(f"/tenants/{tenant}/quota/bookings/{name}", wish, QuotaView, params=params)

    def drop_booking(self, tenant: str, name: str, pool: str = "", why: str = "") -> Done:
        """Let what is booked under a name not come any more."""
        params = {"pool": pool or None, "why": why or None}
        return self._delete(f"/tenants/{tenant}/quota/bookings/{name}", params=params)

    def drop_quota(self, tenant: str, pool: str = "", why: str = "", *, if_match: int | None = None) -> Done:
        """Take a quota away: what is usual holds."""
        params = {"pool": pool or None, "why": why or None}
        return self._delete(f"/tenants/{tenant}/quota", version=if_match, params=params)

    # who may ask for P0

    def p0_grants(self, *, limit: int | None = None) -> Iterator[GrantView]:
        """Who may ask for P0, by tenant."""
        return self._list("/p0-grants", GrantView, self._of_tenant(), limit)

    def grant_p0(self, tenant: str, wish: GrantRequest) -> GrantView:
        """Let a tenant ask for P0, in the place of an earlier grant."""
        return self._put(f"/tenants/{tenant}/p0-grant", wish, GrantView)

    def revoke_p0(self, tenant: str, why: str = "") -> Done:
        """Let a tenant ask for P0 no more."""
        return self._delete(f"/tenants/{tenant}/p0-grant", params={"why": why or None})

    # groups of work

    def groups(self, *, limit: int | None = None) -> Iterator[GroupView]:
        """Groups of work, by tenant and name."""
        return self._list("/groups", GroupView, self._of_tenant(), limit)

    def group_named(self, name: str, *, tenant: str | None = None) -> GroupView:
        """A group, of this client's tenant unless said."""
        return self._get(f"/groups/{name}", GroupView, {"tenant": tenant or self.tenant})

    def put_group(
        self, name: str, wish: GroupRequest, *, tenant: str | None = None, if_match: int | None = None
    ) -> GroupView:
        """Define a group, of this client's tenant unless said. Raises Outdated if `if_match` is not its version."""
        params = {"tenant": tenant or self.tenant}
        return self._put(f"/groups/{name}", wish, GroupView, version=if_match, params=params)

    def drop_group(self, name: str, why: str = "", *, if_match: int | None = None) -> Done:
        """Take a group away: it limits nothing any more."""
        params = {**self._of_tenant(), "why": why or None}
        return self._delete(f"/groups/{name}", version=if_match, params=params)

    # freezes

    def freezes(self, *, limit: int | None = None) -> Iterator[FreezeView]:
        """What is frozen."""
        return self._list("/freezes", FreezeView, {}, limit)

    def freeze(self, wish: FreezeRequest) -> FreezeView:
        """Let nothing new of something start, in the place of an earlier freeze of the same; what runs goes on."""
        return self._post("/freezes", wish, FreezeView, repeatable=True)

    def unfreeze(self, kind: str, subject: str = "", why: str = "") -> Done:
        """Let it go on."""
        return self._delete("/freezes", params={"kind": kind, "subject": subject or None, "why": why or None})

    # how things stand

    def queue(self, pool: str | None = None) -> QueueView:
        """What waits in a pool, in which order, and for what; without `pool` in the one where runs usually go."""
        return self._get("/queue", QueueView, {"pool": pool})

    def use(self, pool: str | None = None, *, limit: int | None = None) -> Iterator[TenantUseView]:
        """Who uses how much of a pool, and may, the largest share first."""
        return self._list("/use", TenantUseView, {"pool": pool}, limit)

    def tenant_use(self, tenant: str, pool: str | None = None) -> TenantUseView:
        """What one tenant uses of a pool, and may."""
        return self._get(f"/tenants/{tenant}/use", TenantUseView, {"pool": pool})

    def level(self, pool: str | None = None) -> LevelView:
        """How well a pool can be served; without `pool` the one that is worst."""
        return self._get("/level", LevelView, {"pool": pool})
