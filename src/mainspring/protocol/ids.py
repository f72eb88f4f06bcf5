"""Names for things: time-ordered text with a prefix, the same in the API, the logs and the database.

The random bits come from a generator that the caller owns, so that a shard is deterministic for its term and the
simulator for its seed. `entropy()` is the only place that asks the operating system.

    run_018f3c2e9a41-9d2c44e1f0a7b35c     a run: milliseconds, then 64 random bits
    task_018f3c2e9a41-9d2c44e1f0a7b35c.12  task 12 of that run: derived, so that making it twice makes it once
    task_018f3c2e9a41-9d2c44e1f0a7b35c.3.1.7  the eighth task that task 3 of that run made in its first generation
    att_018f3c2e9b07-5be0d1c27f3a9946     an attempt: never derived, so that a failover that lost a commit can't
                                          hand out the same one twice
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from random import Random

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def entropy() -> int:
    """64 bits that nobody can guess: the seed of a process, the nonce of a term."""
    return secrets.randbits(64)


def new_id(prefix: str, now: datetime, random: Random) -> str:
    """A fresh id that sorts after the older ones of its kind."""
    return f"{prefix}_{(now - _EPOCH) // _MILLISECOND:012x}-{random.getrandbits(64):016x}"


def derived_id(prefix: str, now: datetime, number: int, subject: str) -> str:
    """The id of the `number`th of its kind at a time, up to 65,535, derived from what it is about."""
    digest = blake2b(subject.encode(), digest_size=6).hexdigest()
    return f"{prefix}_{(now - _EPOCH) // _MILLISECOND:012x}-{number:04x}{digest}"


def task_id(run_id: str, index: int) -> str:
    """The id of task `index` of a run."""
    return f"task_{run_id[4:]}.{index}"


def child_task_id(run_id: str, parent: int, generation: int, index: int) -> str:
    """The id of the task that task `parent` of a run, in that generation, made as its `index`th, from 0."""
    return f"task_{run_id[4:]}.{parent}.{generation}.{index}"
