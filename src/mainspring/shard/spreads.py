"""Work on a whole run that may exceed a batch: making its tasks, cancelling, pausing, resuming, reopening.

A spread (`Turn.open_spread`) visits the positions of its run from 0 to `total`, a part of them in each turn. If the
first part is not all of it, its row is written in the same batch, and `done` moves with each later part: a new leader
goes on where it stopped.

1. A run with an open spread is not final.
2. Visiting a position twice does nothing the second time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mainspring.core.batch import Spread, SpreadKind
from mainspring.core.states import FINAL
from mainspring.core.tasks import StopKind, Task, TaskState
from mainspring.shard import flow, reopening, stops
from mainspring.shard.memory import RunMemory
from mainspring.shard.turn import Turn

S = TaskState
_VISITS_PER_ROW = 8
"""How many positions are looked at for each row that a turn may write: most visits write nothing."""


def step(turn: Turn, run: RunMemory, spread: Spread) -> bool:
    """Do the next part of a spread, as much as the turn has room for; True when it is over."""
    visit = _VISITS[spread.kind]
    most = max(1, turn.budget) * _VISITS_PER_ROW
    while spread.done < spread.total and most and not turn.spent():
        visit(turn, run, spread)
        spread.done += 1
        most -= 1
    turn.save_spread(spread)
    if spread.done < spread.total:
        return False
    run.spreads.pop((spread.kind, spread.parent), None)
    run.reopening.pop(spread.parent, None)
    return True


def drop(turn: Turn, run: RunMemory, kind: SpreadKind) -> None:
    """End spreads of a kind before their time: the opposite has been asked for."""
    for spread in [spread for spread in run.spreads.values() if spread.kind is kind]:
        del run.spreads[kind, spread.parent]
        turn.memory.spreads = deque(key for key in turn.memory.spreads if key != (run.run.id, kind, spread.parent))
        spread.done = spread.total
        turn.save_spread(spread)


def _adopt(turn: Turn, run: RunMemory, spread: Spread) -> None:
    if spread.done >= len(run.tasks):
        flow.make(turn, run, spread.done)


def _cancel(turn: Turn, run: RunMemory, spread: Spread) -> None:
    task = _made(run, spread)
    if task is None or task.state in FINAL:
        return
    if task.worker_id is not None:
        stops.request(turn, task, StopKind.CANCEL, by=spread.by, why=spread.why)
    else:
        flow.cancel_unstarted(turn, run, task)


def _fail_fast(turn: Turn, run: RunMemory, spread: Spread) -> None:
    task = _made(run, spread)
    if task is None or task.state in FINAL or task.state in (S.RUNNING, S.QUARANTINED):
        return
    if task.worker_id is not None:
        stops.request(turn, task, StopKind.CANCEL, by=spread.by, why=spread.why, cause=run.run.failed_task)
    else:
        flow.cancel_unstarted(turn, run, task)


def _pause(turn: Turn, run: RunMemory, spread: Spread) -> None:
    task = _made(run, spread)
    if task is not None and task.state is S.QUEUED:
        turn.move(task, S.PENDING, by=spread.by, because="the run was paused")
    elif task is not None and task.state is S.ASSIGNED:
        stops.request(turn, task, StopKind.HOLD, by=spread.by, why="the run was paused")


def _resume(turn: Turn, run: RunMemory, spread: Spread) -> None:
    task = _made(run, spread)
    if task is None:
        return
    if task.state is S.PENDING and not run.waiting[task.position] and task.due_at is None:
        flow.free(turn, run, task)
    elif task.state is S.QUEUED:
        turn.memory.queues.restore(task, turn.memory.shape(task))


def _reopen(turn: Turn, run: RunMemory, spread: Spread) -> None:
    task = _made(run, spread)
    if task is None:
        return
    if reopening.follows(run, task, spread.parent):
        reopening.reopen_task(turn, run, task, by=spread.by, because=spread.why)
    elif task.state is S.QUEUED:
        turn.memory.queues.restore(task, turn.memory.shape(task))
    else:
        reopening.spare(turn, task, spread.parent)


def _made(run: RunMemory, spread: Spread) -> Task | None:
    return run.tasks[spread.done] if spread.done < len(run.tasks) else None


_VISITS: dict[SpreadKind, Callable[[Turn, RunMemory, Spread], None]] = {
    SpreadKind.ADOPT: _adopt,
    SpreadKind.CANCEL: _cancel,
    SpreadKind.FAIL_FAST: _fail_fast,
    SpreadKind.PAUSE: _pause,
    SpreadKind.RESUME: _resume,
    SpreadKind.REOPEN: _reopen,
}
