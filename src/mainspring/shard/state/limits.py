"""Limits of a shard: sharing rules, group limits, failure budgets and throttles, retry rate, circuit breakers.

1. `frozen_jobs`, `frozen_tenants`, `guaranteed_tenants` and `zones` are derived from `rules`, and change with them.
2. A throttle exists only for a tenant that exceeded its failure budget at the last check.
3. A change of settings starts all token buckets anew.
"""

from __future__ import annotations

import msgspec

from mainspring.core.fairness.freezes import FreezeKind
from mainspring.core.fairness.sharing_rules import NO_RULES, SharingRules
from mainspring.core.lifecycle.circuit_breakers import JobBreakers, SignatureBreakers
from mainspring.core.limits.failure_budget import FailureCounts
from mainspring.core.limits.retry_rate import RetryRateLimiter
from mainspring.core.limits.token_bucket import TokenBucket
from mainspring.core.model.settings import SchedulerSettings
from mainspring.shard.state.limit_ledger import LimitLedger


class Throttle(msgspec.Struct, kw_only=True):
    """Start rate of a tenant that is over its failure budget."""

    bucket: TokenBucket
    due: float = 0.0
    """When a timer checks it again, in shard time."""


class Limits:
    """What limits the starts and retries of tasks, besides capacity."""

    def __init__(self, settings: SchedulerSettings) -> None:
        self.ledger = LimitLedger()
        self.failures = FailureCounts()
        self.throttles: dict[str, Throttle] = {}
        """By tenant, for those over their failure budget."""
        self.retries = RetryRateLimiter(settings.retries_per_second, settings.same_signature_retries_per_second)
        self.signature_breakers = SignatureBreakers()
        self.job_breakers = JobBreakers()
        self.set_rules(NO_RULES)

    def set_rules(self, rules: SharingRules) -> None:
        """Replace the sharing rules. The effects on waiting tasks are in `shard/placement/rule_changes.py`."""
        self.rules = rules
        self.guaranteed_tenants = frozenset(tenant for tenant, row in rules.quotas.items() if row.may_have_guarantee())
        """Tenants with a guarantee, now or at another time."""
        self.frozen_jobs = {row.subject: row for row in rules.freezes if row.kind is FreezeKind.JOB}
        self.frozen_tenants = {row.subject: row for row in rules.freezes if row.kind is FreezeKind.TENANT}
        self.zones = () if rules.pool is None else rules.pool.zones
        """Zones whose workers get work; empty: all."""

    def apply_settings(self, settings: SchedulerSettings) -> None:
        """Apply changed settings."""
        self.retries.retune(settings.retries_per_second, settings.same_signature_retries_per_second)
        self.throttles.clear()
