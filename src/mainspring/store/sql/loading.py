"""From the rows of a shard to what a leader loads: what can't be read is named, and keeps nothing else back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import structlog

from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.model.batch import BreakerRow, BulkOperation, Checkpoint, DurationRow, FailureCountRow, WorkerRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.core.model.task import Task
from mainspring.store.ports.store import ShardRows
from mainspring.store.sql.rows import Codec
from mainspring.store.sql.sharing_statements import RULES

log = structlog.get_logger()

_Rows = Iterable[Iterable[object]]


class Loader:
    """Reads rows with the codecs of one adapter."""

    def __init__(
        self,
        runs: Codec[Run],
        tasks: Codec[Task],
        jobs: Codec[JobRow],
        bulk_operations: Codec[BulkOperation],
        checkpoints: Codec[Checkpoint],
        workers: Codec[WorkerRow],
        breakers: Codec[BreakerRow],
        durations: Codec[DurationRow],
        shares: Codec[ShareRow],
        failure_counts: Codec[FailureCountRow],
    ) -> None:
        self._runs = runs
        self._tasks = tasks
        self._jobs = jobs
        self._bulk_operations = bulk_operations
        self._checkpoints = checkpoints
        self._workers = workers
        self._breakers = breakers
        self._durations = durations
        self._shares = shares
        self._tallies = failure_counts

    def shard_rows(
        self,
        runs: _Rows,
        tasks: _Rows,
        jobs: _Rows,
        bulk_operations: _Rows,
        checkpoints: _Rows,
        workers: _Rows = (),
        breakers: _Rows = (),
        durations: _Rows = (),
        shares: _Rows = (),
        failure_counts: _Rows = (),
    ) -> ShardRows:
        """What of these rows can be read; a run of which something can't is named, and nothing of it is given."""
        known, unreadable = self._runs.readable(runs, "id")
        its_tasks, faults = self._tasks.readable(tasks, "run_id")
        unreadable |= faults
        bulk_operations_by_run, faults = self._bulk_operations.readable(bulk_operations, "run_id")
        unreadable |= faults
        its_checkpoints, faults = self._checkpoints.readable(checkpoints, "run_id")
        unreadable |= faults
        definitions, _ = self._jobs.readable(jobs, "id")
        held_back, _ = self._workers.readable(workers, "id")
        return ShardRows(
            runs=known,
            tasks=[task for task in its_tasks if task.run_id not in unreadable],
            jobs=definitions,
            bulk_operations=[
                bulk_operation for bulk_operation in bulk_operations_by_run if bulk_operation.run_id not in unreadable
            ],
            checkpoints=[checkpoint for checkpoint in its_checkpoints if checkpoint.run_id not in unreadable],
            workers=held_back,
            breakers=self._breakers.readable(breakers, "subject")[0],
            durations=self._durations.readable(durations, "job")[0],
            shares=self._shares.readable(shares, "limit")[0],
            failure_counts=self._tallies.readable(failure_counts, "tenant")[0],
            unreadable=unreadable,
        )

    def intake(self, runs: _Rows) -> list[Run]:
        """Those runs that can be read. The others stay where they are, and are complained about at every read."""
        known, unreadable = self._runs.readable(runs, "id")
        for run_id, fault in unreadable.items():
            log.error("run.unreadable", run=run_id, fault=fault)
        return known


def all_rules(version: int, found: Mapping[str, _Rows], codecs: Mapping[type[msgspec.Struct], Codec[Any]]) -> AllRules:
    """Those rules that can be read, from rows by the fields of `AllRules`. The others are complained about."""
    rules: dict[str, list[Any]] = {}
    for field, table in RULES.items():
        rules[field], unreadable = codecs[table.struct].readable(found[field], table.key[-1])
        for subject, fault in unreadable.items():
            log.error("rule.unreadable", table=table.name, subject=subject, fault=fault)
    return AllRules(version=version, **rules)


def unless_moving(found: ShardRows) -> ShardRows:
    """Nothing of a run whose tasks are on their way to history: for whoever wants to act on it, it is there
    already."""
    if found.runs and (found.runs[0].ended_at is None or len(found.tasks) >= found.runs[0].task_count):
        return found
    return ShardRows(runs=[], tasks=[], jobs=[], bulk_operations=[])
