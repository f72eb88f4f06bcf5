"""Statements that both databases understand, written once.

Parameters are `$1`, `$2`; the SQLite adapter writes them its own way (`?1`). Where the two databases differ in a
phrase, the statement is a function of it. Nothing is decided here: the sets of states that appear are those of
`core/model/run.py`, and the only clock that is compared with a lease is the store's own, given as a parameter.
"""

from __future__ import annotations

from mainspring.core.model.run import FINAL_RUN

FINAL_STATES = ", ".join(f"'{state}'" for state in sorted(FINAL_RUN))
"""The final states of a run, as SQL. The index `runs_active` has the same list: a new state needs a migration."""

ARCHIVED_TASKS_AT_ONCE = 5_000
"""A batch moves at most so many tasks to history (about 50 ms), so that a run of 250,000 holds nobody up."""

ACTIVE = f"adopted_at IS NOT NULL AND state NOT IN ({FINAL_STATES})"
IN_INTAKE = "adopted_at IS NULL AND held IS NULL"
DELAYED = f"{IN_INTAKE} AND start_at > created_at"
"""Made to start later. Others are in intake as soon as they are made: nobody's `created_at` is ahead of the store."""

WORKER_IS_AWAY = "'gone', 'lost'"
"""The statuses of a worker of whom nothing is expected, as SQL."""

MAX_DURATIONS = 20_000
"""A leader has so many in mind, those that were updated last."""

SHARDS = "SELECT id, leader, epoch, lease_until, batch_no FROM shards ORDER BY id"

TERM = """
    SELECT s.id, s.epoch, s.nonce, s.batch_no, t.granted_at
    FROM shards s JOIN terms t ON t.shard = s.id AND t.epoch = s.epoch
    WHERE s.id = $1 AND s.nonce = $2
"""


def tasks_of(run: str) -> str:
    """True of the tasks of a run: a range of the primary key of `tasks`, because a task's id begins with its run's.

    So no index has to be kept for it, which would cost 3 µs each time that a task is written.
    """
    return f"""tasks.id > 'task_' || substr({run}, 5) || '.' AND tasks.id < 'task_' || substr({run}, 5) || '/'
        AND tasks.run_id = {run}"""


def not_replaced(task: str) -> str:
    """True of tasks that still count: their `Origin`, as JSON, does not say otherwise.

    Inside a text of it the quotes would be escaped.
    """
    return f"""({task}.origin IS NULL OR {task}.origin NOT LIKE '%"replaced":true%')"""
