"""Checks of each pool: its leader and lease, freezes, and workers."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.core.text.durations import format_seconds
from mainspring.doctor.check_servers import ALIVE_SECONDS
from mainspring.doctor.facts import Facts, PoolFacts
from mainspring.doctor.health_check import Check, Question, format_count, format_list
from mainspring.protocol.rest.overviews import LeaseView, ServerHealthView
from mainspring.protocol.rest.runs import WorkerView

_RECENT_SECONDS = 86_400.0
"""Workers lost longer ago are not reported."""
_TAKEN_OVER_SECONDS = 10.0
"""Time within which another server takes over after a lease has expired."""
_START = "mainspring server --store URL"


def check_pools(facts: Facts) -> Iterator[Check]:
    """Run the checks of each pool. Checks that only report a problem are omitted if there is none."""
    for pool in facts.pools:
        yield from _check_pool(facts, pool)
    if facts.pools_skipped:
        topic = "Other pools"
        yield Question(topic, "other_pools", "Are the other pools healthy?").unknown(
            f"{format_count(facts.pools_skipped, 'pool')} not checked; name one with --pool (see `mainspring pools`)"
        )


def _check_pool(facts: Facts, pool: PoolFacts) -> Iterator[Check]:
    topic = f"Pool {pool.name}"
    yield _is_led(facts, pool, topic)
    yield from _frozen(facts, pool, topic)
    yield _has_workers(facts, pool, topic)
    yield from _lost_workers(facts, pool, topic)


def _is_led(facts: Facts, pool: PoolFacts, topic: str) -> Check:
    question = Question(topic, "pool_leader", "Does its leader answer?")
    leases = [] if facts.server_health is None else facts.server_health.leases
    lease = next((one for one in leases if one.pool == pool.name), None)
    if facts.server_health is None or lease is None:
        if pool.queue is not None:
            return question.yes("it does")
        return question.unknown(pool.fault)
    if lease.seconds <= 0:
        command = "" if _other_servers(facts.server_health, lease.leader) else _START
        state, advice = _takeover_advice(facts.server_health, lease)
        return question.no(f"pool_leader.{state}", _format_lost_leader(facts.server_health, lease), advice, command)
    if pool.queue is not None:
        return question.yes(f"{lease.leader} leads it")
    silent = _silent_seconds(facts.server_health, lease.leader)
    finding = f"{lease.leader} leads it and does not answer: {pool.fault}"
    if silent is not None and silent > ALIVE_SECONDS:
        finding += f"; last heartbeat {format_seconds(silent)} ago"
    others = _other_servers(facts.server_health, lease.leader)
    then = f"{format_list(others)} will take over" if others else "no other server can take over: start one"
    return question.no(
        "pool_leader.silent",
        finding,
        f"its lease expires in {format_seconds(lease.seconds)} unless renewed; then {then}",
        "" if others else _START,
    )


def _format_lost_leader(server_health: ServerHealthView, lease: LeaseView) -> str:
    if not lease.leader:
        return "it has never had a leader"
    silent = _silent_seconds(server_health, lease.leader)
    last_seen = f"last heartbeat {format_seconds(silent)} ago" if silent is not None else "now gone"
    return f"it has no leader: {lease.leader} led it until {format_seconds(-lease.seconds)} ago ({last_seen})"


def _takeover_advice(server_health: ServerHealthView, lease: LeaseView) -> tuple[str, str]:
    """Return the state of the failover, and what to do."""
    others = _other_servers(server_health, lease.leader)
    if not others:
        return "no_server", "no other server can take over: start one"
    if -lease.seconds <= _TAKEN_OVER_SECONDS:
        return "failing_over", f"wait {_TAKEN_OVER_SECONDS:.0f} s: {format_list(others)} will take over"
    advice = (
        f"{format_list(others)} should have taken over: check its log for `campaign.store_unavailable`, and restart it"
    )
    return "not_taken_over", advice


def _silent_seconds(server_health: ServerHealthView, name: str) -> float | None:
    return next((one.silent_seconds for one in server_health.servers if one.name == name), None)


def _other_servers(server_health: ServerHealthView, leader: str) -> list[str]:
    """Return the live servers other than the leader."""
    return [one.name for one in server_health.servers if one.name != leader and one.silent_seconds <= ALIVE_SECONDS]


def _frozen(facts: Facts, pool: PoolFacts, topic: str) -> Iterator[Check]:
    """Yield a failed check if the pool is frozen. The check of the whole installation covers the rest."""
    for freeze in facts.freezes:
        if (freeze.kind, freeze.subject) == ("pool", pool.name):
            why = f': "{freeze.why}"' if freeze.why else ""
            yield Question(topic, "pool_freeze", "Is it unfrozen?").no(
                "pool_freeze.frozen",
                f"frozen for {facts.age(freeze.since)} by {freeze.by}{why}",
                "running tasks continue; unfreeze it to start queued tasks",
                f"mainspring unfreeze pool {pool.name}",
            )


def _has_workers(facts: Facts, pool: PoolFacts, topic: str) -> Check:
    question = Question(topic, "pool_workers", "Does it have workers that accept tasks?")
    if (fault := facts.faults.get("workers")) is not None:
        return question.unknown(fault)
    here = [worker for worker in facts.workers if worker.pool == pool.name]
    ready = [worker for worker in here if worker.status == "ready"]
    taking = [worker for worker in ready if not worker.hold]
    held = [f"{worker.id} ({worker.hold}{_why_held(worker)})" for worker in ready if worker.hold]
    waits = pool.queue is not None and any(pool.queue.waiting.values())
    if taking:
        rest = f"; {len(held):,} more cordoned or draining: {format_list(held)}" if held else ""
        return question.yes(f"{format_count(len(taking), 'worker')}{rest}")
    if held:
        return question.no(
            "pool_workers.all_cordoned",
            f"all {len(held)} are cordoned or draining: {format_list(held)}",
            "uncordon them",
            f"mainspring uncordon {next(worker.id for worker in ready if worker.hold)}",
        )
    finding = f"none ready{_last_worker(here)}"
    if not waits and not here:
        return question.unknown("it has had no worker, and no task is queued")
    command = f"mainspring worker --server {facts.url}{pool.option}"
    return question.no("pool_workers.none_ready", finding, "start a worker for this pool", command)


def _last_worker(here: list[WorkerView]) -> str:
    if not here:
        return "; no worker has ever registered"
    last = max(here, key=lambda worker: worker.last_heartbeat_at)
    return f" of {len(here)}; {last.id} sent the last heartbeat, and is {last.status}"


def _why_held(worker: WorkerView) -> str:
    return f", {worker.hold_why}" if worker.hold_why else ""


def _lost_workers(facts: Facts, pool: PoolFacts, topic: str) -> Iterator[Check]:
    """Yield a failed check if workers were lost."""
    lost = [
        worker
        for worker in facts.workers
        if worker.pool == pool.name
        and worker.status == "lost"
        and (facts.at - worker.last_heartbeat_at).total_seconds() < _RECENT_SECONDS
    ]
    if lost:
        named = [f"{one.id} {facts.age(one.last_heartbeat_at)} ago" for one in lost]
        yield Question(topic, "lost_workers", "Do all workers send heartbeats?").no(
            "lost_workers.lost",
            f"{format_count(len(lost), 'worker')} lost: {format_list(named)}",
            "their tasks were rescheduled; check those machines, their network and their logs",
            f"mainspring show {lost[0].id}",
        )
