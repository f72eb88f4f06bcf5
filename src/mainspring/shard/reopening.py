"""A person's retry: a final task starts again, with all that was cancelled or skipped because of it (STA-1)."""

from __future__ import annotations

from mainspring.core.batch import SpreadKind
from mainspring.core.graph import descendants
from mainspring.core.states import FINAL, reopen
from mainspring.core.tasks import Task, TaskState
from mainspring.shard import flow
from mainspring.shard.memory import RunMemory
from mainspring.shard.turn import Turn

S = TaskState


def retry(turn: Turn, run: RunMemory, task: Task, *, by: str, why: str) -> None:
    """Start `task` again now, and the others as a spread."""
    row = run.run
    if row.failed_task == task.id or row.failed_task is None or turn.memory.find(row.failed_task) is None:
        row.failed_task = None
    row.because = why
    turn.mark(run)
    watch_below(run, task)
    reopen_task(turn, run, task, by=by, because=why)
    if row.task_count > 1:
        turn.open_spread(run, SpreadKind.REOPEN, by=by, why=why, parent=task.id)


def watch_below(run: RunMemory, task: Task) -> None:
    """Remember what is downstream of a task that is being retried."""
    run.reopening[task.id] = frozenset(descendants(run.job.downstream, task.position))


def follows(run: RunMemory, task: Task, retried: str) -> bool:
    """Whether a task starts again because `retried` does."""
    if task.state not in (S.CANCELLED, S.SKIPPED) or task.id == retried:
        return False
    return task.cause == retried or task.position in run.reopening[retried]


def spare(turn: Turn, task: Task, retried: str) -> None:
    """Take back a request to give a task back that was made because `retried` had failed."""
    if task.stop is not None and task.stop.cause == retried:
        turn.touch(task)
        task.stop = None


def reopen_task(turn: Turn, run: RunMemory, task: Task, *, by: str, because: str) -> None:
    """Start one final task again: it waits for its upstreams anew, and its children wait for it."""
    if task.state not in FINAL:
        return
    turn.touch(task)
    start = task.state
    told = run.ripples.pop(task.position, None)
    turn.batch.transitions.append(reopen(task, now=turn.now, by=by, because=because))
    turn.recount(task, start)
    children = run.job.downstream[task.position]
    for position in children if told is None else children[:told]:
        if position < len(run.tasks) and run.tasks[position].state not in FINAL:
            run.waiting[position] += 1
            if run.tasks[position].state is S.QUEUED:
                turn.move(run.tasks[position], S.PENDING, by=by, because=f"waits for {task.name} again")
    run.waiting[task.position] = flow.count_waiting(run, task.position)
    if not run.waiting[task.position]:
        flow.free(turn, run, task)
