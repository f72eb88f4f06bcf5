"""Ids: time-ordered text with a prefix, the same in the API, the logs and the database.

The random bits come from a generator owned by the caller, so that a shard is deterministic for its term and the
simulator for its seed. Only `entropy()` asks the operating system.

    run_018f3c2e9a41-9d2c44e1f0a7b35c     a run: milliseconds, then 64 random bits
    task_018f3c2e9a41-9d2c44e1f0a7b35c.12  task 12 of that run: derived, so creation is idempotent
    task_018f3c2e9a41-9d2c44e1f0a7b35c.3.1.7  the eighth task that task 3 of that run created in its first generation
    att_018f3c2e9b07-5be0d1c27f3a9946     an attempt: never derived, so that a failover that lost a commit can't
                                          reuse the id
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from random import Random

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def entropy() -> int:
    """Return 64 unpredictable bits: the seed of a process, the nonce of a term."""
    return secrets.randbits(64)


def new_id(prefix: str, now: datetime, random: Random) -> str:
    """Return a new id that sorts after older ones of its kind."""
    return f"{prefix}_{(now - _EPOCH) // _MILLISECOND:012x}-{random.getrandbits(64):016x}"


def derived_id(prefix: str, now: datetime, number: int, subject: str) -> str:
    """Return the id of the `number`th of its kind at a time, up to 65,535, derived from its subject."""
    digest = blake2b(subject.encode(), digest_size=6).hexdigest()
    return f"{prefix}_{(now - _EPOCH) // _MILLISECOND:012x}-{number:04x}{digest}"


def task_id(run_id: str, index: int) -> str:
    """Return the id of task `index` of a run."""
    return f"task_{run_id[4:]}.{index}"


def child_task_id(run_id: str, parent: int, generation: int, index: int) -> str:
    """Return the id of a dynamic task: the `index`th, from 0, created by task `parent` in that generation."""
    return f"task_{run_id[4:]}.{parent}.{generation}.{index}"
