"""Helpers for diagnoses in tests."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from mainspring.core.explain.diagnosis import Diagnosis, GateState
from mainspring.core.model.run import Run
from mainspring.shard.explain.diagnose import diagnose
from mainspring.shard.state.memory import ShardMemory
from tests.shard.world import World


def why(world: World, name: str, of: Run | None = None) -> Diagnosis:
    """The diagnosis of a task that is in memory."""
    found = diagnose(world.shard.memory, world.task(name, of).id, world.now, batch=len(world.batches))
    assert found is not None
    return found


def holding(diagnosis: Diagnosis) -> str:
    """The gate that holds a task; empty if none does."""
    return next((gate.name for gate in diagnosis.gates if gate.passed is GateState.HOLDS), "")


def blockers(diagnosis: Diagnosis) -> list[str]:
    """The ids of the blockers."""
    return [one.id for one in diagnosis.blockers]


def settled(world: World, **workers: float) -> None:
    """Register workers with these cores, and let some time pass."""
    for name, cores in workers.items():
        world.register(name, cores=cores)
    world.advance(6, heard=list(world.workers))


def picture(memory: ShardMemory) -> str:
    """The whole memory of a shard as text, in a fixed order."""
    seen: dict[int, int] = {}

    def look(thing: object) -> object:
        if thing is None or isinstance(thing, str | int | float | datetime | timedelta):
            return repr(thing)
        if id(thing) in seen:
            return f"#{seen[id(thing)]}"
        seen[id(thing)] = len(seen)
        if isinstance(thing, msgspec.Struct):
            return [type(thing).__name__, *(look(getattr(thing, name)) for name in thing.__struct_fields__)]
        if isinstance(thing, dict):
            return [[look(key), look(value)] for key, value in thing.items()]
        if isinstance(thing, set | frozenset):
            return sorted(repr(one) for one in thing)
        if isinstance(thing, list | tuple) or hasattr(thing, "popleft"):
            return [look(one) for one in thing]  # type: ignore[attr-defined]  # a deque is gone through, too
        names = [*vars(thing)] if hasattr(thing, "__dict__") else [*getattr(thing, "__slots__", ())]
        return [type(thing).__name__, *(look(getattr(thing, name)) for name in sorted(names) if name != "_is_stale")]

    return repr(look(memory))
