"""Apply changed or expired sharing rules.

Tasks blocked by a rule that is gone are released; unstarted tasks of groups that are frozen or forbidden now are
recalled. Running tasks continue (OPS-3).
"""

from __future__ import annotations

from datetime import datetime

from mainspring.core.model.task import Task, TaskState
from mainspring.protocol.wire import Recall
from mainspring.shard.events import RulesChanged, TimerDue, TimerKind
from mainspring.shard.placement import concurrency_groups, gates
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.turn import Turn


def apply_rules(turn: Turn, event: RulesChanged) -> None:
    """Apply changed rules."""
    memory = turn.memory
    before, zones = memory.rules, memory.limits.zones
    memory.set_rules(event.rules)
    concurrency_groups.apply_rules(memory, before.groups)
    if memory.limits.zones != zones:
        memory.queues.wake(lambda _: True, may_try=lambda shape: shape not in memory.queues.faulty)
    _release_blocked(turn)
    _recall_blocked(turn)
    watch(memory, turn.now)


def due(turn: Turn, _timer: TimerDue) -> None:
    """A rule has begun or ended."""
    _release_blocked(turn)
    watch(turn.memory, turn.now)


def watch(memory: ShardMemory, now: datetime) -> None:
    """Set a timer for the next time at which a rule begins or ends."""
    rules = memory.rules
    ends = [row.until for row in rules.freezes]
    ends += [row.changes_at(now) for row in rules.quotas.values()]
    coming = [end for end in ends if end is not None and end > now]
    if coming:
        memory.timers.set_at(min(coming), TimerKind.RULES, "", rules.version)


def _release_blocked(turn: Turn) -> None:
    """Release tasks blocked by an ended freeze, or by a policy: these are checked again."""
    memory = turn.memory
    frozen = {gates.freeze_of_job(name) for name, row in memory.limits.frozen_jobs.items() if row.holds_at(turn.now)}
    for subject in memory.queues.blocked.subjects():
        if subject.startswith(gates.POLICY) or (subject.startswith(gates.FREEZE) and subject not in frozen):
            memory.queues.blocked.release(subject)


def _recall_blocked(turn: Turn) -> None:
    memory = turn.memory
    if not (memory.rules.freezes or memory.rules.policies):
        return
    for lease in memory.leases.values():
        if len(lease.members) > 1:
            waiting = tuple(attempt for attempt, task in lease.members.items() if _may_not_start(turn, task))
            worker = memory.workers[lease.worker_id]
            if waiting and worker.session:
                turn.send(worker, Recall(waiting))


def _may_not_start(turn: Turn, task: Task) -> bool:
    memory, now = turn.memory, turn.now
    if task.state is not TaskState.ASSIGNED:
        return False
    if gates.freeze_over(memory, task.tenant, now) is not None:
        return True
    return gates.blocking_rule(memory, memory.runs[task.run_id], now) is not None
