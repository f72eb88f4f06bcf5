# Generated from aio/client_sharing.py by tools/sync_client.py: edit that file, then run `make client`.
"""Client methods for sharing: pools, policies, quotas, grants, groups, freezes, usage."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.client.api_calls import Calls
from mainspring.protocol.rest.runs import ActionResult
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
    """Pools, quotas and limits."""

    # pools, and the policies that pin work to them

    def pools(self, *, limit: int | None = None) -> Iterator[PoolView]:
        """List the pools, by name."""
        return self._list("/pools", PoolView, {}, limit)

    def pool_named(self, name: str) -> PoolView:
        """Get a pool."""
        return self._get(f"/pools/{name}", PoolView)

    def put_pool(self, name: str, request: PoolRequest, *, if_match: int | None = None) -> PoolView:
        """Create or update a pool. Raises VersionMismatch if `if_match` is set and not its version."""
        return self._put(f"/pools/{name}", request, PoolView, version=if_match)

    def policies(self, *, limit: int | None = None) -> Iterator[PolicyView]:
        """List the policies, by name."""
        return self._list("/policies", PolicyView, {}, limit)

    def put_policy(self, name: str, request: PolicyRequest, *, if_match: int | None = None) -> PolicyView:
        """Create or update a policy. Raises VersionMismatch if `if_match` is set and not its version."""
        return self._put(f"/policies/{name}", request, PolicyView, version=if_match)

    def drop_policy(self, name: str, why: str = "", *, if_match: int | None = None) -> ActionResult:
        """Delete a policy."""
        return self._delete(f"/policies/{name}", why, version=if_match)

    # quotas

    def quotas(self, *, tenant: str | None = None, limit: int | None = None) -> Iterator[QuotaView]:
        """List the quotas, by tenant and pool; `tenant` defaults to the client's, if it has one."""
        return self._list("/quotas", QuotaView, self._of_tenant(tenant), limit)

    def quota(self, tenant: str, pool: str = "") -> QuotaView:
        """Get a tenant's quota in a pool, or its default quota; version 0 if none is set."""
        return self._get(f"/tenants/{tenant}/quota", QuotaView, {"pool": pool or None})

    def put_quota(
        self, tenant: str, request: QuotaRequest, pool: str = "", *, if_match: int | None = None
    ) -> QuotaView:
        """Set a tenant's quota. Raises VersionMismatch if `if_match` is set and not its version."""
        params = {"pool": pool or None}
        return self._put(f"/tenants/{tenant}/quota", request, QuotaView, version=if_match, params=params)

    def raise_quota(self, tenant: str, request: RaiseRequest, pool: str = "") -> QuotaView:
        """Raise a quota temporarily, replacing an earlier raise."""
        params = {"pool": pool or None}
        return self._post(f"/tenants/{tenant}/quota/raise", request, QuotaView, repeatable=True, params=params)

    def end_raise(self, tenant: str, pool: str = "", why: str = "") -> ActionResult:
        """End a temporary quota raise."""
        return self._delete(f"/tenants/{tenant}/quota/raise", why, params={"pool": pool or None})

    def put_booking(self, tenant: str, name: str, request: BookingRequest, pool: str = "") -> QuotaView:
        """Create or replace a booking: a higher guarantee for a tenant at recurring times."""
        params = {"pool": pool or None}
        return self._put(f"/tenants/{tenant}/quota/bookings/{name}", request, QuotaView, params=params)

    def drop_booking(self, tenant: str, name: str, pool: str = "", why: str = "") -> ActionResult:
        """Delete a booking."""
        return self._delete(f"/tenants/{tenant}/quota/bookings/{name}", why, params={"pool": pool or None})

    def drop_quota(self, tenant: str, pool: str = "", why: str = "", *, if_match: int | None = None) -> ActionResult:
        """Delete a quota: the default applies."""
        return self._delete(f"/tenants/{tenant}/quota", why, version=if_match, params={"pool": pool or None})

    # P0 grants

    def p0_grants(self, *, limit: int | None = None) -> Iterator[GrantView]:
        """List the P0 grants, by tenant."""
        return self._list("/p0-grants", GrantView, self._of_tenant(), limit)

    def grant_p0(self, tenant: str, request: GrantRequest) -> GrantView:
        """Grant P0 to a tenant, replacing an earlier grant."""
        return self._put(f"/tenants/{tenant}/p0-grant", request, GrantView)

    def revoke_p0(self, tenant: str, why: str = "") -> ActionResult:
        """Revoke a tenant's P0 grant."""
        return self._delete(f"/tenants/{tenant}/p0-grant", why)

    # concurrency groups

    def groups(self, *, limit: int | None = None) -> Iterator[GroupView]:
        """List the concurrency groups, by tenant and name."""
        return self._list("/groups", GroupView, self._of_tenant(), limit)

    def group_named(self, name: str, *, tenant: str | None = None) -> GroupView:
        """Get a group; `tenant` defaults to the client's."""
        return self._get(f"/groups/{name}", GroupView, self._of_tenant(tenant))

    def put_group(
        self, name: str, request: GroupRequest, *, tenant: str | None = None, if_match: int | None = None
    ) -> GroupView:
        """Create or update a group; `tenant` defaults to the client's. Raises VersionMismatch for another version."""
        return self._put(f"/groups/{name}", request, GroupView, version=if_match, params=self._of_tenant(tenant))

    def drop_group(self, name: str, why: str = "", *, if_match: int | None = None) -> ActionResult:
        """Delete a group: its limit no longer applies."""
        return self._delete(f"/groups/{name}", why, version=if_match, params=self._of_tenant())

    # freezes

    def freezes(self, *, limit: int | None = None) -> Iterator[FreezeView]:
        """List the freezes."""
        return self._list("/freezes", FreezeView, {}, limit)

    def freeze(self, request: FreezeRequest) -> FreezeView:
        """Freeze a scope: nothing new starts, running tasks continue. Replaces an earlier freeze of the same scope."""
        return self._post("/freezes", request, FreezeView, repeatable=True)

    def unfreeze(self, kind: str, subject: str = "", why: str = "") -> ActionResult:
        """Delete a freeze."""
        return self._delete("/freezes", why, params={"kind": kind, "subject": subject or None})

    # queue and usage

    def queue(self, pool: str | None = None) -> QueueView:
        """Get the queue of a pool: order and reasons; `pool` defaults to the default pool."""
        return self._get("/queue", QueueView, {"pool": pool})

    def use(self, pool: str | None = None, *, limit: int | None = None) -> Iterator[TenantUseView]:
        """List usage and limits of a pool's tenants, largest share first."""
        return self._list("/use", TenantUseView, {"pool": pool}, limit)

    def tenant_use(self, tenant: str, pool: str | None = None) -> TenantUseView:
        """Get usage and limits of a tenant in a pool."""
        return self._get(f"/tenants/{tenant}/use", TenantUseView, {"pool": pool})

    def level(self, pool: str | None = None) -> LevelView:
        """Get the degradation level of a pool; without `pool`, of the worst one."""
        return self._get("/level", LevelView, {"pool": pool})
