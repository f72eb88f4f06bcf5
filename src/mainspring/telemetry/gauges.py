"""Gauges of the leaders of a server, collected at scrape time.

    mainspring_leader{shard}  mainspring_shards_led  mainspring_inbox_events{shard}
    mainspring_tasks_queued{tenant,priority,reason}  mainspring_queue_oldest_age_seconds{priority}
    mainspring_tenant_slots{tenant,kind}             mainspring_worker_slots{zone,state}      in cores
    mainspring_tenant_leases{tenant}
    mainspring_workers{shard,status}                 mainspring_heartbeat_age_seconds{shard}

The reason of queued tasks is the diagnosis of the oldest task of each queue; `PRIORITY_QUEUE_WAIT` also covers tasks
that wait for the next turn. Blocked tasks are counted with the reasons of their tenant's queues. During cancellations
the counts by reason are approximate; totals are exact.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mainspring.core.explain.diagnosis import Reason
from mainspring.core.model.resources import ZERO_RESOURCES
from mainspring.core.model.task import Priority
from mainspring.core.model.worker import WorkerStatus
from mainspring.host.loop import Leader
from mainspring.shard.explain.diagnosis_context import DiagnosisContext
from mainspring.shard.explain.queue_reasons import of_queue
from mainspring.shard.state.memory import ShardMemory
from mainspring.telemetry.labels import bounded_labels, largest

_CORE = 1000


class LeaderGauges(Collector):
    """Collects the gauges of all leaders."""

    def __init__(self, leaders: Callable[[], Mapping[str, Leader]]) -> None:
        self._leaders = leaders

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the current gauges."""
        leaders = dict(self._leaders())
        yield GaugeMetricFamily("mainspring_shards_led", "Shards that this server leads.", value=len(leaders))
        yield from _of_shards(leaders)
        memories = [leader.shard.memory for leader in leaders.values()]
        yield _queued(leaders)
        yield _oldest(leaders)
        yield _used_by_tenants(leaders)
        yield _leases_of_tenants(memories)
        yield _slots(memories)


def gauge(
    name: str, about: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    """Return a gauge with these samples: values of the labels, and the number."""
    family = GaugeMetricFamily(name, about, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _of_shards(leaders: Mapping[str, Leader]) -> Iterator[GaugeMetricFamily]:
    leads = GaugeMetricFamily("mainspring_leader", "1 for each shard that this server leads.", labels=["shard"])
    inbox = GaugeMetricFamily("mainspring_inbox_events", "Events in a shard's inbox.", labels=["shard"])
    workers = GaugeMetricFamily("mainspring_workers", "Workers of a shard.", labels=["shard", "status"])
    silence = GaugeMetricFamily(
        "mainspring_heartbeat_age_seconds", "Age of the oldest heartbeat of ready workers.", labels=["shard"]
    )
    for shard, leader in leaders.items():
        memory = leader.shard.memory
        leads.add_metric([shard], 1)
        inbox.add_metric([shard], len(leader.inbox))
        for status, number in Tally(one.status for one in memory.workers.values()).items():
            workers.add_metric([shard, status.value], number)
        last_heartbeat = [one.last_heartbeat for one in memory.workers.values() if one.status is WorkerStatus.READY]
        if last_heartbeat:
            silence.add_metric([shard], max(0.0, memory.shard_time - min(last_heartbeat)))
    yield from (leads, inbox, workers, silence)


def _queued(leaders: Mapping[str, Leader]) -> GaugeMetricFamily:
    counts: Tally[tuple[str, Priority, str]] = Tally()
    for leader in leaders.values():
        memory, now = leader.shard.memory, leader.time.now()
        diagnosis = DiagnosisContext(memory, now)
        by_queue: dict[tuple[Priority, str], dict[str, int]] = {}
        for queue in memory.queues.queues():
            reason = (of_queue(diagnosis, queue).reason or Reason.PRIORITY_QUEUE_WAIT).value
            counts_by_reason = by_queue.setdefault((queue.priority, queue.tenant), {})
            counts_by_reason[reason] = counts_by_reason.get(reason, 0) + queue.length
        for (priority, tenant), depth in memory.queues.depth.items():
            for reason, share in _split(depth, by_queue.get((priority, tenant), {})).items():
                counts[tenant, priority, reason] += share
    tenants = bounded_labels(tenant for tenant, _, _ in counts)
    summed: Tally[tuple[str, str, str]] = Tally()
    for (tenant, priority, reason), number in counts.items():
        summed[tenants[tenant], priority.name, reason] += number
    return gauge("mainspring_tasks_queued", "Queued tasks.", ["tenant", "priority", "reason"], sorted(summed.items()))


def _split(depth: int, counts_by_reason: Mapping[str, int]) -> dict[str, int]:
    """Distribute a number of tasks over reasons in proportion to the queue lengths."""
    total = sum(counts_by_reason.values())
    if not total:
        return {Reason.PRIORITY_QUEUE_WAIT.value: depth}
    shares = {reason: depth * length // total for reason, length in counts_by_reason.items()}
    longest = max(shares, key=lambda reason: shares[reason])
    shares[longest] += depth - sum(shares.values())
    return {reason: share for reason, share in shares.items() if share}


def _oldest(leaders: Mapping[str, Leader]) -> GaugeMetricFamily:
    oldest: dict[Priority, float] = dict.fromkeys(Priority, 0.0)
    for leader in leaders.values():
        now = leader.time.now()
        for queue in leader.shard.memory.queues.queues():
            oldest[queue.priority] = max(oldest[queue.priority], (now - queue.since).total_seconds())
    ages = [((priority.name,), age) for priority, age in oldest.items()]
    return gauge("mainspring_queue_oldest_age_seconds", "Queue time of the oldest queued task.", ["priority"], ages)


def _used_by_tenants(leaders: Mapping[str, Leader]) -> GaugeMetricFamily:
    """Return the use of each tenant and, for tenants with a guarantee, the guarantee and the use beyond it."""
    used: Tally[str] = Tally()
    guaranteed_millis: Tally[str] = Tally()
    beyond: Tally[str] = Tally()
    for leader in leaders.values():
        memory, now = leader.shard.memory, leader.time.now()
        for tenant, use in memory.leases.use.items():
            used[tenant] += use.cpu_millis
        for tenant, row in memory.rules.quotas.items():
            guaranteed = row.at(now).guaranteed.cpu_millis
            if guaranteed:
                guaranteed_millis[tenant] += guaranteed
                beyond[tenant] += max(0, memory.leases.use.get(tenant, ZERO_RESOURCES).cpu_millis - guaranteed)
    cores = [
        ((tenant, kind), number / _CORE)
        for kind, millis in (("used", used), ("guaranteed", guaranteed_millis), ("burst", beyond))
        for tenant, number in largest(millis).items()
    ]
    return gauge("mainspring_tenant_slots", "Cores of tenants.", ["tenant", "kind"], cores)


def _leases_of_tenants(memories: list[ShardMemory]) -> GaugeMetricFamily:
    lease_counts: Tally[str] = Tally()
    for memory in memories:
        lease_counts.update(memory.leases.counts)
    leases = [((tenant,), number) for tenant, number in largest(lease_counts).items()]
    return gauge("mainspring_tenant_leases", "Leases of tenants on workers.", ["tenant"], leases)


def _slots(memories: list[ShardMemory]) -> GaugeMetricFamily:
    found: Tally[tuple[str, str]] = Tally()
    workers = [worker for memory in memories for worker in memory.workers.values() if worker.total.cpu_millis]
    zones = bounded_labels(worker.zone for worker in workers)
    for worker in workers:
        free = "free" if worker.status is WorkerStatus.READY and worker.accepts_work() else "held"
        found[zones[worker.zone], "used"] += worker.used.cpu_millis
        found[zones[worker.zone], free] += worker.total.cpu_millis - worker.used.cpu_millis
    cores = [(labels, millis / _CORE) for labels, millis in sorted(found.items())]
    return gauge("mainspring_worker_slots", "Cores of workers, by zone.", ["zone", "state"], cores)
