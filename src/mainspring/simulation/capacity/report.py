"""Report of a simulation. The same seed gives the same report, except for `timing`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.core.model.task import Priority
from mainspring.simulation.capacity.measurements import (
    Cpu,
    Histogram,
    PoolResult,
    QueueStats,
    Sample,
    Share,
    merge_counts,
    merge_queue_stats,
    merge_samples,
)
from mainspring.simulation.capacity.scenario import Scenario, tenant_name

MIN_COMPARED_SECONDS = 5
"""A tenant that waited beside others for less time is not compared with its weight."""


class Delays(msgspec.Struct, frozen=True, kw_only=True):
    """Delays of tasks, from ready to durably assigned."""

    placed: int
    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    longest_seconds: float
    waiting: int
    """At the end; not included in the figures above."""
    longest_waiting_seconds: float


class PriorityRow(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of one priority."""

    priority: str
    delays: Delays


class TenantRow(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of one tenant."""

    tenant: str
    weight: float
    delays: Delays
    compared_seconds: int
    """Seconds in which it and others of its pool had work waiting."""
    share_error: float | None
    """Deviation of its usage from its weight in that time: 0.1 is a tenth too much. None: not compared."""


class TimelinePoint(msgspec.Struct, frozen=True, kw_only=True):
    """State of the simulated workers, and what had happened since the previous point."""

    at_seconds: float
    used: float
    """Fraction of the cores of live workers."""
    cores: int
    running: int
    waiting: dict[str, int]
    """By priority."""
    arrived: int
    placed: int
    ended: int
    failed: int
    preempted: int
    lost: int


class Fairness(msgspec.Struct, frozen=True, kw_only=True):
    """Shares relative to weights, of the compared tenants."""

    tenants: int
    mean_error: float
    """Mean of absolute errors, weighted by what each tenant was due."""
    worst_error: float
    worst_tenant: str


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """CPU cost of decisions on the simulating machine. The seed does not determine it."""

    cpu_seconds: float
    cpu_micros_per_task: float
    turns: int
    rows: int
    turn_p50_ms: float
    turn_p99_ms: float
    longest_turn_ms: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a scenario."""

    scenario: str
    about: str
    version: str
    seed: int
    scale: float
    is_partial: bool
    """It was interrupted: the figures cover what was simulated by then."""
    seconds: float
    pools_played: int
    """Pools simulated to the end."""
    pools: int
    workers: int
    zones: int
    tenants_count: int
    runs: int
    tasks: int
    """Submitted in the measured period."""
    placed: int
    ends: dict[str, int]
    """How attempts ended."""
    preemptions: int
    recalls: int
    used_mean: float
    used_most: float
    priorities: tuple[PriorityRow, ...]
    tenants: tuple[TenantRow, ...]
    fairness: Fairness | None
    """None: no two tenants of a pool had work waiting for long at the same time."""
    timeline: tuple[TimelinePoint, ...]
    timing: Timing | None
    """None: omitted."""


def make_report(
    scenario: Scenario, pools: Sequence[PoolResult], *, seed: int, scale: float, version: str, with_timing: bool
) -> Report:
    """Compute the figures of some pools of a scenario, as far as they were simulated."""
    pools = sorted(pools, key=lambda pool: pool.pool)
    queues = merge_queue_stats(pools)
    timeline = [_timeline_point(sample) for sample in merge_samples(pools)]
    tenants = _tenants(scenario, queues, _shares(pools))
    whole = sum(pool.until >= scenario.lasts for pool in pools)
    used = [moment.used for moment in timeline]
    return Report(
        scenario=scenario.name, about=scenario.about, version=version, seed=seed, scale=scale,
        is_partial=whole < scenario.workers.pools, seconds=scenario.lasts, pools_played=whole,
        pools=scenario.workers.pools, workers=scenario.workers.count, zones=scenario.workers.zones,
        tenants_count=scenario.tenants.count, runs=sum(pool.runs for pool in pools),
        tasks=sum(pool.tasks for pool in pools), placed=sum(len(queue.delays) for queue in queues.values()),
        ends=merge_counts(pool.ends for pool in pools), preemptions=sum(pool.preempted for pool in pools),
        recalls=sum(pool.recalled for pool in pools), used_mean=_round(sum(used) / len(used) if used else 0.0),
        used_most=max(used, default=0.0), priorities=_priorities(queues), tenants=tenants,
        fairness=_fairness(tenants, _shares(pools)), timeline=tuple(timeline),
        timing=_timing(pools) if with_timing else None,
    )  # fmt: skip


def _priorities(queues: dict[tuple[str, str], QueueStats]) -> tuple[PriorityRow, ...]:
    rows = []
    for priority in Priority:
        mine = [queue for (name, _), queue in queues.items() if name == priority.name]
        if mine:
            rows.append(PriorityRow(priority=priority.name, delays=_delays(mine)))
    return tuple(rows)


def _tenants(
    scenario: Scenario, queues: dict[tuple[str, str], QueueStats], shares: dict[str, Share]
) -> tuple[TenantRow, ...]:
    rows = []
    for number in range(scenario.tenants.count):
        tenant = tenant_name(number)
        mine = [queue for (_, name), queue in queues.items() if name == tenant]
        share = shares.get(tenant, Share())
        is_compared = share.seconds >= MIN_COMPARED_SECONDS and share.due > 0
        if mine:
            rows.append(
                TenantRow(
                    tenant=tenant, weight=scenario.weight(number), delays=_delays(mine),
                    compared_seconds=share.seconds,
                    share_error=_round(share.had / share.due - 1) if is_compared else None,
                )
            )  # fmt: skip
    return tuple(rows)


def _delays(queues: Sequence[QueueStats]) -> Delays:
    total = QueueStats(priority="", tenant="", delays=Histogram())
    for queue in queues:
        total.join(queue)
    delays = total.delays
    return Delays(
        placed=len(delays), p50_seconds=_round(delays.percentile(50)), p95_seconds=_round(delays.percentile(95)),
        p99_seconds=_round(delays.percentile(99)), longest_seconds=_round(delays.longest), waiting=total.waiting,
        longest_waiting_seconds=_round(total.longest_waiting),
    )  # fmt: skip


def _shares(pools: Sequence[PoolResult]) -> dict[str, Share]:
    found: dict[str, Share] = {}
    for pool in pools:
        for tenant, share in pool.shares.items():
            found.setdefault(tenant, Share()).join(share)
    return found


def _fairness(tenants: Sequence[TenantRow], shares: dict[str, Share]) -> Fairness | None:
    compared = {row.tenant: row.share_error for row in tenants if row.share_error is not None}
    if not compared:
        return None
    due = sum(shares[tenant].due for tenant in compared)
    worst = max(compared, key=lambda tenant: abs(compared[tenant]))
    mean = sum(abs(error) * shares[tenant].due for tenant, error in compared.items()) / due
    return Fairness(
        tenants=len(compared), mean_error=_round(mean), worst_error=compared[worst], worst_tenant=worst
    )  # fmt: skip


def _timeline_point(sample: Sample) -> TimelinePoint:
    used = sample.used_millis / sample.capacity_millis if sample.capacity_millis else 0.0
    return TimelinePoint(
        at_seconds=sample.at, used=_round(used), cores=sample.capacity_millis // 1_000, running=sample.running,
        waiting={priority.name: sample.waiting[priority] for priority in Priority}, arrived=sample.arrived,
        placed=sample.placed, ended=sample.ended, failed=sample.failed, preempted=sample.preempted, lost=sample.lost,
    )  # fmt: skip


def _timing(pools: Sequence[PoolResult]) -> Timing:
    cpu = Cpu()
    for pool in pools:
        cpu.join(pool.cpu)
    return Timing(
        cpu_seconds=_round(cpu.seconds), cpu_micros_per_task=_round(1e6 * cpu.seconds / max(1, cpu.placed)),
        turns=cpu.turns, rows=cpu.rows, turn_p50_ms=_round(1e3 * cpu.histogram.percentile(50)),
        turn_p99_ms=_round(1e3 * cpu.histogram.percentile(99)), longest_turn_ms=_round(1e3 * cpu.longest_turn),
    )  # fmt: skip


def _round(value: float) -> float:
    """Round to four digits."""
    return float(f"{value:.4g}")
