"""Results of simulated pools. They can be merged, and sent between processes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

_PER_DOUBLING = 32
"""Steps of 2 %."""
_MIN_SECONDS = 0.00001


class Histogram(msgspec.Struct):
    """Histogram of durations with steps of 2 %: percentiles of any number of values in little memory."""

    counts: dict[int, int] = {}
    longest: float = 0.0

    def add(self, seconds: float) -> None:
        """Add a duration."""
        step = 0
        if seconds > _MIN_SECONDS:
            step = math.ceil(math.log2(seconds / _MIN_SECONDS) * _PER_DOUBLING)
        self.counts[step] = self.counts.get(step, 0) + 1
        self.longest = max(self.longest, seconds)

    def join(self, other: Histogram) -> None:
        """Merge another histogram."""
        for step, count in other.counts.items():
            self.counts[step] = self.counts.get(step, 0) + count
        self.longest = max(self.longest, other.longest)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def percentile(self, percent: float) -> float:
        """Duration that this percentage does not exceed; 0 if empty."""
        left = math.ceil(len(self) * percent / 100)
        for step in sorted(self.counts):
            left -= self.counts[step]
            if left <= 0:
                return float(min(_MIN_SECONDS * 2 ** (step / _PER_DOUBLING), self.longest))
        return 0.0


class Sample(msgspec.Struct, kw_only=True):
    """State of a pool at one time, and what has happened since the previous sample."""

    at: float
    used_millis: int = 0
    capacity_millis: int = 0
    running: int = 0
    waiting: list[int] = msgspec.field(default_factory=lambda: [0, 0, 0])
    """By priority: tasks in the queues, and runs in intake."""
    arrived: int = 0
    """Submitted tasks."""
    placed: int = 0
    ended: int = 0
    """Attempts that succeeded."""
    failed: int = 0
    preempted: int = 0
    lost: int = 0
    """Attempts that were lost with their worker."""

    def join(self, other: Sample) -> None:
        """Merge the same sample of another pool."""
        for name in set(self.__struct_fields__) - {"at", "waiting"}:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.waiting = [mine + theirs for mine, theirs in zip(self.waiting, other.waiting, strict=True)]


class Share(msgspec.Struct, kw_only=True):
    """Resources that a tenant used, in seconds in which it and others had work waiting."""

    had: float = 0.0
    due: float = 0.0
    """Its part of their total by weight."""
    seconds: int = 0

    def join(self, other: Share) -> None:
        """Merge the share in another pool."""
        self.had += other.had
        self.due += other.due
        self.seconds += other.seconds


class QueueStats(msgspec.Struct, kw_only=True):
    """Tasks of one tenant and priority."""

    priority: str
    tenant: str
    delays: Histogram
    """From ready to durably assigned."""
    waiting: int = 0
    """At the end."""
    longest_waiting: float = 0.0

    def join(self, other: QueueStats) -> None:
        """Merge another queue."""
        self.delays.join(other.delays)
        self.waiting += other.waiting
        self.longest_waiting = max(self.longest_waiting, other.longest_waiting)


class Cpu(msgspec.Struct, kw_only=True):
    """CPU cost of decisions on this machine: the only figures that the seed does not determine."""

    seconds: float = 0.0
    turns: int = 0
    placed: int = 0
    rows: int = 0
    longest_turn: float = 0.0
    histogram: Histogram = msgspec.field(default_factory=Histogram)
    """Of turns."""

    def join(self, other: Cpu) -> None:
        """Merge the cost of another pool."""
        self.seconds += other.seconds
        self.turns += other.turns
        self.placed += other.placed
        self.rows += other.rows
        self.longest_turn = max(self.longest_turn, other.longest_turn)
        self.histogram.join(other.histogram)


class PoolResult(msgspec.Struct, kw_only=True):
    """Result of one pool."""

    pool: int
    until: float
    """How far it was simulated; less than the scenario if it was interrupted."""
    samples: list[Sample] = []
    queues: list[QueueStats] = []
    shares: dict[str, Share] = {}
    """By tenant."""
    ends: dict[str, int] = {}
    """Ended attempts, by kind of end."""
    runs: int = 0
    """Submitted runs that are counted."""
    tasks: int = 0
    preempted: int = 0
    recalled: int = 0
    """Groups whose rest was recalled."""
    cpu: Cpu = msgspec.field(default_factory=Cpu)


def merge_queue_stats(pools: Iterable[PoolResult]) -> dict[tuple[str, str], QueueStats]:
    """Merge the queues of all pools by priority and tenant. The inputs are not changed."""
    found: dict[tuple[str, str], QueueStats] = {}
    for pool in pools:
        for queue in pool.queues:
            key = (queue.priority, queue.tenant)
            if key not in found:
                found[key] = QueueStats(priority=queue.priority, tenant=queue.tenant, delays=Histogram())
            found[key].join(queue)
    return found


def merge_samples(pools: Iterable[PoolResult]) -> list[Sample]:
    """Merge the samples of all pools, for as long as each was simulated."""
    found: dict[float, Sample] = {}
    for pool in pools:
        for sample in pool.samples:
            found.setdefault(sample.at, Sample(at=sample.at)).join(sample)
    return [found[at] for at in sorted(found)]


def merge_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sum counts by name."""
    found: Counter[str] = Counter()
    for one in counts:
        found.update(one)
    return dict(sorted(found.items()))
