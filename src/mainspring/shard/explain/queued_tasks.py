"""Why a task that is queued has not started: through which gates it is, and which one holds it.

The gates stand in the order in which people understand them, from what holds everything to what holds one task for a
moment. Each is asked by the rule that the scheduler decides by (`shard/explain/rule_checks.py`,
`shard/explain/capacity_checks.py`); the first that holds is the answer, and those behind it are not reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from mainspring.core.explain import messages as words
from mainspring.core.explain.diagnosis import STALE_SECONDS, Gate, InTheWay, Passed, Reason
from mainspring.core.model.task import Preemptor
from mainspring.shard.explain import capacity_checks as room
from mainspring.shard.explain import rule_checks as rules
from mainspring.shard.explain.diagnosis_context import Look
from mainspring.shard.explain.findings import Finding, cannot_say, named
from mainspring.shard.explain.rule_checks import Hold

_BY_RULES: tuple[Callable[[Look], Hold | None], ...] = (
    rules.frozen, rules.resting, rules.forbidden, rules.store_is_slow, rules.circuit, rules.throttled,
    rules.over_quota, rules.grouped,
)  # fmt: skip
_BY_ROOM: tuple[Callable[[Look], Hold | None], ...] = (
    room.unmatched, room.oversized, room.in_pieces, room.outranked, room.outshared, room.roomless,
)  # fmt: skip
_FOR_ROOM = frozenset({Reason.NO_WORKER_CAPACITY, Reason.FRAGMENTED, Reason.PRIORITY_QUEUE_WAIT, Reason.FAIR_SHARE})


def queued(look: Look) -> Finding:
    """What a task waits for that is queued."""
    hold = held_by_rules(look) or held_by_room(look)
    found = _unheld(look) if hold is None else hold.tell()
    winner = None if look.task.trail is None else look.task.trail.preempted_for
    if found.reason in _FOR_ROOM and winner is not None:
        found = _preempted(look, found, winner)
    gates = tuple(_gates(look, "" if hold is None else hold.gate, found.says))
    return replace(found, gates=gates, ruled_out=_ruled_out(gates, found))


def held_by_rules(look: Look) -> Hold | None:
    """The first gate that holds a queued task whether or not there is room."""
    return next(filter(None, (ask(look) for ask in _BY_RULES)), None)


def held_by_room(look: Look) -> Hold | None:
    """The first gate that holds a queued task that may start."""
    return next(filter(None, (ask(look) for ask in _BY_ROOM)), None)


def _unheld(look: Look) -> Finding:
    """Nothing that is known holds it: it has just come, or nobody knows."""
    waited = (look.now - look.task.since).total_seconds()
    if waited > STALE_SECONDS:
        return Finding(
            reason=Reason.UNKNOWN,
            verdict=words.unknown(waited),
            expected=cannot_say("no cause is known"),
            numbers={"waited_seconds": waited},
        )
    return Finding(reason=None, verdict=words.is_next(), numbers={"waited_seconds": waited})


def _gates(look: Look, holding: str, says: str) -> Iterator[Gate]:
    """The gates that matter to a task, in order."""
    passed = Passed.YES
    for name in words.QUEUED_GATES:
        if name == holding:
            yield Gate(name=name, passed=Passed.HOLDS, says=says)
            passed = Passed.NOT_REACHED
        elif _matters(look, name):
            yield Gate(name=name, passed=passed, says=_says(look, name) if passed is Passed.YES else "")


def _matters(look: Look, gate: str) -> bool:
    """Whether a gate could hold a task, as the rules are and as it is defined."""
    memory, tenant = look.memory, look.task.tenant
    matters = {
        words.UPSTREAM: bool(look.run.parents(look.task.position)),
        words.POLICY: bool(memory.rules.policies),
        words.STORE: False,
        words.CIRCUIT: bool(memory.failing_jobs.open),
        words.FAILURES: memory.failures.has(tenant),
        words.QUOTA: tenant in memory.rules.quotas,
        words.GROUPS: bool(look.shape.groups or look.run.job.spec.groups),
    }
    return matters.get(gate, True)


def _says(look: Look, gate: str) -> str:
    """What a gate that is passed says in numbers."""
    if gate == words.UPSTREAM:
        upstream = len(look.run.parents(look.task.position))
        return f"{upstream:,}/{upstream:,}"
    if gate == words.QUOTA:
        most = look.memory.rules.quota(look.task.tenant, look.now).max_tasks
        return "" if most is None else f"{look.memory.rooms.get(look.task.tenant, 0)}/{most} tasks"
    if gate == words.MATCH:
        found = look.suiting()
        matching = found.suits or found.alike
        return f"{len(matching):,} of {len(look.memory.workers):,}" if found.is_all else ""
    return ""


def _ruled_out(gates: Iterable[Gate], found: Finding) -> tuple[str, ...]:
    """What is not the cause: the gates before the one that holds. Of what is unknown nothing is ruled out."""
    if found.reason in (None, Reason.UNKNOWN):
        return ()
    passed = (gate.name for gate in gates if gate.passed is Passed.YES)
    return (words.NOT_THE_CODE, *(words.RULED_OUT[name] for name in passed if name in words.RULED_OUT))


def _preempted(look: Look, found: Finding, winner: Preemptor) -> Finding:
    """It was preempted, and no worker has had capacity since."""
    task = look.task
    ran = None if task.started_at is None else (task.since - task.started_at).total_seconds()
    place = room.place_in_line(look) + 1
    verdict = words.preempted(task.since, ran, saved=task.position in look.run.checkpoints, place=place, now=look.now)
    numbers = found.numbers | {"place": float(place)} | ({} if ran is None else {"ran_seconds": ran})
    shown, others = named((_winner(winner), *found.in_the_way))
    others += found.others_in_the_way
    return replace(
        found, reason=Reason.PREEMPTED, verdict=verdict, in_the_way=shown, others_in_the_way=others, numbers=numbers
    )


def _winner(winner: Preemptor) -> InTheWay:
    """The run that it was preempted for."""
    says = f"preempted it: {winner}"
    return InTheWay(kind="run", id=winner.run, says=says, tenant=winner.tenant, priority=winner.priority)
