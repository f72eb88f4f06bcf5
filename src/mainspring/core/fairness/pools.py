"""Pools, and the policies that pin work to them (ADM-8).

A run lives in one pool from its submission on, so where its data may be is decided once, here, and held against the
pool again each time that something of it is placed: a policy that came later, or a pool that is labelled otherwise by
now, stops what may no longer run there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from mainspring.core.model.resources import Resources


class PoolRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pool, as somebody described it. The fields are the columns of `pools`, in the same order."""

    name: str
    labels: str
    """JSON: what policies look at, such as `{"region": "eu"}`."""
    zones: tuple[str, ...]
    """Where its workers may be; empty: anywhere."""
    max_resources: Resources | None
    """The most that one task may ask for there, if that is declared (ADM-1)."""
    note: str
    version: int
    updated_at: datetime
    updated_by: str


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs with a label run only in pools with certain labels. The fields are the columns of `policies`, in order."""

    name: str
    label: str
    """Of jobs, such as `eu_data`."""
    value: str
    """Empty: whatever its value."""
    requires: str
    """JSON: the labels that a pool must have, such as `{"region": "eu"}`."""
    note: str
    version: int
    updated_at: datetime
    updated_by: str

    def concerns(self, labels: Mapping[str, str]) -> bool:
        """Whether it is about a job with these labels."""
        return self.label in labels and self.value in ("", labels[self.label])


def hindering(policies: Iterable[Policy], labels: Mapping[str, str], pool: PoolRow | None) -> Policy | None:
    """The first policy that keeps a job with these labels out of a pool; None if it may run there.

    A pool that nobody has described has no labels.
    """
    for policy in policies:
        if policy.concerns(labels):
            have = {} if pool is None else read_labels(pool.labels)
            if not read_labels(policy.requires).items() <= have.items():
                return policy
    return None


def choose_pool(
    wanted: str | None, usual: str, labels: Mapping[str, str], pools: Sequence[PoolRow], policies: Sequence[Policy]
) -> str | Policy:
    """Where a run of a job goes: the pool that the job names, else the usual one, else the first that qualifies.

    A policy is returned if it leaves none: the submission is refused because of it.
    """
    known = {pool.name: pool for pool in pools}
    first = wanted or usual
    hindered = hindering(policies, labels, known.get(first))
    if hindered is None:
        return first
    if wanted is None:
        for pool in pools:
            if hindering(policies, labels, pool) is None:
                return pool.name
    return hindered


def read_labels(document: str) -> dict[str, str]:
    """Labels from their JSON."""
    return msgspec.json.decode(document, type=dict[str, str])
