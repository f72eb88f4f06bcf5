"""Mutations of sharing: quotas, order, groups, freezes, reservations, preemption."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any
from unittest import mock

from msgspec.structs import replace

from mainspring.core.fairness.fair_queues import FairQueues
from mainspring.core.lifecycle.deadlines import DeadlineForecast, higher_priority
from mainspring.core.model.task import Priority, Task
from mainspring.core.model.worker import Lease, Worker
from mainspring.core.placement import preemption_policy
from mainspring.core.placement.preemption_policy import CapacityRequest
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard import decision_log, handlers
from mainspring.shard.events import TimerKind
from mainspring.shard.placement import concurrency_groups, dispatch, gates, reservations
from mainspring.shard.placement import preemption as preempting
from mainspring.shard.shard import Shard
from mainspring.shard.state.limit_ledger import LimitLedger
from mainspring.shard.state.limits import Limits
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import deadlines, progress
from mainspring.shard.turn import Turn
from tests.sim.mutation import Mutation, instead_of, patched, without, without_handler

_P2 = frozenset({Priority.P2})
_USE, _PREEMPTION = frozenset({"I-60"}), frozenset({"PLC-6"})
"""Findings that count as detection, where another check would detect the mutation first."""


def _for_anybody() -> AbstractContextManager[None]:
    free = property(lambda worker: worker.total - worker.used)
    return patched(
        mock.patch.object(Worker, "free", free),
        mock.patch.object(Worker, "free_for", lambda worker, _: worker.total - worker.used),
    )


@instead_of(ShardMemory, "open_lease")
def _counts_each(real: Any, self: ShardMemory, lease: Lease) -> None:
    """Each task of a group counts as usage of its tenant when it is placed."""
    real(self, lease)
    self.leases._counts[lease.tenant] += len(lease.members) - 1


@instead_of(preemption_policy, "_movable_leases")
def _promised_first(real: Any, wanted: CapacityRequest, *args: Any) -> Any:
    swap = {1: 2, 2: 1, 3: 4, 4: 3}
    for part in real(wanted, *args):
        yield part if wanted.mode is preemption_policy.Mode.RECLAIM else replace(part, rank=swap[part.rank])


@instead_of(preemption_policy, "_stages")
def _p1_first(real: Any, mode: preemption_policy.Mode) -> tuple[frozenset[Priority], ...]:
    return (frozenset({Priority.P1}), _P2) if mode is preemption_policy.Mode.PREEMPT else real(mode)


@instead_of(preempting, "_mode")
def _own_level(real: Any, turn: Turn, task: Task, shape: Shape) -> preemption_policy.Mode:
    """A P1 preempts P1 and P2 like a P0: the victim preempts it in turn."""
    return preemption_policy.Mode.PREEMPT if task.priority is Priority.P1 else real(turn, task, shape)


def _below_promises() -> AbstractContextManager[None]:
    return patched(
        mock.patch.object(preemption_policy, "keeps_guarantee", return_value=True),
        mock.patch.object(preemption_policy, "is_guaranteed", return_value=False),
    )


def _more_than_needed() -> AbstractContextManager[None]:
    """Any candidate is preempted, whether or not it helps."""

    def pick(needs: Any, room: Any, parts: Any) -> Any:
        chosen = list(parts)[:1]
        return chosen or None

    return patched(mock.patch.object(preemption_policy, "_pick", pick))


def _kept_in_mind() -> AbstractContextManager[None]:
    """A new leader does not restore reservations."""
    return patched(mock.patch.object(reservations, "restore", _unless_loading(reservations.restore)))


def _unless_loading(real: Callable[..., None]) -> Callable[..., None]:
    def restore(memory: ShardMemory, task: Task) -> None:
        if memory.shard_time > 0:
            real(memory, task)

    return restore


def _lowest_first() -> AbstractContextManager[None]:
    return patched(mock.patch.object(dispatch, "Priority", list(reversed(Priority))))


@instead_of(FairQueues, "take")
def _newest_first(real: Any, self: FairQueues, priority: Priority, tenant: str, shape: Shape, most: int) -> list[Task]:
    line = self._queues[priority][tenant][shape]
    line.reverse()
    try:
        return real(self, priority, tenant, shape, most)
    finally:
        line.reverse()


@instead_of(gates, "passes_over")
def _passed_over(real: Any, turn: Turn, priority: Priority, tenant: str) -> bool:
    """The first tenant gets nothing while others have tasks to place, or never."""
    return (tenant == "tenant0" and priority is Priority.P1) or real(turn, priority, tenant)


@instead_of(gates, "blocking_rule")
def _no_policies(real: Any, memory: ShardMemory, run: Any, now: datetime) -> tuple[str, str] | None:
    found = real(memory, run, now)
    return None if found is not None and found[0].startswith(gates.POLICY) else found


def _no_zones() -> AbstractContextManager[None]:
    real = Limits.set_rules

    def set_rules(self: Limits, rules: Any) -> None:
        real(self, rules)
        self.zones = ()

    return patched(mock.patch.object(Limits, "set_rules", set_rules))


def _no_slots() -> AbstractContextManager[None]:
    """Admitted runs do not count: each finds the whole share free."""
    return patched(mock.patch.object(LimitLedger, "take", return_value=None), mock.patch.object(
        LimitLedger, "release", lambda self, limits: self.freed.update(limits)
    ))  # fmt: skip


@instead_of(concurrency_groups, "left")
def _whole_limit(real: Any, memory: ShardMemory, group: Any, now: datetime) -> int:
    """A shard uses the limit of the group instead of its own share."""
    if group.per_seconds is not None:
        return real(memory, group, now)
    return int(group.most - memory.limits.ledger.use.get(group.limit, 0))


@instead_of(Shard, "load")
def _old_rules(real: Any, self: Shard, *args: Any, **kwargs: Any) -> None:
    """A new leader begins without the rules."""
    rules = kwargs.pop("rules")
    real(self, *args, **kwargs)
    self.memory.limits.rules = replace(rules, quotas={}, freezes=())


@instead_of(progress, "queue_again")
def _counts_as_a_try(real: Any, turn: Turn, run: Any, task: Task, **kwargs: Any) -> None:
    if "preempted" in kwargs["because"] and task.tries + 1 < run.spec(task.position).max_attempts:
        task.tries += 1
    real(turn, run, task, **kwargs)


@instead_of(decision_log, "_note")
def _tells_of_another(real: Any, turn: Turn, *args: Any, worker: Worker | None = None, **kwargs: Any) -> None:
    others = [one for one in turn.memory.workers.values() if worker is not None and one is not worker]
    real(turn, *args, worker=others[0] if others else worker, **kwargs)


def _without_a_grant() -> AbstractContextManager[None]:
    """A run at risk gets P0 without a grant."""

    def higher(priority: Priority, *, may_have_p0: bool) -> Priority | None:
        return higher_priority(priority, may_have_p0=True)

    return patched(mock.patch.object(deadlines, "higher_priority", higher))


def _never_at_risk() -> AbstractContextManager[None]:
    return patched(mock.patch.object(DeadlineForecast, "is_at_risk", property(lambda _: False)))


def _at_risk_in_mind() -> AbstractContextManager[None]:
    """A risk alert is sent, but not written."""
    real = deadlines._at_risk

    def at_risk(turn: Turn, run: RunMemory, outlook: DeadlineForecast) -> None:
        real(turn, run, outlook)
        run.run.at_risk_at = None

    return patched(mock.patch.object(deadlines, "_at_risk", at_risk))


SHARING_MUTATIONS = (
    Mutation("reservation", "reserved capacity is free for all tasks", _for_anybody, 2, only=_PREEMPTION),
    Mutation("a group counts once", "each task of a group counts as a lease of its tenant", _counts_each, 6, only=_USE),
    Mutation("burst before guaranteed", "guaranteed tasks are preempted first", _promised_first, 415, only=_PREEMPTION),
    Mutation("P2 before P1", "a P0 preempts P1 first", _p1_first, 3),
    Mutation(
        "no level evicts itself", "a P1 preempts a P1, which preempts it in turn", _own_level, 7, only=_PREEMPTION
    ),
    Mutation("guarantee of a victim", "reclaiming leaves others below their guarantee", _below_promises, 185),
    Mutation("nothing without a gain", "a task is preempted even if that does not help", _more_than_needed, 3),
    Mutation(
        "time of a reservation",
        "a reservation never ends",
        without_handler(handlers.TIMERS, TimerKind.RESERVATION),
        25,
        only=_PREEMPTION,
    ),
    Mutation(
        "reservation of a new leader", "a new leader does not know reservations", _kept_in_mind, 3, only=_PREEMPTION
    ),
    Mutation("strict priority", "the lowest priority is placed first", _lowest_first, 5, only=frozenset({"I-62"})),
    Mutation("first come", "the youngest task of a queue is placed first", _newest_first, 2, only=frozenset({"PLC-4"})),
    Mutation("first come, after a take-over", "queues are in the order of the tables", without(FairQueues, "sort"), 3),
    Mutation(
        "no tenant is passed over", "P1 tasks of one tenant are never placed", _passed_over, 33, only=frozenset({"L-6"})
    ),
    Mutation("quota", "quotas are ignored", without(gates, "exceeds")),
    Mutation("freeze", "freezes of a tenant are ignored", without(gates, "freeze_over"), 2),
    Mutation("policy", "policies are ignored", _no_policies, 30),
    Mutation("zones of a pool", "zones of the pool are ignored", _no_zones, 35),
    Mutation("slot of a group", "admitted runs and tasks do not count", _no_slots, 2),
    Mutation("share of a group", "a shard uses the whole limit instead of its share", _whole_limit, 2),
    Mutation("rate of a group", "starts are not deducted from the allowance", without(LimitLedger, "spend"), 5),
    Mutation("rules of a new leader", "a new leader begins without quotas and freezes", _old_rules),
    Mutation("preempted attempts", "a preempted attempt counts", _counts_as_a_try),
    Mutation("log of placements", "the decision log names another worker than the chosen one", _tells_of_another),
    Mutation("grant of an escalation", "a run at risk gets P0 without a grant", _without_a_grant, 3),
    Mutation("at risk before late", "no run is ever at risk", _never_at_risk, 6),
    Mutation("at risk is written", "a run at risk is not recorded in its row", _at_risk_in_mind, 3),
    Mutation("log of preemptions", "the decision log does not list the victims", without(decision_log, "preempts"), 2),
)
