"""Pools, and the policies that pin work to them (ADM-8).

A run stays in the pool that it was submitted to, so its data location is decided once, here, and checked again at each
placement: a newer policy, or new labels of the pool, stop what may no longer run there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from mainspring.core.model.resources import Resources


class PoolRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pool. The fields are the columns of `pools`, in the same order."""

    name: str
    labels: str
    """JSON: labels that policies match, such as `{"region": "eu"}`."""
    zones: tuple[str, ...]
    """Zones that its workers may be in; empty: any."""
    max_resources: Resources | None
    """The most that one task may request there, if set (ADM-1)."""
    note: str
    version: int
    updated_at: datetime
    updated_by: str


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs with a label run only in pools with certain labels. The fields are the columns of `policies`, in order."""

    name: str
    label: str
    """Label of jobs, such as `eu_data`."""
    value: str
    """Empty: any value."""
    requires: str
    """JSON: labels that a pool must have, such as `{"region": "eu"}`."""
    note: str
    version: int
    updated_at: datetime
    updated_by: str

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether it applies to a job with these labels."""
        return self.label in labels and self.value in ("", labels[self.label])


def blocking_policy(policies: Iterable[Policy], labels: Mapping[str, str], pool: PoolRow | None) -> Policy | None:
    """The first policy that keeps a job with these labels out of a pool; None if it may run there.

    An undefined pool has no labels.
    """
    for policy in policies:
        if policy.matches(labels):
            have = {} if pool is None else read_labels(pool.labels)
            if not read_labels(policy.requires).items() <= have.items():
                return policy
    return None


def choose_pool(
    wanted: str | None, default: str, labels: Mapping[str, str], pools: Sequence[PoolRow], policies: Sequence[Policy]
) -> str | Policy:
    """Choose the pool of a run: the one that the job names, else the default, else the first that qualifies.

    Returns the policy if no pool qualifies: the submission is refused because of it.
    """
    known = {pool.name: pool for pool in pools}
    first = wanted or default
    blocked = blocking_policy(policies, labels, known.get(first))
    if blocked is None:
        return first
    if wanted is None:
        for pool in pools:
            if blocking_policy(policies, labels, pool) is None:
                return pool.name
    return blocked


def read_labels(document: str) -> dict[str, str]:
    """Decode labels from JSON."""
    return msgspec.json.decode(document, type=dict[str, str])
