"""Periodic and final checks: live leaders, whole tables, and whether everything ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.run import FINAL_RUN
from mainspring.core.model.task import TaskState
from mainspring.core.model.worker import is_claimant
from mainspring.host.loop import Leader
from mainspring.shard import invariants
from mainspring.store.sqlite import rows
from tests.core.builders import leased_resources
from tests.sim import check_schedules
from tests.sim.checker import is_spoiled

if TYPE_CHECKING:
    from tests.sim.world import World

_RUNS = f"SELECT {rows.RUNS.select()} FROM runs"
_TASKS = f"SELECT {rows.TASKS.select()} FROM tasks WHERE run_id = ? ORDER BY position"
_SPREADS = "SELECT run_id, kind, parent, done FROM bulk_operations"
_HISTORY = 'SELECT task_id, seq, generation, start, "end" FROM transitions ORDER BY task_id, seq'


LONGEST_TO_FIRE = 10.0
"""Seconds: after the faults, older windows have a fire."""
LONGEST_SILENCE = 55.0
"""Of the shard's life. The first watch needs 15 s, the second 35 if the store answers: then a worker is given up."""


def look_at_leaders(world: World) -> None:
    """Check that every live leader can explain every task, counts usage correctly (I-41, I-45, I-60, I-65), and waits
    for no worker that has been silent for long (LIV-1).
    """
    for server in world.servers:
        leader = server.leader()
        if leader is None or is_spoiled(leader.shard):
            continue
        fence = world.checker.model.fence
        if (leader.term.epoch, leader.term.nonce) == (fence.epoch, fence.nonce):
            _look_at(world, leader)


def _look_at(world: World, leader: Leader) -> None:
    require = world.findings.require
    memory = leader.shard.memory
    for run in memory.runs.values():
        found = invariants.unexplained(memory, run)
        world.findings.count("I-41", len(run.tasks))
        require("I-45", not found, f"{[(task.id, task.state, fault) for task, fault in found]} in {run.run.state}")
    use: dict[str, Resources] = {}
    for worker in memory.workers.values():
        if worker.claim_slots is None:
            quiet = memory.shard_time - worker.last_heartbeat
            story = f"{worker.id} has been silent for {quiet:.0f} s, and is still here"
            require("LIV-1", quiet < LONGEST_SILENCE, story)
        else:
            world.checker.claims.look(leader, worker)
        require(
            "I-60",
            worker.used == leased_resources(worker),
            f"{worker.id} uses {worker.used}, its leases {leased_resources(worker)}",
        )
        for lease in worker.leases.values():
            use[lease.tenant] = use.get(lease.tenant, ZERO_RESOURCES) + lease.shape.resources
            alive = lease.members and all(memory.attempts.get(one) is task for one, task in lease.members.items())
            require("I-65", alive, f"{lease.id} of {worker.id} is held by nobody: {list(lease.members)}")
    require("I-60", use == memory.leases.use, f"tenants use {use}, and {memory.leases.use} is counted")


def compare_tables(world: World, *, whole: bool) -> None:
    """Compare the tables with the model."""
    db, model = world.truth.store._writer, world.checker.model
    require = world.findings.require
    runs = {row[0]: row for row in db.execute(_RUNS)}
    require("ROWS", runs.keys() == model.runs.keys(), f"other runs: {sorted(runs.keys() ^ model.runs.keys())}")
    for run_id in list(model.runs) if whole else list(model.dirty):
        run = model.runs.get(run_id)
        if run is None or run_id not in runs:
            continue
        (expected,) = rows.RUNS.rows([run])
        require("ROWS", runs[run_id] == expected, f"{runs[run_id]} is stored, not {expected}")
        tasks = model.tasks.get(run_id) or []
        stored = db.execute(_TASKS, (run_id,)).fetchall()
        wanted = rows.TASKS.rows(tasks) if tasks else []
        require("ROWS", stored == wanted, f"tasks of {run_id}: {_difference(stored, wanted)}")
    model.dirty.clear()
    bulk_operations = {(run, kind, parent): done for run, kind, parent, done in db.execute(_SPREADS)}
    known = {(run, str(kind), parent): spread.done for (run, kind, parent), spread in model.bulk_operations.items()}
    require("ROWS", bulk_operations == known, f"spreads: {bulk_operations} are stored, not {known}")
    saved = dict(db.execute("SELECT task_id, document FROM checkpoints"))
    wanted_documents = {task: one.document for task, one in model.checkpoints.items()}
    require("ROWS", saved == wanted_documents, f"checkpoints: {saved} are stored, not {wanted_documents}")
    workers = {row[0]: row[1:] for row in db.execute("SELECT id, status, hold, hold_why FROM workers")}
    wanted_workers = {row.id: (row.status, row.hold, row.hold_why) for row in model.workers.values()}
    require("ROWS", workers == wanted_workers, f"workers: {workers} are stored, not {wanted_workers}")
    world.checker.audit.compare(model, db)
    _check_acknowledged(world, db)


def _check_acknowledged(world: World, db: sqlite3.Connection) -> None:
    """Check that runs acknowledged to a client are stored, unless a restore lost them (I-01)."""
    ever = world.checker.ever
    stored = {run for (run,) in db.execute("SELECT id FROM runs UNION ALL SELECT id FROM runs_history")}
    missing = [run for run in ever.acknowledged if run not in stored and run not in ever.erased_runs]
    world.findings.require("I-01", not missing, f"acknowledged, and gone: {missing}")


def check_history(world: World) -> None:
    """Check that each task's transitions are a path without a gap that ends in its state (I-03, I-04)."""
    db, model, require = world.truth.store._writer, world.checker.model, world.findings.require
    last: dict[str, tuple[int, str]] = {}
    for task_id, seq, _, start, end in db.execute(_HISTORY):
        before = last.get(task_id, (0, None))
        require("I-04", (seq - 1, start) == before, f"{task_id}: #{seq} from {start} follows {before}")
        last[task_id] = (seq, end)
    for tasks in model.tasks.values():
        for task in tasks:
            require(
                "I-03",
                last.get(task.id) == (task.seq, task.state),
                f"{task.id} is {task.state}, not {last.get(task.id)}",
            )


def check_end(world: World) -> None:
    """Check that everything has ended (L-1), held items were visible (L-4), and no result was lost (I-50)."""
    model, ever, require = world.checker.model, world.checker.ever, world.findings.require
    for run in model.runs.values():
        require(
            "L-1", run.state in FINAL_RUN, f"{run.id} is {run.state}: {_open_tasks(model.tasks.get(run.id, ()))} {run}"
        )
    require("RTY-4", not model.breakers, f"these circuits never closed: {list(model.breakers.values())}")
    tolerance = timedelta(seconds=LONGEST_TO_FIRE)
    went_back = bool(world.trace.faults["store_failed_over"])
    check_schedules.check_end(
        model, ever, world.findings, world.store_clock.wall(), tolerance=tolerance, went_back=went_back
    )
    for attempt, (worker, result) in ever.left.items():
        if is_claimant(worker):
            continue  # It stores nothing: unsent reports are lost with it.
        known = attempt in ever.ended or attempt in ever.late or attempt in ever.rejected or attempt in ever.wiped
        mine = next(one for one in world.workers if one.name == worker)
        reserved = attempt in mine.state_machine.holds() or any(
            one.attempt == attempt for one in mine.state_machine.unknown_results
        )
        require("I-50", known or reserved or ever.restores, f"{attempt} left {result} on {worker}, and nobody has it")


def check_visible(world: World) -> None:
    """Check that every held run and quarantined task has a record that users can find (L-4)."""
    model, require = world.checker.model, world.findings.require
    for run in model.runs.values():
        if run.held is not None:
            require("L-4", run.id in model.rejected or _mentions(model.rejected, run.id), f"{run.id} is held, silently")
        for task in model.tasks.get(run.id, ()):
            if task.state is TaskState.QUARANTINED:
                seen = f"quarantined:{task.id}" in model.alerts
                seen = seen or any(
                    subject == task.id or subject in world.checker.ever.attempts for subject in model.rejected
                )
                require("L-4", seen, f"{task.id} is quarantined, silently")


def _mentions(subjects: Iterable[str], run_id: str) -> bool:
    return any(run_id[4:] in subject for subject in subjects)


def _open_tasks(tasks: Iterable[Any]) -> str:
    return "; ".join(f"{task.id} {task.state} ({task.because})" for task in tasks if task.state not in FINAL)[:600]


def _difference(stored: list[Any], wanted: list[Any]) -> str:
    for have, want in zip(stored, wanted, strict=False):
        if have != want:
            return f"{have} is stored, not {want}"
    return f"{len(stored)} are stored, not {len(wanted)}"
