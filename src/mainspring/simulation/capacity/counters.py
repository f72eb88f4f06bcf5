"""Counters of one pool: batches as they are closed, and samples of its memory every second.

A task's delay is from the moment it became ready (for the first tasks of a run: was submitted) until its assignment is
durable. Tasks that became ready in the warm-up are not counted.

Shares are compared in seconds in which at least two tenants have had work waiting for a second: each is due the part by
weight of their total use.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime

from mainspring.core.model.batch import Batch
from mainspring.core.model.resources import ZERO_RESOURCES, dominant_share
from mainspring.core.model.task import AttemptEnd, Priority, StopKind, TaskState
from mainspring.protocol.wire import Assign, Recall, Stop
from mainspring.shard.effects import Send
from mainspring.shard.state.memory import ShardMemory
from mainspring.simulation.capacity.intake import SimulatedIntake
from mainspring.simulation.capacity.load import START, Arrival
from mainspring.simulation.capacity.measurements import Cpu, Histogram, PoolResult, QueueStats, Sample, Share
from mainspring.simulation.capacity.scenario import Scenario, tenant_name

SAMPLE_SECONDS = 1.0
_QUEUED = TaskState.QUEUED


class Counters:
    """Counters of one pool."""

    def __init__(
        self, scenario: Scenario, pool: int, memory: ShardMemory, intake: SimulatedIntake, start: datetime = START
    ) -> None:
        """`start` is the begin of the measured period, on the shard's calendar."""
        self._start = start
        self._memory = memory
        self._intake = intake
        self._weights = {tenant_name(one): scenario.weight(one) for one in scenario.tenants_of(pool)}
        self._tasks = {f"job_{kind.name}": kind.tasks() for kind in scenario.jobs}
        self._ready: dict[str, float] = {}
        """By waiting task: since when."""
        self._delays: defaultdict[tuple[Priority, str], Histogram] = defaultdict(Histogram)
        self._waited: set[str] = set()
        """Tenants that had work waiting at the last sample."""
        self._now = Sample(at=0.0)
        self._ends: Counter[str] = Counter()
        self._cpu = Cpu()
        self._found = PoolResult(pool=pool, until=0.0)

    def next_sample_at(self) -> float:
        """When the next sample is due."""
        return self._now.at

    def arrived(self, arrival: Arrival) -> None:
        """A run was submitted."""
        tasks = self._tasks[arrival.job.id]
        self._now.arrived += tasks
        if arrival.at >= 0:
            self._found.runs += 1
            self._found.tasks += tasks

    def batch_closed(self, batch: Batch, closed_at: float, durable_at: float) -> None:
        """Count a closed batch."""
        for transition in batch.transitions:
            if transition.end is _QUEUED:
                run = self._memory.runs.get(transition.run_id)
                since = closed_at
                if run is not None and run.run.adopted_at == transition.at:
                    since = (run.run.start_at - self._start).total_seconds()
                self._ready[transition.task_id] = since
        for effect in batch.effects:
            if isinstance(effect, Send):
                match effect.message:
                    case Assign():
                        self._placed(effect.message, durable_at)
                    case Stop():
                        self._stopped(effect.message.attempt, closed_at)
                    case Recall():
                        self._found.recalled += closed_at >= 0
                    case _:
                        pass
        if closed_at >= 0:
            for attempt in batch.attempts:
                self._ended(attempt.end)
        self._cpu.rows += batch.rows()

    def turn_took(self, seconds: float) -> None:
        """Count the CPU time of a turn."""
        self._cpu.seconds += seconds
        self._cpu.turns += 1
        self._cpu.histogram.add(seconds)
        self._cpu.longest_turn = max(self._cpu.longest_turn, seconds)

    def sample(self) -> None:
        """Take the sample that is due."""
        memory, now = self._memory, self._now
        now.used_millis = sum(use.cpu_millis for use in memory.leases.use.values())
        now.capacity_millis = memory.workers.capacity.cpu_millis
        now.running = len(memory.attempts)
        waiting = self._waiting()
        for (priority, _), count in waiting.items():
            now.waiting[priority] += count
        self._compare({tenant for (_, tenant), count in memory.queues.depth.items() if count})
        self._found.samples.append(now)
        self._now = Sample(at=now.at + SAMPLE_SECONDS)

    def finish(self, until: float) -> PoolResult:
        """Return the results at the end."""
        oldest = self._intake.oldest()
        for task_id, since in self._ready.items():
            task = self._memory.runs.find(task_id)
            if task is not None and task.state is _QUEUED:
                key = (task.priority, task.tenant)
                oldest[key] = min(oldest.get(key, since), since)
        waiting = self._waiting()
        keys = sorted({*self._delays, *waiting})
        self._found.queues = [
            QueueStats(
                priority=key[0].name, tenant=key[1], delays=self._delays.get(key, Histogram()),
                waiting=waiting.get(key, 0), longest_waiting=max(0.0, until - oldest.get(key, until)),
            )
            for key in keys
        ]  # fmt: skip
        self._found.until = until
        self._found.ends = dict(sorted(self._ends.items()))
        self._found.cpu = self._cpu
        return self._found

    def _placed(self, message: Assign, at: float) -> None:
        priority, memory = self._memory.leases[message.lease].priority, self._memory
        self._cpu.placed += len(message.group)
        self._now.placed += len(message.group)
        for one in message.group:
            since = self._ready.pop(one.task, at)
            if since >= 0:
                self._delays[priority, memory.runs[one.run].run.tenant].add(at - since)

    def _stopped(self, attempt: str, at: float) -> None:
        task = self._memory.attempts.get(attempt)
        if task is not None and task.stop is not None and task.stop.kind is StopKind.PREEMPT:
            self._now.preempted += 1
            self._found.preempted += at >= 0

    def _ended(self, end: AttemptEnd) -> None:
        self._ends[end.value] += 1
        self._now.ended += end is AttemptEnd.SUCCEEDED
        self._now.failed += end is AttemptEnd.FAILED
        self._now.lost += end is AttemptEnd.LOST

    def _waiting(self) -> dict[tuple[Priority, str], int]:
        """Waiting tasks, in the queues and in intake."""
        found = Counter(self._memory.queues.depth)
        found.update(self._intake.waiting())
        return found

    def _compare(self, waiting: set[str]) -> None:
        """Compare the usage of waiting tenants with their weights."""
        both = sorted(waiting & self._waited)
        self._waited = waiting
        if len(both) < 2:
            return
        memory = self._memory
        had = {
            tenant: dominant_share(memory.leases.use.get(tenant, ZERO_RESOURCES), memory.workers.capacity)
            for tenant in both
        }
        total, weights = sum(had.values()), sum(self._weights[tenant] for tenant in both)
        for tenant in both:
            share = self._found.shares.setdefault(tenant, Share())
            share.had += had[tenant]
            share.due += total * self._weights[tenant] / weights
            share.seconds += 1
