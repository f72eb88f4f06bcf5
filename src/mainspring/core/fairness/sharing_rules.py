"""All rules of operators about who may use what, as one shard needs them.

The host reads them from the store and sends them to the shard as one event (`RulesChanged`) whenever any of them
changes. They apply from the next turn on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.fairness.pools import Policy, PoolRow, blocking_policy
from mainspring.core.fairness.quotas import DEFAULT_QUOTA, P0Grant, Quota, QuotaRow
from mainspring.core.limits.concurrency_groups import GroupRow


class AllRules(msgspec.Struct, frozen=True, kw_only=True):
    """All rows of the store, and a version that each change increments."""

    version: int = 0
    pools: Sequence[PoolRow] = ()
    policies: Sequence[Policy] = ()
    quotas: Sequence[QuotaRow] = ()
    grants: Sequence[P0Grant] = ()
    groups: Sequence[GroupRow] = ()
    freezes: Sequence[FreezeRow] = ()

    def granted_p0(self, tenant: str, now: datetime) -> bool:
        """Return whether a tenant may use P0."""
        return any(grant.tenant == tenant and grant.holds_at(now) for grant in self.grants)


class SharingRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one shard."""

    version: int = 0
    pool: PoolRow | None = None
    policies: Sequence[Policy] = ()
    quotas: Mapping[str, QuotaRow] = {}
    """By tenant: its own for this pool, or the one for every pool."""
    groups: Mapping[str, GroupRow] = {}
    """By limit (`GroupRow.limit`)."""
    freezes: Sequence[FreezeRow] = ()
    grants: Mapping[str, P0Grant] = {}
    """P0 grants, by tenant."""

    def granted_p0(self, tenant: str, now: datetime) -> bool:
        """Return whether a tenant may use P0."""
        grant = self.grants.get(tenant)
        return grant is not None and grant.holds_at(now)

    def quota(self, tenant: str, now: datetime) -> Quota:
        """The quota of a tenant here, at an instant."""
        row = self.quotas.get(tenant)
        return DEFAULT_QUOTA if row is None else row.at(now)

    def weight(self, tenant: str) -> float:
        """The weight of a tenant, without temporary quotas."""
        row = self.quotas.get(tenant)
        return DEFAULT_QUOTA.weight if row is None else row.quota.weight

    def freeze(self, tenant: str, job: str, now: datetime) -> FreezeRow | None:
        """The freeze that applies to a tenant's job here, if any."""
        subjects = {FreezeKind.TENANT: tenant, FreezeKind.JOB: f"{tenant}/{job}"}
        for row in self.freezes:
            if row.holds_at(now) and row.kind in subjects and row.subject == subjects[row.kind]:
                return row
        return self.freeze_of_all(now)

    def freeze_of_all(self, now: datetime) -> FreezeRow | None:
        """The freeze that applies to everything here, if any. Those of other pools are not among the rows."""
        whole = (FreezeKind.ALL, FreezeKind.POOL)
        return next((row for row in self.freezes if row.kind in whole and row.holds_at(now)), None)

    def forbids(self, labels: Mapping[str, str]) -> Policy | None:
        """The policy that keeps jobs with these labels out of this pool (ADM-8)."""
        return blocking_policy(self.policies, labels, self.pool)


NO_RULES = SharingRules()


def rules_for(pool: str, rules: AllRules) -> SharingRules:
    """Select the rules of a pool's shard."""
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
