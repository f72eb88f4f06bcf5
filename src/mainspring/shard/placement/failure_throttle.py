"""A tenant that has used up its budget of failures starts only so many tasks in each second, until fewer of the last
hour failed (ADM-5). P0 is not held by it."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.limits.token_bucket import Bucket, Pace
from mainspring.shard.events import TimerDue, TimerKind
from mainspring.shard.state.memory import ShardMemory, Throttle
from mainspring.shard.turn import Turn


def most_starts(turn: Turn, tenant: str) -> int | None:
    """How many tasks of a tenant may be started now; None: as many as there is room for."""
    memory = turn.memory
    if not memory.failures.has(tenant):
        return None
    if not is_used_up(memory, tenant, turn.now):
        memory.throttles.pop(tenant, None)
        return None
    throttle = memory.throttles.get(tenant)
    if throttle is None:
        per_second = memory.tuning.throttled_starts_per_second
        bucket = Bucket(Pace(per_second=per_second, burst=per_second), memory.life)
        throttle = memory.throttles[tenant] = Throttle(bucket=bucket)
    left = throttle.bucket.left(memory.life)
    if not left and throttle.due <= memory.life:
        seconds = throttle.bucket.seconds_to(1)
        throttle.due = memory.life + seconds
        memory.set_length(seconds, TimerDue(kind=TimerKind.THROTTLE, subject=tenant))
    return left


def started(memory: ShardMemory, tenant: str, tasks: int) -> None:
    """So many tasks of a tenant have been placed."""
    throttle = memory.throttles.get(tenant)
    if throttle is not None:
        throttle.bucket.take(tasks)


def is_used_up(memory: ShardMemory, tenant: str, now: datetime) -> bool:
    """Whether more tasks of a tenant failed in the last hour than it may have fail."""
    return memory.failures.count(tenant, now) >= max(1, memory.rules.quota(tenant, now).failures_per_hour)


def holds(memory: ShardMemory, tenant: str, now: datetime) -> bool:
    """Whether a tenant that has used up its budget may start nothing at this moment."""
    throttle = memory.throttles.get(tenant)
    return throttle is not None and is_used_up(memory, tenant, now) and not throttle.bucket.left(memory.life)


def say(memory: ShardMemory, tenant: str, now: datetime) -> str:
    """Why a tenant is throttled, in words."""
    failed, allowed = memory.failures.count(tenant, now), memory.rules.quota(tenant, now).failures_per_hour
    per_second = memory.tuning.throttled_starts_per_second
    return f"{failed} of its tasks failed within an hour, and {allowed} may: {per_second} start in each second"
