"""How a run moves on: a task is made, becomes free, ends, and its children hear of it (DAG-1, DAG-3, DAG-4).

A task waits for all of its upstreams to be heard of (`waiting`), and is decided then. When a task ends, its children
are told one after another: a ripple. A ripple to 100,000 children exceeds a batch and goes on in later turns; it needs
no row, because a new leader counts from the states.
"""

from __future__ import annotations

from mainspring.core.batch import SpreadKind
from mainspring.core.readiness import Decision, Upstream, decide
from mainspring.core.runs import FailurePolicy
from mainspring.core.states import FINAL, UNSUCCESSFUL
from mainspring.core.tasks import Task, TaskState
from mainspring.ids import task_id
from mainspring.shard.memory import RunMemory
from mainspring.shard.turn import Turn

S = TaskState
_TROUBLE = (S.FAILED, S.TIMED_OUT, S.CANCELLED, S.SKIPPED)
_READY = Decision(state=S.QUEUED, because="ready: nothing upstream is open")


def make(turn: Turn, run: RunMemory, position: int) -> None:
    """Make the next task of a run, and decide it at once if nothing upstream is open."""
    row = run.run
    waiting = count_waiting(run, position)
    task = Task(
        id=task_id(row.id, position), run_id=row.id, shard=row.shard, tenant=row.tenant,
        name=run.job.tasks[position].name, position=position, priority=row.priority, since=turn.now,
        because=f"waits for {waiting} upstream" if waiting else "made",
    )  # fmt: skip
    run.tasks.append(task)
    run.waiting.append(waiting)
    run.counts[S.PENDING] = run.counts.get(S.PENDING, 0) + 1
    turn.create(task)
    if not waiting or run.is_stopped():
        free(turn, run, task)


def count_waiting(run: RunMemory, position: int) -> int:
    """How many upstreams of a task it still has to hear of."""
    return sum(1 for parent in run.job.upstream[position] if not _has_told(run, parent, position))


def free(turn: Turn, run: RunMemory, task: Task) -> None:
    """Decide a PENDING task that waits for nothing more upstream, or whose run lets nothing more start."""
    if run.is_stopped():
        cancel_unstarted(turn, run, task)
        return
    if run.is_resting():
        return
    decision = _decide(run, task)
    if decision.state is not S.QUEUED:
        task.cause = decision.cause
        task.ended_at = turn.now
    turn.move(task, decision.state, by="shard", because=decision.because)
    if task.state in FINAL:
        ended(turn, run, task)


def queue_again(turn: Turn, run: RunMemory, task: Task, *, by: str, because: str) -> None:
    """Put a task that had been ready back into its queue, unless its run rests or its upstreams are others now."""
    turn.move(task, S.QUEUED, by=by, because=because)
    if run.is_resting():
        turn.move(task, S.PENDING, by=by, because="the run is paused")
    elif run.waiting[task.position]:
        turn.move(task, S.PENDING, by=by, because="waits for upstream")
    elif _decide(run, task).state is not S.QUEUED:
        turn.move(task, S.PENDING, by=by, because="something upstream has ended otherwise since")
        free(turn, run, task)


def cancel_unstarted(turn: Turn, run: RunMemory, task: Task) -> None:
    """Cancel a task that no worker holds, for what its run has come to."""
    row = run.run
    if row.cancelled_by is not None:
        cancel(turn, run, task, by=row.cancelled_by, because="the run was cancelled", cause=None)
    elif row.timed_out:
        cancel(turn, run, task, by="shard", because="the run's time was up", cause=None)
    else:
        because = f"{row.failed_task} failed, and the job fails fast"
        cancel(turn, run, task, by="shard", because=because, cause=row.failed_task)


def cancel(turn: Turn, run: RunMemory, task: Task, *, by: str, because: str, cause: str | None) -> None:
    """End a task that no worker holds, without a result."""
    turn.touch(task)
    task.cause = cause
    task.ended_at = turn.now
    turn.move(task, S.CANCELLED, by=by, because=because)
    ended(turn, run, task)


def ended(turn: Turn, run: RunMemory, task: Task) -> None:
    """A task is final: let its children hear of it, and the whole run if the job fails fast."""
    if run.job.downstream[task.position]:
        run.ripples[task.position] = 0
        turn.memory.ripples.append((task.run_id, task.position))
    fails_fast = run.job.spec.on_failure is FailurePolicy.FAIL_FAST
    if fails_fast and task.state in UNSUCCESSFUL and run.run.failed_task is None:
        run.run.failed_task = task.id
        turn.mark(run)
        if run.run.task_count > 1:
            turn.open_spread(run, SpreadKind.FAIL_FAST, by="shard", why=f"{task.name} failed")


def ripple(turn: Turn, run: RunMemory, position: int) -> bool:
    """Tell the children of an ended task, as many as the turn has room for; True when all have been told."""
    children = run.job.downstream[position]
    told = run.ripples[position]
    while told < len(children):
        if turn.spent():
            run.ripples[position] = told
            return False
        child = children[told]
        told += 1
        if child < len(run.tasks):
            run.ripples[position] = told
            _hear(turn, run, child)
    del run.ripples[position]
    return True


def _hear(turn: Turn, run: RunMemory, position: int) -> None:
    task = run.tasks[position]
    if task.state in FINAL:
        return
    run.waiting[position] -= 1
    if not run.waiting[position] and task.state is S.PENDING and task.due_at is None:
        free(turn, run, task)


def _has_told(run: RunMemory, parent: int, child: int) -> bool:
    if run.tasks[parent].state not in FINAL:
        return False
    told = run.ripples.get(parent)
    if told is None:
        return True
    return told > 0 and run.job.downstream[parent][told - 1] >= child


def _decide(run: RunMemory, task: Task) -> Decision:
    """Ask the rule; but while nothing in the run went wrong and no condition stands on an edge, the answer is known.

    (A fan-in of 100,000 would take 100 ms to describe to the rule.)
    """
    job, position = run.job, task.position
    if not job.upstream[position]:
        return _READY
    conditions = job.conditions.get(position)
    if conditions is None and not any(run.counts.get(state) for state in _TROUBLE):
        return _READY
    upstreams = [
        Upstream(
            id=parent.id,
            name=parent.name,
            state=parent.state,
            output=parent.output,
            cause=parent.cause,
            when=conditions.get(parent.position) if conditions else None,
        )
        for parent in (run.tasks[number] for number in job.upstream[position])
    ]
    return decide(job.spec.on_failure, job.tasks[position].on_skip, upstreams, run.run.params)
