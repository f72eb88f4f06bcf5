"""Sizes that cause many events with few tasks, and checks that are rare enough to save time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from types import ModuleType
from typing import Any
from unittest import mock

from msgspec.structs import replace

from mainspring.core.lifecycle import circuit_breakers
from mainspring.core.model.settings import Tuning
from mainspring.host import batch_sizer as turns
from mainspring.host import host
from mainspring.host.config import cluster_limits, sharing_rules
from mainspring.host.maintenance import audit_sealer
from mainspring.host.outbox import delivery
from mainspring.host.schedules import evaluation_context, schedule_actions, trigger_loop
from mainspring.shard.tasks import adoption, run_pacing
from mainspring.shard.tasks import circuit_breakers as breaking
from tests.sim.mix import Mix
from tests.sim.sharing_mix import SharingMix

SLOW = Tuning(growth_per_second=2, growth_burst=4, ready_per_second=40, ready_burst=10)
CIRCUITS: dict[str, float] = {
    "PUT_OFF_SECONDS": 6.0, "PROBE_EVERY_SECONDS": 8.0, "PROBE_ONE_IN": 10,
    "JOB_PROBE_EVERY_SECONDS": 8.0, "FORGOTTEN_AFTER_SECONDS": 60.0,
}  # fmt: skip
"""So soon it is tried here whether a circuit may close."""


def tuning_of(mix: SharingMix) -> Tuning:
    """The measures of a seed."""
    return replace(
        SLOW,
        preemption_grace_seconds=mix.grace_seconds,
        kept_room_seconds=mix.kept_seconds,
        keep_room_after_seconds=mix.keep_after_seconds,
        defragment=int(mix.defragment),
        throttled_starts_per_second=2,
        decisions_kept_of_1000=mix.decisions_kept,
    )


@contextmanager
def sized(mix: Mix) -> Iterator[None]:
    """Give the engine the sizes of a seed."""
    draws = Random(f"entropy:{mix.seed}")

    def rows(_: turns.Pace) -> int:
        return mix.budget

    sizes: list[tuple[ModuleType | type, str, Any]] = [
        (turns.Pace, "rows", rows),
        (adoption, "SMALL_RUN", mix.small_run),
        (host, "LOOK_SECONDS", 1.0),
        (sharing_rules, "LOOK_SECONDS", 2.0),
        (cluster_limits, "LOOK_SECONDS", 2.0),
        (delivery, "LOOK_SECONDS", 5.0),
        (trigger_loop, "LOOK_SECONDS", 4.0),
        (audit_sealer, "SEAL_SECONDS", 5.0),
        (schedule_actions, "entropy", lambda: draws.getrandbits(64)),
        (evaluation_context, "entropy", lambda: draws.getrandbits(64)),
    ]
    sizes.append((run_pacing, "LEAST_PART", 2))
    if mix.crowded:
        sizes.append((run_pacing, "others_wait", lambda memory, run: True))
    circuits = CIRCUITS | {"ALIKE": mix.alike, "LEAST_ATTEMPTS": mix.alike + 4}
    for module in (circuit_breakers, breaking):
        sizes += [(module, name, value) for name, value in circuits.items() if hasattr(module, name)]
    with ExitStack() as stack:
        for owner, name, value in sizes:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield
