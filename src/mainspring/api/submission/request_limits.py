"""Charges requests to the rate limits (ADM-4), by the current settings.

A bulk request counts as one submission per RUNS_PER_SUBMISSION runs, in total and per tenant (`RunCharges`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from starlette.requests import Request

from mainspring.api.auth.principal import DEFAULT_TENANT, Principal
from mainspring.api.submission.admission import counted
from mainspring.api.submission.rate_limits import (
    RUNS_PER_SUBMISSION,
    RateClass,
    RateLimiter,
    action_charge,
    query_charge,
    submission_charges,
)
from mainspring.api.submission.submission import Submissions
from mainspring.core.admission.validate_job import NAME
from mainspring.core.admission.validate_submission import MAX_KEY_LENGTH
from mainspring.host.config.settings import Settings
from mainspring.protocol.rest.runs import RunRequest
from mainspring.telemetry.metrics import Metrics, RefusalReason

RunKind = tuple[str, str, str]
"""Tenant, job and priority of a run, as requested."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Charges the requests of one server. Every method raises Overloaded."""

    rate_limiter: RateLimiter
    settings: Settings
    submissions: Submissions
    metrics: Metrics

    async def charge(self, request: Request, principal: Principal, rate_class: RateClass) -> None:
        """Charge a query or an action. Requests of attempts, and other classes, are exempt."""
        if principal.attempt is not None or rate_class not in {RateClass.QUERY, RateClass.ACTION}:
            return
        settings = self.settings.scheduler_settings
        is_query = rate_class is RateClass.QUERY
        charge = query_charge(settings, principal.tenant) if is_query else action_charge(settings, principal.name)
        await self.rate_limiter.admit(_client_key(request, principal), [charge])

    async def charge_submission(
        self, request: Request, principal: Principal, *, tenant: object, job: str, priority: str
    ) -> None:
        """Charge one submission to the requested tenant."""
        charged = _charged_tenant(principal, tenant)
        await self._charge_runs(request, principal, [(charged, job, priority)], {charged: 1}, 1)

    def runs_of(self, request: Request, principal: Principal) -> RunCharges:
        """Return the charges of a bulk request."""
        return RunCharges(self, request, principal)

    async def _charge_runs(
        self, request: Request, principal: Principal, kinds: Iterable[RunKind], per_tenant: Mapping[str, int],
        total: int,
    ) -> None:  # fmt: skip
        part = min((self.submissions.part(*kind) for kind in kinds), default=1.0)
        settings = self.settings.scheduler_settings
        charges = submission_charges(settings, principal.name, per_tenant, total=total, part=part)
        if charges:
            with counted(self.metrics, RefusalReason.RATE):
                await self.rate_limiter.admit(_client_key(request, principal), charges)


class RunCharges:
    """The charges of one bulk request."""

    def __init__(self, limits: RequestLimits, request: Request, principal: Principal) -> None:
        self._limits = limits
        self._request = request
        self._principal = principal
        self._prepaid: Counter[str] = Counter()
        """Runs already charged for, by tenant."""
        self._prepaid_total = 0

    async def add(self, run_requests: Iterable[RunRequest]) -> None:
        """Charge these runs. Raises Overloaded, and then none is charged."""
        kinds = Counter((_charged_tenant(self._principal, one.tenant), one.job, one.priority) for one in run_requests)
        runs: Counter[str] = Counter()
        for (tenant, _, _), number in kinds.items():
            runs[tenant] += number
        per_tenant = {tenant: _submission_count(number - self._prepaid[tenant]) for tenant, number in runs.items()}
        total = _submission_count(runs.total() - self._prepaid_total)
        await self._limits._charge_runs(self._request, self._principal, kinds, per_tenant, total)
        self._prepaid_total += total * RUNS_PER_SUBMISSION - runs.total()
        for tenant, number in runs.items():
            self._prepaid[tenant] += per_tenant[tenant] * RUNS_PER_SUBMISSION - number


def _submission_count(runs: int) -> int:
    """Return the number of submissions that runs count as."""
    return max(0, ceil(runs / RUNS_PER_SUBMISSION))


def _charged_tenant(principal: Principal, requested: object) -> str:
    """Return the tenant that a submission is charged to, valid or not."""
    if not principal.sees_all_tenants():
        return principal.tenant
    return requested if isinstance(requested, str) and NAME.fullmatch(requested) else DEFAULT_TENANT


def _client_key(request: Request, principal: Principal) -> str:
    """Return the identity of a client for rate limits, stable across retries; several clients may share one principal.

    The idempotency key identifies a retried request; without it the connection does.
    """
    key = request.headers.get("Idempotency-Key", "")
    if 1 <= len(key) <= MAX_KEY_LENGTH:
        return f"{principal.name} {key}"
    client = request.client
    return principal.name if client is None else f"{principal.name} {client.host}:{client.port}"
