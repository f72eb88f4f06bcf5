"""Mutations of HTTP workers (WRK-2)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mainspring.core.model.task import Task
from mainspring.host.pending_replies import PendingReplies
from mainspring.shard import handlers
from mainspring.shard.effects import ActionStatus
from mainspring.shard.turn import Turn
from mainspring.shard.workers import claims
from mainspring.shard.workers.claim_events import ClaimCall, ClaimStarted, ClaimWork
from tests.sim.mutation import Mutation, instead_of, instead_of_handler, without


@instead_of(claims, "_held")
def _any_worker(real: Any, turn: Turn, event: ClaimCall, attempt: str) -> Task | None:
    """Any worker may report on a live attempt."""
    task = turn.memory.attempts.get(attempt)
    owner = task.worker_id if task is not None else None
    return real(turn, replace(event, worker=owner or event.worker), attempt)


@instead_of_handler(handlers.EVENTS, ClaimStarted)
def _always_starts(real: Any, turn: Turn, event: ClaimStarted) -> None:
    if event.attempt in turn.memory.attempts:
        real(turn, event)
    else:
        turn.respond(event, ActionStatus.DONE)


@instead_of_handler(handlers.EVENTS, ClaimWork)
def _one_more(real: Any, turn: Turn, event: ClaimWork) -> None:
    real(turn, replace(event, wanted=event.wanted + 1))


@instead_of(claims, "_held")
def _deaf(real: Any, turn: Turn, event: ClaimCall, attempt: str) -> Task | None:
    """A heartbeat does not restart the time limit."""
    last_heartbeat = {lease.id: lease.last_heartbeat for lease in turn.memory.leases.values()}
    task = real(turn, event, attempt)
    if task is not None and task.lease_id is not None:
        turn.memory.leases[task.lease_id].last_heartbeat = last_heartbeat[task.lease_id]
    return task


def _only(name: str) -> frozenset[str]:
    return frozenset({name})


CLAIM_MUTATIONS = (
    Mutation("owner of a claimed attempt", "reports of another worker count", _any_worker, 16, only=_only("I-13")),
    Mutation(
        "start of a recalled attempt", "a recalled attempt can be started", _always_starts, 29, only=_only("I-13")
    ),
    Mutation("size of a claim", "a claim gets one task more than requested", _one_more, 16, only=_only("WRK-2")),
    Mutation(
        "heartbeat of a claimed attempt", "its silence continues despite heartbeats", _deaf, 66, only=_only("I-16")
    ),
    Mutation(
        "silence of a claimed attempt",
        "it is never lost",
        without(claims, "_watch"),
        16,
        only=_only("LIV-1"),
    ),
    Mutation(
        "recall of a claimed attempt",
        "it is returned only when the claim expires",
        without(claims, "return_recalled"),
        142,
        _only("LIV-3"),
        seconds=200.0,
    ),
    Mutation(
        "claim of a disconnected worker",
        "it still gets tasks",
        without(PendingReplies, "_abandon_claim"),
        108,
        _only("LIV-3"),
        seconds=200.0,
    ),
)
