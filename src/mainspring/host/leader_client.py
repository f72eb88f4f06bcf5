"""Client of shard leaders: actions, file probes, status and diagnosis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from threading import BoundedSemaphore
from typing import ParamSpec, Protocol, TypeVar

import structlog
from msgspec.structs import replace

from mainspring.core.explain.diagnosis import Diagnosis, Expected, WaitingSummary
from mainspring.core.explain.what_if import Hypothesis, Outcome
from mainspring.core.fairness.pool_status import PoolStatus
from mainspring.core.lifecycle.states import HELD_BY_WORKER
from mainspring.core.model.task import TaskState
from mainspring.host.host import Host
from mainspring.host.loop import Leader
from mainspring.protocol.errors import NotLeading, Overloaded, Unavailable
from mainspring.shard.effects import ActionReply
from mainspring.shard.events import ActionRequest
from mainspring.shard.explain import advice, forecast, pool_status
from mainspring.shard.explain import diagnose as diagnosing
from mainspring.shard.explain import queue_reasons as sums
from mainspring.shard.explain.snapshot import Snapshot
from mainspring.shard.state.memory import ShardMemory

log = structlog.get_logger()

FILE_PROBE_SECONDS = 5.0
"""Timeout of a file probe: a worker whose disk hangs does not answer."""
ADVICE_SECONDS = 0.5
"""Timeout of advice: a late diagnosis is returned without it."""
_RUN = "run_"
_EXECUTOR = ThreadPoolExecutor(max_workers=1, thread_name_prefix="what-if")
"""Simulates one snapshot at a time, so that the leader's own turns come first."""
_MAX_SIMULATIONS = 8
_SLOTS = BoundedSemaphore(_MAX_SIMULATIONS)
"""For snapshots that are simulated or queued: no snapshot is taken that could not be simulated soon."""
_NO_TIME = Expected.unknown("the simulation timed out")
P = ParamSpec("P")
T = TypeVar("T")


class LeaderClient(Protocol):
    """Reaches the leaders of all shards, on any server."""

    async def ask(self, shard: str, action: ActionRequest) -> ActionReply:
        """Execute an action; returns when its result is durable. Raises Overloaded or NotLeading."""
        ...

    async def probe_file(self, shard: str, path: str) -> bool:
        """Return whether a worker of the pool finds a file. Raises NotLeading, or Unavailable if no worker answers."""
        ...


class LocalLeaderClient:
    """Reaches the leaders of one host only, without a network."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def ask(self, shard: str, action: ActionRequest) -> ActionReply:
        """Execute an action on the leader of this host."""
        return await self._host.leader(shard).ask(action)

    async def probe_file(self, shard: str, path: str) -> bool:
        """Probe a file through a worker of the leader of this host."""
        links = self._host.leader(shard).links
        try:
            async with asyncio.timeout(FILE_PROBE_SECONDS):
                return await links.probe_file(path)
        except TimeoutError:
            message = f"no worker of {shard} answered the file probe within {FILE_PROBE_SECONDS:.0f} s"
            raise Unavailable(message, reason="no_answer") from None

    async def pool_status(self, shard: str, tenant: str | None) -> PoolStatus:
        """Return the status of a pool that is led here, with details of one tenant or of all.

        Raises NotLeading or Overloaded.
        """
        leader = self._host.leader(shard)
        with self._host.introspection_budget.charge():
            return pool_status.pool_status(leader.shard.memory, leader.time.now(), tenant)

    async def diagnose(self, shard: str, subject: str) -> Diagnosis | None:
        """Explain the state of a task, or of the most telling task of a run, with advice.

        None if it is not in the memory of the leader here. Raises NotLeading or Overloaded.
        """
        leader = self._ready(shard)
        memory, now, snapshot = leader.shard.memory, leader.time.now(), None
        with self._host.introspection_budget.charge():
            task_id = diagnosing.representative_task(memory, subject) if subject.startswith(_RUN) else subject
            if task_id is None:
                return None
            found = diagnosing.diagnose(memory, task_id, now, batch=leader.batch_no, age_seconds=leader.time.silence())
            if found is None or found.is_stale() or (found.reason is None and found.state != TaskState.QUEUED):
                return found
            if _SLOTS.acquire(blocking=False):
                snapshot = _snapshot(memory, task_id, now)
        return _without_advice(found) if snapshot is None else await _with_advice(found, snapshot)

    async def what_if(self, shard: str, task_id: str, hypothesis: Hypothesis) -> Outcome | None:
        """Forecast the start of a task under a hypothesis; None if it does not wait here.

        Raises NotLeading or Overloaded.
        """
        leader = self._ready(shard)
        memory, now = leader.shard.memory, leader.time.now()
        task = diagnosing.find(memory, task_id)
        if task is None or task.state in HELD_BY_WORKER:
            return None
        with self._host.introspection_budget.charge():
            if not _SLOTS.acquire(blocking=False):
                raise Overloaded(f"{_MAX_SIMULATIONS} what-if requests are in progress already")
            snapshot = _snapshot(memory, task_id, now)
        return await _run_in_thread(forecast.what_if, snapshot, hypothesis)

    async def summarize_waiting(self, shard: str, tenant: str | None) -> list[WaitingSummary]:
        """Count the waiting tasks of a pool that is led here by reason, of one tenant or of all.

        Raises NotLeading or Overloaded.
        """
        leader = self._ready(shard)
        with self._host.introspection_budget.charge():
            return sums.summarize_waiting(leader.shard.memory, leader.time.now(), tenant)

    def _ready(self, shard: str) -> Leader:
        """Return the leader here, once it has loaded its shard. Raises NotLeading."""
        leader = self._host.leader(shard)
        if not leader.is_ready:
            raise NotLeading(f"the leader of {shard} is still loading its state", reason="not_ready")
        return leader


def _snapshot(memory: ShardMemory, task_id: str, now: datetime) -> Snapshot:
    """Snapshot the surroundings of a task; a slot has been acquired for it."""
    try:
        return forecast.take_snapshot(memory, task_id, now)
    except BaseException:
        _SLOTS.release()
        raise


def _without_advice(found: Diagnosis) -> Diagnosis:
    return found if found.expected is not None else replace(found, expected=_NO_TIME)


async def _with_advice(found: Diagnosis, snapshot: Snapshot) -> Diagnosis:
    """Add advice to a diagnosis, if it is ready in time."""
    try:
        async with asyncio.timeout(ADVICE_SECONDS):
            return await _run_in_thread(advice.advise, found, snapshot)
    except TimeoutError:
        return _without_advice(found)
    except Exception as fault:
        # The diagnosis is valid without advice; the log has the error.
        log.exception("advice.failed", task=found.task, reason=found.reason, fault=repr(fault))
        return found


async def _run_in_thread(simulate: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Simulate a snapshot in the thread; its slot is released when the simulation ends or is cancelled."""
    simulation = _EXECUTOR.submit(simulate, *args, **kwargs)
    simulation.add_done_callback(lambda _: _SLOTS.release())
    return await asyncio.wrap_future(simulation)
