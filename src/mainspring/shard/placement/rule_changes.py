"""Other rules about who may use what, or a part of them whose time is over: what follows at once.

What waited for something that is no more comes back; what is assigned in groups, has not started and is frozen or
forbidden by now is called back. Running work goes on (OPS-3).
"""

from __future__ import annotations

from datetime import datetime

from mainspring.core.model.task import Task, TaskState
from mainspring.protocol.wire import Recall
from mainspring.shard.events import Ruled, TimerDue, TimerKind
from mainspring.shard.placement import concurrency_groups, gates
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.turn import Turn


def rule(turn: Turn, event: Ruled) -> None:
    """Go by these rules from now on."""
    memory = turn.memory
    before, zones = memory.rules, memory.zones
    memory.rule(event.rules)
    concurrency_groups.rule(memory, before.groups)
    if memory.zones != zones:
        memory.queues.wake(lambda _: True, may_try=lambda shape: shape not in memory.barred)
    _let_go(turn)
    _call_back(turn)
    watch(memory, turn.now)


def due(turn: Turn) -> None:
    """Something of the rules is over, or has begun."""
    _let_go(turn)
    watch(turn.memory, turn.now)


def watch(memory: ShardMemory, now: datetime) -> None:
    """Have a timer come up when the first thing of the rules begins or is over by itself."""
    rules = memory.rules
    ends = [row.until for row in rules.freezes]
    ends += [row.changes_at(now) for row in rules.quotas.values()]
    coming = [end for end in ends if end is not None and end > now]
    if coming:
        memory.set_instant(min(coming), TimerDue(kind=TimerKind.RULES, subject="", stamp=rules.version))


def _let_go(turn: Turn) -> None:
    """Let come back what was set aside for a freeze that is over, or for a policy: that is looked at again."""
    memory = turn.memory
    frozen = {gates.freeze_of_job(name) for name, row in memory.frozen_jobs.items() if row.holds_at(turn.now)}
    for subject in memory.asides.subjects():
        if subject.startswith(gates.POLICY) or (subject.startswith(gates.FREEZE) and subject not in frozen):
            memory.asides.call_back(subject)


def _call_back(turn: Turn) -> None:
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
    if gates.freezes(memory, task.tenant, now) is not None:
        return True
    return gates.hinders_run(memory, memory.runs[task.run_id], now) is not None
