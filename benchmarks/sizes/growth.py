"""Compute growth of cost from visits. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from benchmarks.peers.arithmetic import rounded
from benchmarks.peers.figures import Machine
from benchmarks.peers.load import is_disturbed

LIMIT = 1.5
"""Maximum ratio to the smallest size."""


class Visit(NamedTuple):
    """One measurement at one size."""

    tasks_per_s: float
    cpu_us: float
    """Of our process, for each task."""
    store_cpu_us: float
    """Of the database server, for each task."""
    p50_ms: float
    p95_ms: float
    foreign_cores: float


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The cost at one size: the best of all visits, since the machine is noisy."""

    size: int
    tasks_per_s: float
    latency_ms_p50: float
    latency_ms_p95: float
    cpu_us_per_task: float
    store_cpu_us_per_task: float
    throughput_ratio: float
    """Time of a task relative to the smallest size. Each ratio is above 1 if this size is worse."""
    latency_ratio: float
    cpu_ratio: float
    """Of both processes together."""
    foreign_cores: float
    """Cores used by other processes during the quietest visit."""
    disturbed: bool
    """Whether that is enough to mark it."""
    tasks_per_s_by_visit: list[float]
    latency_ms_p50_by_visit: list[float]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One dimension, from the smallest size to the largest."""

    name: str
    title: str
    about: str
    points: list[Point]

    def worst(self) -> dict[str, float]:
        """The largest ratios of each kind."""
        return {
            f"{self.name}_throughput_worst": max(point.throughput_ratio for point in self.points),
            f"{self.name}_latency_worst": max(point.latency_ratio for point in self.points),
            f"{self.name}_cpu_worst": max(point.cpu_ratio for point in self.points),
        }


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    began_at: str
    seconds: float
    machine: Machine
    store: dict[str, str]
    """The durability of a commit, as reported by the store."""
    tasks: int
    probes: int
    visits: int
    worst: dict[str, float]
    within: bool
    """Whether no throughput and no latency is beyond the limit."""
    series: list[Series]

    @property
    def is_disturbed(self) -> bool:
        """Is any point marked?"""
        return any(point.disturbed for one in self.series for point in one.points)


def points(visits: Sequence[tuple[int, Sequence[Visit]]]) -> list[Point]:
    """A point for each size, with the visits to it, compared with the first of them."""
    first = visits[0][1]
    return [_point(size, of_size, first) for size, of_size in visits]


def were_disturbed(visits: Sequence[Visit]) -> bool:
    """Whether every visit was disturbed by other processes."""
    return all(is_disturbed(visit.foreign_cores) for visit in visits)


def worst_of(series: Sequence[Series]) -> dict[str, float]:
    """The headline: the largest ratios of every dimension."""
    return {name: ratio for one in series for name, ratio in one.worst().items()}


def is_within(series: Sequence[Series]) -> bool:
    """Whether throughput and latency stay within the limit everywhere. CPU is informative only."""
    return all(max(point.throughput_ratio, point.latency_ratio) <= LIMIT for one in series for point in one.points)


def _point(size: int, visits: Sequence[Visit], first: Sequence[Visit]) -> Point:
    quietest = min(visit.foreign_cores for visit in visits)
    fastest, soonest = _fastest(visits), _soonest(visits)
    leanest = min(visits, key=_cpu)
    return Point(
        size=size,
        tasks_per_s=round(fastest),
        latency_ms_p50=rounded(soonest.p50_ms),
        latency_ms_p95=rounded(soonest.p95_ms),
        cpu_us_per_task=rounded(leanest.cpu_us),
        store_cpu_us_per_task=rounded(leanest.store_cpu_us),
        throughput_ratio=round(_fastest(first) / fastest, 2),
        latency_ratio=round(soonest.p50_ms / _soonest(first).p50_ms, 2),
        cpu_ratio=round(_cpu(leanest) / min(map(_cpu, first)), 2),
        foreign_cores=round(quietest, 2),
        disturbed=is_disturbed(quietest),
        tasks_per_s_by_visit=[round(visit.tasks_per_s) for visit in visits],
        latency_ms_p50_by_visit=[rounded(visit.p50_ms) for visit in visits],
    )


def _fastest(visits: Sequence[Visit]) -> float:
    return max(visit.tasks_per_s for visit in visits)


def _soonest(visits: Sequence[Visit]) -> Visit:
    return min(visits, key=lambda visit: visit.p50_ms)


def _cpu(visit: Visit) -> float:
    return visit.cpu_us + visit.store_cpu_us
