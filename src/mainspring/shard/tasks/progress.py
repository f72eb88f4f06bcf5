"""Progress of a run: a task is created, becomes ready, ends, and notifies its children (DAG-1, DAG-3, DAG-4).

A task waits until all of its upstream tasks have notified it (`waiting`), and is decided then. When a task ends, it
notifies its children one after another: a propagation. A propagation to 100,000 children exceeds a batch and continues
in later turns; it needs no row, because a new leader counts from the states. Members of a fan-out have no
children: when the last of them has ended, the children of the template are notified.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mainspring.core.expressions.grammar import keys_of
from mainspring.core.graph.fan_out import full_name
from mainspring.core.lifecycle.failure_policy import FailureClass
from mainspring.core.lifecycle.readiness import Decision, Upstream, decide, decide_when
from mainspring.core.lifecycle.states import FINAL, UNSUCCESSFUL, reopen
from mainspring.core.limits.token_bucket import PacedOperation
from mainspring.core.model.batch import BulkOperationKind
from mainspring.core.model.run import FailurePolicy
from mainspring.core.model.task import Origin, Task, TaskState
from mainspring.protocol.errors import Broken
from mainspring.protocol.ids import child_task_id, task_id
from mainspring.shard.events import PropagationStep, TaskUndecided, TimerDue
from mainspring.shard.state.dynamic_tasks import FanOut
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import circuit_breakers, inputs, run_pacing
from mainspring.shard.tasks import fan_out as expansions
from mainspring.shard.turn import Turn

S = TaskState
_NOT_SUCCEEDED = FINAL - {S.SUCCEEDED}
REPLACED = "its creator was restarted"
LIST_REBUILT = "the source of its list was restarted"
_READY = Decision(state=S.QUEUED, because="dependencies met")


class Step(StrEnum):
    """Result of a step of work that may exceed a batch."""

    DONE = "done"
    MORE = "more"
    """The turn's budget is used up."""
    LATER = "later"
    """The run has used up its pace, and others wait."""


def create_task(turn: Turn, run: RunMemory, position: int) -> None:
    """Create the next task of a run from its definition."""
    _make(turn, run, task_id(run.run.id, position), run.job.tasks[position].name, position)


def create_child(turn: Turn, run: RunMemory, creator: Task, position: int) -> None:
    """Create the next task of a run that `creator` adds: by its list, or by its output."""
    if run.dynamic_tasks is None:
        raise Broken(f"{run.run.id} can't have dynamic tasks")
    fan_out = run.dynamic_tasks.fan_outs.get(creator.position)
    if fan_out is not None:
        generation, index, total = fan_out.generation, position - fan_out.first, fan_out.total
        name, label = creator.name, expansions.label(run, fan_out, index)
    else:
        added = run.dynamic_tasks.added[creator.position]
        generation, index, total = creator.generation, position - added.start, len(added)
        name, label = run.spec(position).name, ""
    origin = Origin(parent=creator.position, generation=generation, index=index, total=total, label=label)
    _make(turn, run, child_task_id(run.run.id, creator.position, generation, index), name, position, origin)


def _make(turn: Turn, run: RunMemory, id: str, name: str, position: int, origin: Origin | None = None) -> None:
    """Create a task, and decide it at once if nothing upstream is open."""
    row = run.run
    task = Task(
        id=id, run_id=row.id, shard=row.shard, tenant=row.tenant, name=name, position=position, priority=row.priority,
        since=turn.now, origin=origin,
    )  # fmt: skip
    run.tasks.append(task)
    waiting = count_waiting(run, position)
    task.because = f"waiting for {waiting} upstream" if waiting else "created"
    run.waiting.append(waiting)
    run.counts[S.PENDING] = run.counts.get(S.PENDING, 0) + 1
    turn.create(task)
    if not waiting or run.is_stopped():
        free(turn, run, task)


def count_waiting(run: RunMemory, position: int) -> int:
    """Number of upstream tasks that have not notified a task."""
    return sum(1 for parent in run.parents(position) if not _has_notified(run, parent, position))


def free(turn: Turn, run: RunMemory, task: Task) -> None:
    """Decide a PENDING task that waits for nothing upstream, or whose run is stopped."""
    if run.is_stopped():
        cancel_unstarted(turn, run, task)
        return
    if run.is_suspended():
        return
    decision: Decision | None = _decide(run, task)
    if decision is not None and decision.state is S.QUEUED:
        excess = inputs.excess(run, task.position)
        if excess is not None:
            decision = Decision(state=S.FAILED, because=excess)
        elif task.origin is None and task.position in run.job.templates:
            decision = expansions.fan_out(turn, run, task)
    if decision is None:
        return
    is_watched = task.trail is not None or turn.memory.limits.job_breakers.open
    if decision.state is S.QUEUED and is_watched and circuit_breakers.is_held(turn, run, task):
        return
    if decision.state is not S.QUEUED:
        turn.touch(task)
        task.cause = decision.cause
        task.ended_at = turn.now
        if decision.state is S.FAILED:
            task.error = fault(decision.because)
    turn.move(task, decision.state, by="shard", because=decision.because)
    if task.state in FINAL:
        ended(turn, run, task)


def free_if_ready(turn: Turn, run: RunMemory, task: Task) -> None:
    """Decide a task if it is PENDING, and waits for nothing."""
    if task.state is S.PENDING and not run.waiting[task.position] and task.due_at is None:
        free(turn, run, task)


def count_again(turn: Turn, run: RunMemory, task: Task) -> None:
    """Count the open upstream tasks of a task again, and decide it if there are none."""
    run.waiting[task.position] = count_waiting(run, task.position)
    free_if_ready(turn, run, task)


def restart(turn: Turn, run: RunMemory, task: Task, *, by: str, because: str) -> None:
    """Make a final task PENDING again, at the current priority of its run."""
    start = task.state
    task.priority = run.run.priority
    turn.batch.transitions.append(reopen(task, now=turn.now, by=by, because=because))
    turn.recount(task, start)


def retry_due(turn: Turn, timer: TimerDue) -> None:
    """End the delay of a task, unless it has changed since the timer was set."""
    task = turn.memory.runs.find(timer.subject)
    if task is None or task.state is not TaskState.PENDING or task.seq != timer.stamp or task.due_at is None:
        return
    run = turn.memory.runs[task.run_id]
    turn.touch(task)
    task.due_at = None
    run.delayed -= 1
    if run.waiting[task.position]:
        turn.mark(run)  # No task changes state, but one less is delayed: the run's state may change.
    else:
        free(turn, run, task)


def fault(message: str) -> str:
    """A fault of the task itself, as an error that is not retried."""
    return msgspec.json.encode({"class": FailureClass.PERMANENT, "message": message}).decode()


def queue_again(turn: Turn, run: RunMemory, task: Task, *, by: str, because: str) -> None:
    """Queue a task again, unless its run is stopped or suspended, or its upstream tasks have changed."""
    if run.is_stopped():
        cancel_unstarted(turn, run, task)
        return
    if task.origin is not None and run.is_replaced(task):
        cancel(turn, run, task, by=by, because=REPLACED)
        return
    turn.move(task, S.QUEUED, by=by, because=because)
    if run.is_suspended():
        turn.move(task, S.PENDING, by=by, because="the run is paused")
    elif run.waiting[task.position]:
        turn.move(task, S.PENDING, by=by, because="waiting for upstream")
    elif _decide(run, task).state is not S.QUEUED:
        turn.move(task, S.PENDING, by=by, because="an upstream task has ended differently since")
        free(turn, run, task)


def cancel_unstarted(turn: Turn, run: RunMemory, task: Task) -> None:
    """Cancel a task that no worker holds, for the reason that its run stopped."""
    row = run.run
    if row.cancelled_by is not None:
        cancel(turn, run, task, by=row.cancelled_by, because="the run was cancelled")
    elif row.timed_out:
        cancel(turn, run, task, by="shard", because="the run timed out")
    else:
        because = f"{row.failed_task} failed (fail_fast)"
        cancel(turn, run, task, by="shard", because=because, cause=row.failed_task)


def cancel(turn: Turn, run: RunMemory, task: Task, *, by: str, because: str, cause: str | None = None) -> None:
    """End a task that no worker holds, without a result."""
    turn.touch(task)
    task.cause = cause
    task.ended_at = turn.now
    turn.move(task, S.CANCELLED, by=by, because=because)
    ended(turn, run, task)


def ended(turn: Turn, run: RunMemory, task: Task) -> None:
    """A task is final: notify its children, and stop the run if the job fails fast."""
    if task.origin is not None and run.is_replaced(task):
        if task.origin.parent == task.position:
            start_over(turn, run, task)
        return
    fan_out = None if task.origin is None else run.fan_out_of(task)
    source = task.position
    if fan_out is not None:
        fan_out.open -= 1
        source = fan_out.position
    if (fan_out is None or not fan_out.open) and run.children(source):
        run.propagations[source] = 0
        turn.memory.backlog.add(PropagationStep(run_id=task.run_id, position=source))
    fails_fast = run.job.spec.on_failure is FailurePolicy.FAIL_FAST
    if fails_fast and task.state in UNSUCCESSFUL and run.run.failed_task is None:
        run.run.failed_task = task.id
        turn.mark(run)
        if run.run.task_count > 1:
            turn.open_bulk_operation(run, BulkOperationKind.FAIL_FAST, by="shard", why=f"{full_name(task)} failed")


def expand(turn: Turn, run: RunMemory, task: Task, output: str | None) -> str | None:
    """Apply the output of a task that has not ended yet; return what is wrong with it, if anything."""
    fault = expansions.expand(turn, run, task, output)
    if fault is None and run.dynamic_tasks is not None:
        for position in run.dynamic_tasks.extended[task.position]:
            if position < len(run.tasks):
                run.waiting[position] = count_waiting(run, position)
    return fault


def start_over(turn: Turn, run: RunMemory, template: Task) -> None:
    """Restart the template of a fan-out that has ended as member 0, because its list is rebuilt."""
    turn.touch(template)
    if run.is_stopped():
        template.cause = run.run.failed_task
        run.counts[template.state] = run.counts.get(template.state, 0) + 1
        template.origin = None
        ended(turn, run, template)
        return
    restart(turn, run, template, by="shard", because=LIST_REBUILT)
    template.origin = None
    count_again(turn, run, template)


def decide_again(turn: Turn, event: TaskUndecided) -> None:
    """Decide a task that was found while loading, if it is ready."""
    turn.memory.backlog.undecided.discard(event)
    run = turn.memory.runs.get(event.run_id)
    if run is not None:
        free_if_ready(turn, run, run.tasks[event.position])


def step(turn: Turn, event: PropagationStep) -> None:
    """Notify more children of an ended task. A held run is skipped until a person resumes it."""
    backlog, run = turn.memory.backlog, turn.memory.runs.get(event.run_id)
    backlog.propagations.discard(event)
    if run is None or run.run.held is not None or event.position not in run.propagations:
        return
    end = propagate(turn, run, event.position)
    if end is Step.MORE:
        backlog.propagations.appendleft(event)
    elif end is Step.LATER:
        run_pacing.defer(turn.memory, run, PacedOperation.READINESS, event)


def propagate(turn: Turn, run: RunMemory, position: int) -> Step:
    """Notify the children of an ended task, within the turn's budget and the run's pace."""
    children = run.children(position)
    notified = run.propagations[position]
    ready = run.counts.get(S.QUEUED, 0)
    most = run_pacing.allowance(turn.memory, run, PacedOperation.READINESS, len(children) - notified)
    end = Step.DONE
    while notified < len(children):
        if turn.spent():
            end = Step.MORE
            break
        if most is not None and run.counts.get(S.QUEUED, 0) - ready >= most:
            end = Step.LATER
            break
        child = children[notified]
        notified += 1
        if child < len(run.tasks):
            run.propagations[position] = notified
            if run.dynamic_tasks is None or position in run.parents(child):
                _notify_child(turn, run, child)
    if most is not None:
        run_pacing.charge(turn.memory, run, PacedOperation.READINESS, run.counts.get(S.QUEUED, 0) - ready)
    if end is Step.DONE:
        del run.propagations[position]
    else:
        run.propagations[position] = notified
    return end


def _notify_child(turn: Turn, run: RunMemory, position: int) -> None:
    task = run.tasks[position]
    if task.state in FINAL:
        return
    run.waiting[position] -= 1
    if not run.waiting[position]:
        free_if_ready(turn, run, task)


def _has_notified(run: RunMemory, parent: int, child: int) -> bool:
    notified = run.propagations.get(parent)
    if run.dynamic_tasks is None:
        if run.tasks[parent].state not in FINAL:
            return False
        return notified is None or (notified > 0 and run.job.downstream[parent][notified - 1] >= child)
    fan_out = run.dynamic_tasks.fan_outs.get(parent)
    is_made = parent < len(run.tasks)
    is_over = not fan_out.open if fan_out is not None else is_made and run.tasks[parent].state in FINAL
    return is_over and (notified is None or run.template_position(child) in run.children(parent)[:notified])


def _decide(run: RunMemory, task: Task) -> Decision:
    """Decide a task. The condition of a fan-out member was checked before: nothing that it reads has changed since."""
    if task.origin is not None and run.is_replaced(task):
        return Decision(state=S.CANCELLED, because=REPLACED)
    decision = _decide_by_upstreams(run, task)
    when = run.spec(task.position).when
    if when is None or decision.state is not S.QUEUED or run.fan_out_of(task) is not None:
        return decision
    keys = keys_of(when, "outputs")
    parents = run.parents(task.position)
    named = [_as_upstream(run, number) for number in parents if keys is None or run.tasks[number].name in keys]
    return decide_when(when, named, run.run.params) or decision


def _decide_by_upstreams(run: RunMemory, task: Task) -> Decision:
    """Decide a task by its upstream tasks. If all went well and there are no edge conditions, the answer is known.

    (Describing a fan-in of 100,000 to the rule would take 100 ms.)
    """
    parents = run.parents(task.position)
    if not parents:
        return _READY
    conditions = run.conditions(task.position)
    if conditions is None and not any(run.counts.get(state) for state in _NOT_SUCCEEDED):
        return _READY
    upstreams: list[Upstream] = []
    for number in parents:
        fan_out = run.fan_out_at(number)
        when = conditions.get(number) if conditions else None
        if fan_out is not None:
            upstreams += _describe(run, fan_out, when)
        else:
            upstreams.append(_upstream(run.tasks[number], when))
    return decide(run.job.spec.on_failure, run.spec(task.position).on_skip, upstreams, run.run.params)


def decide_early(run: RunMemory, task: Task) -> Decision | None:
    """The decision about a waiting task, if upstream results have settled it already: it will never be queued.

    For diagnosis. Other upstream results may change the reason, but never start the task.
    """
    conditions = run.conditions(task.position) or {}
    if not conditions and not any(run.counts.get(state) for state in _NOT_SUCCEEDED):
        return None
    over: list[Upstream] = []
    for number in run.parents(task.position):
        made = (run.tasks[position] for position in run.created_at(number))
        when = conditions.get(number) if run.fan_out_at(number) is None else None
        over += [_upstream(one, when) for one in made if one.state in _NOT_SUCCEEDED or (when and one.state in FINAL)]
    decision = decide(run.job.spec.on_failure, run.spec(task.position).on_skip, over, run.run.params)
    return None if decision.state is S.QUEUED else decision


def _upstream(parent: Task, when: str | None) -> Upstream:
    return Upstream(
        id=parent.id, name=full_name(parent), state=parent.state, output=parent.output, cause=parent.cause, when=when
    )


def _as_upstream(run: RunMemory, position: int) -> Upstream:
    """An upstream for a task's own condition: a fan-out with all outputs, and how it ended."""
    fan_out = run.fan_out_at(position)
    if fan_out is None:
        return _upstream(run.tasks[position], None)
    members = [run.tasks[number] for number in fan_out.members()]
    first = min((task for task in members if task.state is not S.SUCCEEDED), key=full_name, default=members[0])
    return Upstream(
        id=first.id, name=members[0].name, state=first.state, output=inputs.gathered(run, fan_out), cause=first.cause
    )


def _describe(run: RunMemory, fan_out: FanOut, when: str | None) -> list[Upstream]:
    """A fan-out as upstreams for the rule: each member that did not succeed, and one for all the others."""
    members = [run.tasks[position] for position in fan_out.members()]
    found = [_upstream(task, None) for task in members if task.state is not S.SUCCEEDED]
    if len(found) < len(members):
        whole = members[0]
        output = inputs.gathered(run, fan_out) if when is not None else None
        found.append(Upstream(id=whole.id, name=whole.name, state=S.SUCCEEDED, output=output, when=when))
    return found
