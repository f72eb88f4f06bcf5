"""Why a queued task has not started: the gates that it has passed, and the one that holds it.

Gates are ordered from global to momentary. Each is checked by the rule that the scheduler decides by
(`shard/explain/rule_checks.py`, `shard/explain/capacity_checks.py`); the first that holds is the answer, and later
ones are not reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from mainspring.core.explain import messages as words
from mainspring.core.explain.diagnosis import STALE_SECONDS, Blocker, Expected, Gate, GateState, Reason
from mainspring.core.model.task import Preemptor
from mainspring.shard.explain import capacity_checks as capacity
from mainspring.shard.explain import rule_checks as rules
from mainspring.shard.explain.diagnosis_context import TaskContext
from mainspring.shard.explain.findings import Blockers, Finding, lease_count, named
from mainspring.shard.explain.rule_checks import GateBlock

_BY_RULES: tuple[Callable[[TaskContext], GateBlock | None], ...] = (
    rules.frozen, rules.paused, rules.forbidden, rules.store_is_slow, rules.circuit, rules.throttled,
    rules.over_quota, rules.grouped,
)  # fmt: skip
_BY_CAPACITY: tuple[Callable[[TaskContext], GateBlock | None], ...] = (
    capacity.unmatched, capacity.oversized, capacity.fragmented, capacity.outranked, capacity.outshared,
    capacity.lacking_capacity,
)  # fmt: skip
_FOR_CAPACITY = frozenset({Reason.NO_WORKER_CAPACITY, Reason.FRAGMENTED, Reason.PRIORITY_QUEUE_WAIT, Reason.FAIR_SHARE})


def queued(context: TaskContext) -> Finding:
    """Find the reason of a queued task."""
    block = held_by_rules(context) or held_by_capacity(context)
    found = _unheld(context) if block is None else block.describe()
    winner = None if context.task.trail is None else context.task.trail.preempted_for
    if found.reason in _FOR_CAPACITY and winner is not None:
        found = _preempted(context, found, winner)
    gates = tuple(_gates(context, "" if block is None else block.gate, found.says))
    return replace(found, gates=gates, ruled_out=_ruled_out(gates, found))


def held_by_rules(context: TaskContext) -> GateBlock | None:
    """The first gate that holds a queued task regardless of capacity."""
    return next(filter(None, (ask(context) for ask in _BY_RULES)), None)


def held_by_capacity(context: TaskContext) -> GateBlock | None:
    """The first capacity gate that holds a queued task."""
    return next(filter(None, (ask(context) for ask in _BY_CAPACITY)), None)


def _unheld(context: TaskContext) -> Finding:
    """No known gate holds it: it has just come, or the cause is unknown."""
    waited = (context.now - context.task.since).total_seconds()
    if waited > STALE_SECONDS:
        return Finding(
            reason=Reason.UNKNOWN,
            verdict=words.unknown(waited),
            expected=Expected.unknown("no cause is known"),
            numbers={"waited_seconds": waited},
        )
    return Finding(reason=None, verdict=words.is_next(), numbers={"waited_seconds": waited})


def _gates(context: TaskContext, holding: str, says: str) -> Iterator[Gate]:
    """The relevant gates of a task, in order."""
    passed = GateState.YES
    for name in words.QUEUED_GATES:
        if name == holding:
            yield Gate(name, GateState.HOLDS, says)
            passed = GateState.NOT_REACHED
        elif _matters(context, name):
            yield Gate(name, passed, _says(context, name) if passed is GateState.YES else "")


def _matters(context: TaskContext, gate: str) -> bool:
    """Return whether a gate could hold a task, given the rules and its definition."""
    memory, tenant = context.memory, context.task.tenant
    matters = {
        words.UPSTREAM: bool(context.run.parents(context.task.position)),
        words.POLICY: bool(memory.rules.policies),
        words.STORE: False,
        words.CIRCUIT: bool(memory.limits.job_breakers.open),
        words.FAILURES: memory.limits.failures.has(tenant),
        words.QUOTA: tenant in memory.rules.quotas,
        words.GROUPS: bool(context.shape.groups or context.run.job.spec.groups),
    }
    return matters.get(gate, True)


def _says(context: TaskContext, gate: str) -> str:
    """Numbers of a gate that is passed."""
    if gate == words.UPSTREAM:
        upstream = len(context.run.parents(context.task.position))
        return f"{upstream:,}/{upstream:,}"
    if gate == words.QUOTA:
        most = context.memory.rules.quota(context.task.tenant, context.now).max_tasks
        return "" if most is None else f"{lease_count(context.memory, context.task.tenant)}/{most} tasks"
    if gate == words.MATCH:
        found = context.match_workers()
        matching = found.matches or found.same_kind
        return f"{len(matching):,} of {len(context.memory.workers):,}" if found.is_all else ""
    return ""


def _ruled_out(gates: Iterable[Gate], found: Finding) -> tuple[str, ...]:
    """List the gates before the one that holds: they are not the cause. For an unknown cause nothing is ruled out."""
    if found.reason in (None, Reason.UNKNOWN):
        return ()
    passed = (gate.name for gate in gates if gate.passed is GateState.YES)
    return (words.NOT_THE_CODE, *(words.RULED_OUT[name] for name in passed if name in words.RULED_OUT))


def _preempted(context: TaskContext, found: Finding, winner: Preemptor) -> Finding:
    """The task was preempted, and no worker has had capacity since."""
    task = context.task
    ran = None if task.started_at is None else (task.since - task.started_at).total_seconds()
    place = capacity.queue_position(context) + 1
    verdict = words.preempted(
        task.since, ran, saved=task.position in context.run.checkpoints, place=place, now=context.now
    )
    numbers = found.numbers | {"place": float(place)} | ({} if ran is None else {"ran_seconds": ran})
    blockers = named((_winner(winner), *found.blockers.shown))
    blockers = Blockers(blockers.shown, blockers.more + found.blockers.more)
    return replace(found, reason=Reason.PREEMPTED, verdict=verdict, blockers=blockers, numbers=numbers)


def _winner(winner: Preemptor) -> Blocker:
    """The run that it was preempted for."""
    says = f"preempted it: {winner}"
    return Blocker("run", winner.run, says, winner.tenant, winner.priority)
