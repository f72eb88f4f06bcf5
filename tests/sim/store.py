"""The simulated store: the real SQLite adapter, called synchronously, and each host's view of it.

`Truth` is the store itself. It shows every executed call to the checker. `HostStore` is a host's connection to it:
call or response may be slow or lost, and a call may be executed long after the host has given up. As on a network, a
host can't tell these apart.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.core.limits.concurrency_groups import limit_of
from mainspring.core.model.batch import Batch
from mainspring.core.model.run import Run
from mainspring.core.model.schedule_rows import Decide, EvaluationBatch, ScheduleDecision
from mainspring.protocol.errors import MainspringError, Rejected, Unavailable
from mainspring.store.ports.store import OnWork
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.sim.loop import PROCESS, Process, VirtualLoop

if TYPE_CHECKING:
    from tests.sim.world import World

DEADLINE_SECONDS = 3.0
POISON = "poison for the store"
_T = TypeVar("_T")
_WRITES = frozenset({
    "commit", "campaign", "insert_runs", "insert_job", "release", "claim_outbox", "delivered", "insert_schedule",
    "evaluate_due", "evaluate_waiting", "evaluate_schedules", "receive_events", "open_alert", "resolve_alert",
    "seal_audit",
    "take_share", "take_rate_grants", "put_quota", "drop_quota", "grant_p0", "revoke_p0", "put_pool", "put_policy",
    "drop_policy", "put_group", "drop_group", "freeze", "unfreeze",
})  # fmt: skip
_RULES = frozenset({
    "put_quota", "drop_quota", "grant_p0", "revoke_p0", "put_pool", "put_policy", "drop_policy", "put_group",
    "drop_group", "freeze", "unfreeze",
})  # fmt: skip


def at_once(call: Coroutine[Any, Any, _T]) -> _T:
    """Execute a coroutine that never waits."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a call to the store waited for something")


class Truth:
    """The one store that all hosts share."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.store = SqliteStore.open(":memory:", clock=world.store_clock, run=inline)
        self.gone_until = 0.0
        self.slow_until = 0.0
        self.slowness = 0.0
        self._listeners: list[tuple[OnWork, Process | None]] = []
        self._random = Random(f"hints:{world.mix.seed}")
        self.store.on_work(self._hint)

    def listen(self, call: OnWork) -> None:
        """Hint at new runs."""
        self._listeners.append((call, PROCESS.get()))

    def snapshot(self) -> sqlite3.Connection:
        """A copy of all that is stored."""
        return self.store.snapshot()

    def rules(self) -> AllRules:
        """The stored sharing rules."""
        return at_once(self.store.rules())

    def restore(self, snapshot: sqlite3.Connection) -> None:
        """Restore a snapshot."""
        self.store.restore(snapshot)
        snapshot.close()

    def carry_out(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        """Execute the request now, and show it to the checker."""
        if self.gone_until > self._world.loop.now:
            raise Unavailable("the store is gone")
        checker = self._world.checker
        match name:
            case "commit":
                return self._commit(*args)
            case "campaign":
                term = at_once(self.store.campaign(*args))
                checker.campaigned(args[0], args[1], args[2], args[3], term)
                return term
            case "release":
                at_once(self.store.release(*args))
                checker.released(args[0])
            case "insert_runs":
                ids = at_once(self.store.insert_runs(*args, **kwargs))
                checker.inserted(args[0], kwargs.get("key"), ids)
                return ids
            case "insert_job":
                row = at_once(self.store.insert_job(*args, **kwargs))
                checker.defined(row)
                return row
            case "insert_schedule":
                at_once(self.store.insert_schedule(*args, **kwargs))
                checker.schedules.created(checker.model, args[0])
            case "take_share":
                share = at_once(self.store.take_share(*args))
                checker.groups.shared(checker.model, args[2], share)
                return share
            case "take_rate_grants":
                answers = at_once(self.store.take_rate_grants(*args))
                checker.groups.took(args[0], answers, self._world.store_clock.wall())
                return answers
            case name if name in _RULES:
                return self._rule(name, args)
            case "evaluate_due" | "evaluate_waiting" | "evaluate_schedules" | "receive_events":
                return self._settle(name, args, kwargs)
            case _:
                return at_once(getattr(self.store, name)(*args, **kwargs))
        return None

    def _rule(self, name: str, args: tuple[Any, ...]) -> object:
        """Change a rule: its entry in the audit log, and all rules as they are then, are shown to the checker."""
        result = at_once(getattr(self.store, name)(*args))
        if result is not False:
            limit = limit_of(*args[:2]) if name == "drop_group" else None
            self._world.checker.ruled(self.rules(), args[-1], limit)
        return result

    def _settle(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        """Evaluate schedules: the decisions made inside the call are shown to the checker once written."""
        place = next(index for index, arg in enumerate(args) if callable(arg))
        decide: Decide = args[place]
        decided: list[tuple[EvaluationBatch, Sequence[ScheduleDecision]]] = []

        def watch(evaluation_batch: EvaluationBatch) -> Sequence[ScheduleDecision]:
            schedule_decisions = decide(evaluation_batch)
            decided[:] = [(evaluation_batch, schedule_decisions)]
            return schedule_decisions

        result = at_once(getattr(self.store, name)(*args[:place], watch, *args[place + 1 :], **kwargs))
        for evaluation_batch, schedule_decisions in decided:
            self._world.checker.settled(evaluation_batch, schedule_decisions)
        return result

    def _commit(self, term: Any, number: int, batch: Batch) -> object:
        checker = self._world.checker
        expected = checker.expect(term, number)
        try:
            if _is_poisoned(batch) and expected == "written":
                raise Rejected("the store refuses the content of this batch")
            at = at_once(self.store.commit(term, number, batch))
        except MainspringError as error:
            checker.refused(term, number, batch, expected, error)
            raise
        checker.committed(term, number, batch, expected)
        return at

    def _hint(self, shard: str, runs: Sequence[Run]) -> None:
        """Send a work hint. The sender of the runs may get it last."""
        loop = self._world.loop
        maker = self._random.randrange(len(self._listeners)) if self._listeners else None
        for place, (call, process) in enumerate(self._listeners):
            if self._random.random() < 0.7:
                context = process.context if process is not None else loop.outside
                at_hand = runs if place == maker else ()
                loop.call_later(self._random.uniform(0.0, 0.01), call, shard, at_hand, context=context)


class HostStore:
    """The store as one process sees it. Every method of the port, by name."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._loop: VirtualLoop = world.loop
        self._truth = world.truth
        self._random = Random(f"calls:{world.mix.seed}:{name}")
        self._name = name

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        def call(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
            return self._call(name, args, kwargs)

        if name.startswith("_"):
            raise AttributeError(name)
        self.__dict__[name] = call
        return call

    def on_work(self, call: OnWork) -> None:
        """Hints arrive without a call."""
        self._truth.listen(call)

    async def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        loop, world = self._loop, self._world
        began = loop.now
        if name == "commit":
            world.checker.issued(args[0], args[1], args[2])
        answer: asyncio.Future[Any] = loop.create_future()
        fate = self._fate(name)
        travel = 0.0005 + self._random.random() * 0.003
        if self._truth.slow_until > began:
            travel += self._truth.slowness * (0.5 + self._random.random())
        if fate == "call_slow":
            travel += self._random.uniform(0.2, 2.5)
        if fate == "call_late":
            late = min(self._random.uniform(DEADLINE_SECONDS, 12.0), max(DEADLINE_SECONDS, world.calm_at - began))
            loop.call_at(began + late, self._arrive, answer, name, args, kwargs, fate, context=loop.outside)
            loop.call_at(began + DEADLINE_SECONDS, self._give_up, answer, context=loop.outside)
        else:
            loop.call_at(began + travel, self._arrive, answer, name, args, kwargs, fate, context=loop.outside)
        result = await answer
        if name == "commit":
            world.checker.renewed(args[0], began)
        elif name == "campaign" and result is not None:
            world.checker.renewed(result, began)
        return result

    def _fate(self, name: str) -> str | None:
        """The fault of a call, if any."""
        if self._world.is_calm():
            return None
        scale = 1.0 if name in _WRITES else 0.3
        draw = self._random.random()
        for kind, rate in self._world.mix.calls.items():
            draw -= rate * scale
            if draw < 0:
                self._world.trace.fault(kind, f"{self._name} {name}")
                return kind
        return None

    def _arrive(self, answer: asyncio.Future[Any], name: str, args: Any, kwargs: Any, fate: str | None) -> None:
        """Execute the call, or lose it."""
        if fate == "call_refused":
            _settle(answer, Unavailable("the call did not get through"))
            return
        try:
            result = self._truth.carry_out(name, args, kwargs)
        except MainspringError as error:
            _settle(answer, error)
            return
        if fate == "call_unanswered":
            _settle(answer, Unavailable("the answer was lost"))
        elif not answer.done():
            answer.set_result(result)

    def _give_up(self, answer: asyncio.Future[Any]) -> None:
        _settle(answer, Unavailable("no answer in time"))


def _settle(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _is_poisoned(batch: Batch) -> bool:
    outputs = [change.task.output for change in batch.tasks] + [late.output for late in batch.late]
    documents = [saved.document for saved in batch.checkpoints]
    return any(text is not None and POISON in text for text in (*outputs, *documents))
