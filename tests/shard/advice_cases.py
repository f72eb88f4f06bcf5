"""For each reason: a situation, its blockers, its suggestions, and how it ends by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mainspring.core.explain.diagnosis import STALE_SECONDS, Reason, Suggestion
from mainspring.shard import events as happened
from tests.shard import situations
from tests.shard import situations_on_workers as on_workers
from tests.shard.world import World

LESS, WITHOUT, WAIT = "Request", "Remove", Suggestion.wait().says


class Case(NamedTuple):
    """A situation in which a task has a reason."""

    make: Callable[[World], str]
    """Returns the name of the task."""
    blockers: Callable[[World], list[str]] = lambda _: []
    """The ids of the blockers."""
    suggestions: tuple[str, ...] = ()
    """The suggestions: the command, or the first word if there is none."""
    passes: Callable[[World], None] | None = None
    """Makes the awaited event happen."""
    age_seconds: float = 0.0
    """The age of the state."""


def _tasks(*names: str) -> Callable[[World], list[str]]:
    return lambda world: [world.task(name).id for name in names]


def _these(*ids: str) -> Callable[[World], list[str]]:
    return lambda _: list(ids)


def _ends(*names: str) -> Callable[[World], None]:
    """Let these running tasks succeed."""
    return lambda world: world.succeed(*names)


_WORKER, _RAISE = "mainspring worker --pool pool", "mainspring quota raise acme --for 4h"
_P0, _P1 = "mainspring promote run_0002 --priority P0", "mainspring promote run_0002 --priority P1"
_DRAIN = "mainspring drain w1"
_GROUP, _KILL = "mainspring groups set db --most 2 --tenant acme", "mainspring kill task_0001.0 --again --grace 30s"
CASES: dict[Reason, tuple[Case, ...]] = {
    Reason.WAITING_UPSTREAM: (Case(situations.upstream, _tasks("a"), (WAIT,), _ends("a")),),
    Reason.WAITING_TIME: (Case(situations.put_off, suggestions=(WAIT,), passes=situations.comes_back),),
    Reason.WAITING_RETRY: (
        Case(situations.failed_once, suggestions=(WAIT,), passes=lambda world: situations.beats(world, 41)),
    ),
    Reason.DEPENDENCY_NOT_READY: (
        Case(situations.in_vain, _tasks("a"), ("mainspring retry task_0001.0",)),
        Case(situations.given_up, _tasks("a"), ("mainspring retry task_0001.0",)),
    ),
    Reason.NO_WORKER_CAPACITY: (
        Case(
            situations.full,
            _tasks("busy"),
            (WAIT, LESS, _P0, f"{_WORKER} --cpu 2 --memory 2Gi"),
            _ends("busy"),
        ),
        Case(
            situations.kept,
            _tasks("busy"),
            (WAIT, LESS, _P0, f"{_WORKER} --cpu 2 --memory 2Gi"),
            _ends("busy"),
        ),
    ),
    Reason.NO_MATCHING_WORKER: (
        Case(
            situations.no_worker_with_the_label,
            suggestions=(WITHOUT, f"{_WORKER} --cpu 1 --memory 1Gi --label gpu=a100"),
        ),
        Case(situations.no_worker_in_the_zone, suggestions=(WITHOUT, f"{_WORKER} --cpu 1 --memory 1Gi --zone eu-1")),
        Case(
            situations.cordoned,
            _these("w1"),
            ("mainspring uncordon w1", f"{_WORKER} --cpu 1 --memory 1Gi --label gpu=a100"),
        ),
    ),
    Reason.TOO_BIG: (Case(situations.too_big, suggestions=(LESS, f"{_WORKER} --cpu 8 --memory 8Gi")),),
    Reason.FRAGMENTED: (
        Case(
            situations.in_pieces,
            _tasks("on-w1", "on-w2"),
            (
                WAIT,
                LESS,
                "mainspring settings set defragment 1",
                "mainspring promote run_0003 --priority P0",
                f"{_WORKER} --cpu 2 --memory 2Gi",
            ),
            _ends("on-w1"),
        ),
    ),
    Reason.TENANT_OVER_QUOTA: (
        Case(
            situations.over_quota,
            _tasks("busy"),
            (WAIT, LESS, f"{_RAISE} --burst-cpu 3", _P0),
            _ends("busy"),
        ),
        Case(
            situations.over_memory,
            _tasks("busy"),
            (LESS, f"{_RAISE} --burst-memory 2600500002", _P0),
            _ends("busy"),
        ),
        Case(situations.too_many_tasks, _tasks("busy"), (f"{_RAISE} --max-tasks 2", _P0), _ends("busy")),
    ),
    Reason.FAIR_SHARE: (
        Case(
            situations.beyond_its_share,
            _these("small"),
            (WAIT, "mainspring promote run_0001 --priority P0"),
            _ends("big10", "big11"),
        ),
    ),
    Reason.PRIORITY_QUEUE_WAIT: (Case(situations.outranked, _tasks("first10"), (WAIT, _P1), situations.first_is_done),),
    Reason.CONCURRENCY: (Case(situations.group_is_full, _tasks("busy"), (WAIT, _GROUP), _ends("busy")),),
    Reason.RATE_LIMIT: (Case(situations.rate_is_used, _these("db"), (WAIT, _GROUP), situations.rate_goes_on),),
    Reason.CIRCUIT_OPEN: (Case(situations.much_fails, _these("tenant0/job"), (WAIT,), situations.probe_succeeds),),
    Reason.FROZEN: (
        Case(situations.frozen, _these("ann"), ("mainspring unfreeze job acme/job",)),
        Case(
            situations.frozen_for_a_minute,
            _these("ann"),
            (WAIT, "mainspring unfreeze all"),
            lambda w: situations.beats(w, 60),
        ),
    ),
    Reason.PAUSED: (Case(situations.paused, _these("run_0001"), ("mainspring resume run_0001",)),),
    Reason.QUARANTINED: (
        Case(on_workers.failed_everywhere, _these("w1", "w2", "w3"), ("mainspring clear task_0001.0",)),
    ),
    Reason.PREEMPTED: (
        Case(
            situations.made_room,
            lambda world: [world.task("high").run_id, world.task("high").id],
            (WAIT, f"{_WORKER} --cpu 1 --memory 1Gi"),
            _ends("high"),
        ),
        Case(situations.makes_room, _tasks("high"), (WAIT,)),
    ),
    Reason.STARTING_SLOW: (
        Case(on_workers.not_acknowledged, _these("w1"), (WAIT, _DRAIN), lambda world: world.start("it")),
        Case(on_workers.not_started, _these("w1"), (_DRAIN,), lambda world: world.start("it")),
    ),
    Reason.WORKER_LOST: (Case(on_workers.silent, _these("w1"), (WAIT,), lambda world: situations.beats(world, 1)),),
    Reason.RUNNING_SLOW: (Case(on_workers.slow, suggestions=(WAIT,), passes=_ends("it")),),
    Reason.STUCK: (
        Case(on_workers.stuck, suggestions=(_KILL,), passes=_ends("it")),
        Case(on_workers.stalled, suggestions=(WAIT,), passes=lambda world: world.stop("it")),
    ),
    Reason.SCHEDULER_LAG: (
        Case(situations.waits, age_seconds=STALE_SECONDS + 1),
        Case(situations.store_is_slow, passes=lambda world: world.settle(happened.StoreLagged(hold=None))),
    ),
    Reason.UNKNOWN: (Case(situations.forgotten),),
}
"""Those of schedules alone are in `tests/core/test_schedule_suggestions.py`."""
