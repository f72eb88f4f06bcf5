"""Throttle for tenants over their failure budget: a limited number of starts per second, until fewer tasks of the last
hour failed (ADM-5). P0 is exempt."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.limits.token_bucket import Rate, TokenBucket
from mainspring.shard.events import TimerKind
from mainspring.shard.state.limits import Throttle
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.turn import Turn


def max_starts(turn: Turn, tenant: str) -> int | None:
    """Number of tasks that a tenant may start now; None: no limit."""
    memory = turn.memory
    if not memory.limits.failures.has(tenant):
        return None
    if not is_exhausted(memory, tenant, turn.now):
        memory.limits.throttles.pop(tenant, None)
        return None
    throttle = memory.limits.throttles.get(tenant)
    if throttle is None:
        per_second = memory.scheduler_settings.throttled_starts_per_second
        bucket = TokenBucket(Rate(per_second=per_second, burst=per_second), memory.shard_time)
        throttle = memory.limits.throttles[tenant] = Throttle(bucket=bucket)
    left = throttle.bucket.left(memory.shard_time)
    if not left and throttle.due <= memory.shard_time:
        seconds = throttle.bucket.seconds_to(1)
        throttle.due = memory.shard_time + seconds
        memory.timers.set_after(seconds, TimerKind.THROTTLE, tenant)
    return left


def started(memory: ShardMemory, tenant: str, tasks: int) -> None:
    """Charge started tasks to the throttle of a tenant."""
    throttle = memory.limits.throttles.get(tenant)
    if throttle is not None:
        throttle.bucket.take(tasks)


def is_exhausted(memory: ShardMemory, tenant: str, now: datetime) -> bool:
    """Whether a tenant has used up its failure budget of the last hour."""
    return memory.limits.failures.count(tenant, now) >= max(1, memory.rules.quota(tenant, now).failures_per_hour)


def is_throttled(memory: ShardMemory, tenant: str, now: datetime) -> bool:
    """Whether a throttled tenant may start nothing right now."""
    throttle = memory.limits.throttles.get(tenant)
    return throttle is not None and is_exhausted(memory, tenant, now) and not throttle.bucket.left(memory.shard_time)


def describe(memory: ShardMemory, tenant: str, now: datetime) -> str:
    """Describe why a tenant is throttled."""
    failed, allowed = memory.limits.failures.count(tenant, now), memory.rules.quota(tenant, now).failures_per_hour
    per_second = memory.scheduler_settings.throttled_starts_per_second
    return f"{failed} of its tasks failed within an hour (budget {allowed}): limited to {per_second} starts per second"
