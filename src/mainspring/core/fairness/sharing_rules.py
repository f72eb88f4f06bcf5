"""Everything that people have decided about who may use what, as one shard needs it.

The host reads it from the store and gives it to the shard as an event (`Ruled`), whole, whenever something of it is
another: from the next turn on the shard goes by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.fairness.pools import Policy, PoolRow, hindering
from mainspring.core.fairness.quotas import USUAL_QUOTA, P0Grant, Quota, QuotaRow
from mainspring.core.limits.concurrency_groups import GroupRow


class AllRules(msgspec.Struct, frozen=True, kw_only=True):
    """All rows, as the store has them, and the number that each change of any of them adds to."""

    version: int = 0
    pools: Sequence[PoolRow] = ()
    policies: Sequence[Policy] = ()
    quotas: Sequence[QuotaRow] = ()
    grants: Sequence[P0Grant] = ()
    groups: Sequence[GroupRow] = ()
    freezes: Sequence[FreezeRow] = ()

    def granted_p0(self, tenant: str, now: datetime) -> bool:
        """Whether a tenant may ask for P0."""
        return any(grant.tenant == tenant and grant.holds_at(now) for grant in self.grants)


class SharingRules(msgspec.Struct, frozen=True, kw_only=True):
    """What one shard goes by."""

    version: int = 0
    pool: PoolRow | None = None
    policies: Sequence[Policy] = ()
    quotas: Mapping[str, QuotaRow] = {}
    """By tenant: its own for this pool, or the one for every pool."""
    groups: Mapping[str, GroupRow] = {}
    """By limit (`GroupRow.limit`)."""
    freezes: Sequence[FreezeRow] = ()
    grants: Mapping[str, P0Grant] = {}
    """Of P0, by tenant."""

    def granted_p0(self, tenant: str, now: datetime) -> bool:
        """Whether a tenant may have P0."""
        grant = self.grants.get(tenant)
        return grant is not None and grant.holds_at(now)

    def quota(self, tenant: str, now: datetime) -> Quota:
        """What a tenant may use here, at an instant."""
        row = self.quotas.get(tenant)
        return USUAL_QUOTA if row is None else row.at(now)

    def weight(self, tenant: str) -> float:
        """The weight of a tenant, but for what was raised for a while."""
        row = self.quotas.get(tenant)
        return USUAL_QUOTA.weight if row is None else row.quota.weight

    def freeze(self, tenant: str, job: str, now: datetime) -> FreezeRow | None:
        """What keeps runs of a tenant's job from starting anything here, if something does."""
        subjects = {FreezeKind.TENANT: tenant, FreezeKind.JOB: f"{tenant}/{job}"}
        for row in self.freezes:
            if row.holds_at(now) and row.kind in subjects and row.subject == subjects[row.kind]:
                return row
        return self.freeze_of_all(now)

    def freeze_of_all(self, now: datetime) -> FreezeRow | None:
        """What keeps everything here from starting, if something does. Those of other pools are not among the rows."""
        whole = (FreezeKind.ALL, FreezeKind.POOL)
        return next((row for row in self.freezes if row.kind in whole and row.holds_at(now)), None)

    def forbids(self, labels: Mapping[str, str]) -> Policy | None:
        """The policy that keeps jobs with these labels out of this pool (ADM-8)."""
        return hindering(self.policies, labels, self.pool)


NO_RULES = SharingRules()


def rules_for(pool: str, rules: AllRules) -> SharingRules:
    """What the shard of a pool goes by."""
    quotas = {row.tenant: row for row in rules.quotas if row.pool == ""}
    quotas |= {row.tenant: row for row in rules.quotas if row.pool == pool}
    return SharingRules(
        version=rules.version,
        pool=next((row for row in rules.pools if row.name == pool), None),
        policies=tuple(rules.policies),
        quotas=quotas,
        groups={row.limit: row for row in rules.groups},
        freezes=tuple(row for row in rules.freezes if row.kind is not FreezeKind.POOL or row.subject == pool),
        grants={grant.tenant: grant for grant in rules.grants},
    )
