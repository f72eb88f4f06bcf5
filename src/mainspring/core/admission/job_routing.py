"""Routing: the pool of a job's runs, and whether they may be submitted at all (ADM-1, ADM-3, ADM-8).

Evaluated when a job is submitted, for each run, and when a schedule is saved or fires: the result changes with pools,
policies and grants.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

import msgspec

from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults, Limits
from mainspring.core.fairness.pools import Policy, PoolRow, choose_pool, read_labels
from mainspring.core.fairness.sharing_rules import AllRules, SharingRules
from mainspring.core.model.job import DEFAULT_RESOURCES, JobRow, JobSpec
from mainspring.core.model.resources import Resources, largest_of
from mainspring.core.model.task import Priority
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Fault

_POOLS_NAMED = 10


class JobRequirements(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Properties of a job that decide its route."""

    pool: str | None = None
    labels: Mapping[str, str] = {}
    largest: Resources = DEFAULT_RESOURCES
    """Maximum of each resource over its tasks."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Pool of a run, or why there is none."""

    pool: str
    faults: tuple[Fault, ...] = ()


class _Sized(msgspec.Struct, frozen=True, gc=False):
    resources: Resources = DEFAULT_RESOURCES


class _Needing(msgspec.Struct, frozen=True):
    tasks: list[_Sized]
    pool: str | None = None
    labels: dict[str, str] = {}


def requirements_of(job: JobRow) -> JobRequirements:
    """Return the requirements of a stored job. Only the resources of its tasks are decoded."""
    return requirements_of_spec(msgspec.json.decode(job.definition, type=_Needing))


def requirements_of_spec(spec: JobSpec | _Needing) -> JobRequirements:
    """Return the requirements of a job."""
    largest = largest_of(task.resources for task in spec.tasks)
    return JobRequirements(pool=spec.pool, labels=spec.labels, largest=largest)


def route_run(needs: JobRequirements, usual: str, rules: AllRules, known: Collection[str] | None = None) -> Route:
    """Return the route of a run; `usual` is the server's default pool.

    `known` are the existing pools; None: already checked.
    """
    if needs.pool is not None and known is not None and needs.pool not in known:
        why = f"unknown pool {needs.pool[:200]!a}{did_you_mean(needs.pool, known)}"
        return Route(pool=usual, faults=(Fault("pool", why),))
    chosen = choose_pool(needs.pool, usual, needs.labels, rules.pools, rules.policies)
    if isinstance(chosen, Policy):
        return Route(pool=usual, faults=(Fault("labels", _format_no_pool(chosen, needs, rules.pools)),))
    most = _most_in(chosen, rules)
    if most is None or needs.largest.fits(most):
        return Route(pool=chosen)
    faults = Faults()
    validate_job.check_resources(needs.largest, "resources", Limits(pool_max=most), faults)
    return Route(pool=chosen, faults=tuple(faults.all()))


def check_job_route(spec: JobSpec, usual: str, rules: AllRules, known: Collection[str]) -> list[Fault]:
    """Return the faults of a submitted job: no pool allowed by policy, or tasks too large for its pool."""
    needs = requirements_of_spec(spec)
    place = route_run(needs, usual, rules, known)
    most = _most_in(place.pool, rules)
    if most is None or needs.largest.fits(most):
        return list(place.faults)
    faults = Faults()
    for number, task in enumerate(spec.tasks):
        if not task.resources.fits(most):
            validate_job.check_resources(task.resources, f"tasks[{number}].resources", Limits(pool_max=most), faults)
    return faults.all()


def p0_fault(
    priority: Priority | None, tenant: str, rules: AllRules | SharingRules, now: datetime, *, needed: bool
) -> str | None:
    """Return why a tenant may not use a priority (ADM-3), or None. `needed`: P0 requires a grant."""
    if priority is not Priority.P0 or not needed or rules.granted_p0(tenant, now):
        return None
    return (
        f"P0 needs a grant that tenant {tenant} does not have: an approver can give it with "
        f"`mainspring tenants grant-p0 {tenant}`"
    )


def _most_in(pool: str, rules: AllRules) -> Resources | None:
    return next((row.max_resources for row in rules.pools if row.name == pool), None)


def _format_no_pool(policy: Policy, needs: JobRequirements, pools: Collection[PoolRow]) -> str:
    """Explain why no pool qualifies: the policy, its requirements, and the pools."""
    label = f"{policy.label}={needs.labels[policy.label]}"
    where = f"pool {needs.pool} does not qualify" if needs.pool is not None else "no pool qualifies"
    there = [f"{pool.name} ({_format_labels(pool.labels)})" for pool in pools]
    more = [f"and {len(there) - _POOLS_NAMED} more"] if len(there) > _POOLS_NAMED else []
    listed = ", ".join(there[:_POOLS_NAMED] + more) or "none"
    required = _format_labels(policy.requires)
    return f"policy {policy.name} restricts jobs labeled {label} to pools with {required}: {where}; pools: {listed}"


def _format_labels(document: str) -> str:
    return ", ".join(f"{name}={value}" for name, value in read_labels(document).items()) or "no labels"
