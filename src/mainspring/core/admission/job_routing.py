"""Where the runs of a job go, and whether they may be submitted at all (ADM-1, ADM-3, ADM-8).

Asked when a job is submitted, for each run, when a schedule is kept and when it fires: the answer may be another each
time, as pools, policies and grants change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import msgspec

from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults, Limits
from mainspring.core.fairness.pools import Policy, PoolRow, choose_pool, read_labels
from mainspring.core.fairness.sharing_rules import AllRules, SharingRules
from mainspring.core.model.job import DEFAULT_RESOURCES, JobRow, JobSpec
from mainspring.core.model.resources import NAMES, Resources
from mainspring.core.model.task import Priority
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Fault

_POOLS_NAMED = 10


class JobNeeds(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What decides where the runs of a job go."""

    pool: str | None = None
    labels: Mapping[str, str] = {}
    largest: Resources = DEFAULT_RESOURCES
    """The most of each resource that any of its tasks asks for."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run goes, or why it can't go anywhere."""

    pool: str
    faults: tuple[Fault, ...] = ()


class _Sized(msgspec.Struct, frozen=True, gc=False):
    resources: Resources = DEFAULT_RESOURCES


class _Needing(msgspec.Struct, frozen=True):
    tasks: list[_Sized]
    pool: str | None = None
    labels: dict[str, str] = {}


def needs_of(job: JobRow) -> JobNeeds:
    """What a stored job needs. Of its tasks nothing but their resources is read."""
    read = msgspec.json.decode(job.definition, type=_Needing)
    return JobNeeds(pool=read.pool, labels=read.labels, largest=_largest(task.resources for task in read.tasks))


def needs_of_spec(spec: JobSpec) -> JobNeeds:
    """What a job needs."""
    return JobNeeds(pool=spec.pool, labels=spec.labels, largest=_largest(task.resources for task in spec.tasks))


def place_run(needs: JobNeeds, usual: str, rules: AllRules, known: Collection[str] | None = None) -> Place:
    """Where a run of a job goes, if the server sends runs to `usual`.

    `known` are the pools that there are; None: the job was asked about that before.
    """
    if needs.pool is not None and known is not None and needs.pool not in known:
        why = f"there is no pool {needs.pool[:200]!a}{did_you_mean(needs.pool, known)}"
        return Place(pool=usual, faults=(Fault(where="pool", why=why),))
    chosen = choose_pool(needs.pool, usual, needs.labels, rules.pools, rules.policies)
    if isinstance(chosen, Policy):
        return Place(pool=usual, faults=(Fault(where="labels", why=_say_none(chosen, needs, rules.pools)),))
    most = _most_in(chosen, rules)
    if most is None or needs.largest.fits(most):
        return Place(pool=chosen)
    faults = Faults()
    validate_job.check_resources(needs.largest, "resources", Limits(pool_max=most), faults)
    return Place(pool=chosen, faults=tuple(faults.all()))


def check_job_place(spec: JobSpec, usual: str, rules: AllRules, known: Collection[str]) -> list[Fault]:
    """What is wrong with a job that is submitted: no pool may have it, or some tasks are too large for its pool."""
    needs = needs_of_spec(spec)
    place = place_run(needs, usual, rules, known)
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
    """Why a tenant may not ask for a priority (ADM-3); None if it may. `needed`: P0 needs a grant here."""
    if priority is not Priority.P0 or not needed or rules.granted_p0(tenant, now):
        return None
    return (
        f"P0 needs a grant that tenant {tenant} does not have: an approver can give it with "
        f"`mainspring tenants grant-p0 {tenant}`"
    )


def _largest(resources: Iterable[Resources]) -> Resources:
    distinct = set(resources)
    return Resources(*(max((getattr(one, name) for one in distinct), default=0) for name in NAMES))


def _most_in(pool: str, rules: AllRules) -> Resources | None:
    return next((row.max_resources for row in rules.pools if row.name == pool), None)


def _say_none(policy: Policy, needs: JobNeeds, pools: Collection[PoolRow]) -> str:
    """Why no pool will do: the policy, what it requires, and what there is."""
    label = f"{policy.label}={needs.labels[policy.label]}"
    where = f"pool {needs.pool}, which the job names, is none" if needs.pool is not None else "there is none"
    there = [f"{pool.name} ({_say_labels(pool.labels)})" for pool in pools]
    more = [f"and {len(there) - _POOLS_NAMED} more"] if len(there) > _POOLS_NAMED else []
    listed = ", ".join(there[:_POOLS_NAMED] + more) or "none is described"
    required = _say_labels(policy.requires)
    return f"policy {policy.name} keeps jobs with the label {label} in pools with {required}: {where}; pools: {listed}"


def _say_labels(document: str) -> str:
    return ", ".join(f"{name}={value}" for name, value in read_labels(document).items()) or "no labels"
