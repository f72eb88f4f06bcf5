"""Bulk operations: work on a whole run that may exceed a batch (create its tasks, cancel, pause, resume, reopen, change
the priority).

A bulk operation (`Turn.open_spread`) visits the positions of its run from 0 to `total`, some of them in each turn. If
one step is not enough, its row is written in the same batch, and `done` moves with each later step: a new leader
continues where it stopped.

1. A run with an open bulk operation is not final.
2. Visiting a position twice does nothing the second time.
"""

from __future__ import annotations

from collections.abc import Callable

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.batch import Spread, SpreadKind
from mainspring.core.model.task import Priority, StopKind, Task, TaskState
from mainspring.protocol.errors import Broken
from mainspring.shard.actions import reopen, stop_requests
from mainspring.shard.state.run_state import GROWING, RunMemory
from mainspring.shard.tasks import progress, run_pacing
from mainspring.shard.tasks.progress import Step
from mainspring.shard.turn import Turn

S = TaskState
_VISITS_PER_ROW = 8
"""Positions visited for each row that a turn may write: most visits write nothing."""


def step(turn: Turn, run: RunMemory, spread: Spread) -> Step:
    """Run the next step of a bulk operation, within the turn's budget and the run's pace."""
    if spread.kind in GROWING and spread.done != len(run.tasks):
        # Earlier operations come first: tasks are created in the order of their positions.
        return Step.LATER if run.run.id in turn.memory.put_off else Step.MORE
    visit = _VISITS[spread.kind]
    pace = run_pacing.PACES.get(spread.kind)
    left = None if pace is None else run_pacing.allowance(turn.memory, run, pace, spread.total - spread.done)
    used, most = _used(run, spread), max(1, turn.budget) * _VISITS_PER_ROW
    end = Step.OVER
    while spread.done < spread.total:
        if not most or turn.spent():
            end = Step.MORE
            break
        if (left is not None and _used(run, spread) - used >= left) or _must_wait(run, spread):
            end = Step.LATER
            break
        visit(turn, run, spread)
        if run.spreads.get((spread.kind, spread.parent)) is not spread:
            break  # The visit led to the opposite operation, which has ended this one.
        spread.done += 1
        most -= 1
    if left is not None and pace is not None:
        run_pacing.charge(turn.memory, run, pace, _used(run, spread) - used)
    turn.save_spread(spread)
    if end is Step.OVER:
        run.spreads.pop((spread.kind, spread.parent), None)
        if spread.kind is SpreadKind.REOPEN:
            run.reopening.pop(spread.parent, None)
    return end


def prioritise(turn: Turn, run: RunMemory, priority: Priority, *, by: str, why: str) -> None:
    """Change the priority of a run at once, and of its open tasks by a bulk operation. Running tasks continue."""
    row, memory = run.run, turn.memory
    unmade = row.task_count - len(run.tasks)
    memory.in_memory.count(row.priority, row.tenant, -unmade)
    memory.in_memory.count(priority, row.tenant, unmade)
    row.priority = priority
    turn.mark(run)
    turn.open_spread(run, SpreadKind.REPRIORITISE, by=by, why=why)


def _used(run: RunMemory, spread: Spread) -> int:
    """What counts against the pace: created tasks for a dynamic operation, otherwise tasks that became ready."""
    return spread.done if spread.kind in GROWING else run.counts.get(S.QUEUED, 0)


def _must_wait(run: RunMemory, spread: Spread) -> bool:
    """Whether the next task may have to restart while tasks are still being added: what it created must be complete."""
    if spread.kind is not SpreadKind.REOPEN or run.growth is None or not run.is_growing():
        return False
    task = _made(run, spread)
    return task is not None and task.state in FINAL and not run.is_replaced(task)


def _adopt(turn: Turn, run: RunMemory, spread: Spread) -> None:
    if spread.done >= len(run.tasks):
        progress.make(turn, run, spread.done)


def _make_child(turn: Turn, run: RunMemory, spread: Spread) -> None:
    maker = turn.memory.find(spread.parent)
    if maker is None:
        raise Broken(f"no creator for {spread}")
    if spread.done >= len(run.tasks):
        progress.make_child(turn, run, maker, spread.done)


def _cancel(turn: Turn, run: RunMemory, spread: Spread) -> None:
    task = _made(run, spread)
    if task is not None and run.is_replaced(task):
        turn.replace(task)
    if task is None or task.state in FINAL:
        return
    if task.worker_id is not None:
        stop_requests.request(turn, task, StopKind.CANCEL, by=spread.by, why=spread.why)
    else:
        progress.cancel_unstarted(turn, run, task)


def _fail_fast(turn: Turn, run: RunMemory, spread: Spread) -> None:
    task = _made(run, spread)
    if task is None or task.state in FINAL or task.state in (S.RUNNING, S.QUARANTINED):
        return
    if task.worker_id is not None:
        stop_requests.request(turn, task, StopKind.CANCEL, by=spread.by, why=spread.why, cause=run.run.failed_task)
    else:
        progress.cancel_unstarted(turn, run, task)


def _pause(turn: Turn, run: RunMemory, spread: Spread) -> None:
    task = _made(run, spread)
    if task is not None and task.state is S.QUEUED:
        turn.move(task, S.PENDING, by=spread.by, because="the run was paused")
    elif task is not None and task.state is S.ASSIGNED:
        stop_requests.request(turn, task, StopKind.HOLD, by=spread.by, why="the run was paused")


def _resume(turn: Turn, run: RunMemory, spread: Spread) -> None:
    task = _made(run, spread)
    if task is None:
        return
    if task.state is S.PENDING and not run.waiting[task.position] and task.due_at is None:
        progress.free(turn, run, task)
    elif task.state is S.QUEUED:
        turn.memory.queues.restore(task, turn.memory.shape(task))


def _reprioritise(turn: Turn, run: RunMemory, spread: Spread) -> None:
    task = _made(run, spread)
    if task is not None and task.state not in FINAL and task.priority is not run.run.priority:
        turn.prioritise(task, run.run.priority)


def _reopen(turn: Turn, run: RunMemory, spread: Spread) -> None:
    task = _made(run, spread)
    if task is None:
        return
    if run.is_replaced(task):
        reopen.retire(turn, run, task, by=spread.by)
    elif reopen.follows(turn.memory, run, task, spread.parent):
        if not spread.parent:
            reopen.reopen_cause(turn, run, task, by=spread.by, because=spread.why)
        reopen.reopen_task(turn, run, task, by=spread.by, because=spread.why)
    elif task.state is S.QUEUED:
        turn.memory.queues.restore(task, turn.memory.shape(task))
    else:
        reopen.spare(turn, task, spread.parent)


def _made(run: RunMemory, spread: Spread) -> Task | None:
    return run.tasks[spread.done] if spread.done < len(run.tasks) else None


_VISITS: dict[SpreadKind, Callable[[Turn, RunMemory, Spread], None]] = {
    SpreadKind.ADOPT: _adopt,
    SpreadKind.CANCEL: _cancel,
    SpreadKind.FAIL_FAST: _fail_fast,
    SpreadKind.PAUSE: _pause,
    SpreadKind.RESUME: _resume,
    SpreadKind.REPRIORITISE: _reprioritise,
    SpreadKind.REOPEN: _reopen,
    SpreadKind.FAN_OUT: _make_child,
    SpreadKind.GROW: _make_child,
}
