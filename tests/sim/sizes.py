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
from mainspring.core.model.settings import SchedulerSettings
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

SLOW = SchedulerSettings(fan_out_per_second=2, fan_out_burst=4, ready_per_second=40, ready_burst=10)
CIRCUITS: dict[str, float] = {
    "RETRY_HOLD_SECONDS": 6.0, "PROBE_EVERY_SECONDS": 8.0, "PROBE_ONE_IN": 10,
    "JOB_PROBE_INTERVAL_SECONDS": 8.0, "IDLE_CLOSE_SECONDS": 60.0,
}  # fmt: skip
"""Times of circuit breakers, shorter than in production."""


def tuning_of(mix: SharingMix) -> SchedulerSettings:
    """The settings of a seed."""
    return replace(
        SLOW,
        preemption_grace_seconds=mix.grace_seconds,
        reservation_seconds=mix.kept_seconds,
        reserve_after_seconds=mix.keep_after_seconds,
        defragment=int(mix.defragment),
        throttled_starts_per_second=2,
        decisions_sampled_per_1000=mix.decisions_kept,
    )


@contextmanager
def sized(mix: Mix) -> Iterator[None]:
    """Give the engine the sizes of a seed."""
    draws = Random(f"entropy:{mix.seed}")

    def rows(_: turns.BatchSizer) -> int:
        return mix.budget

    sizes: list[tuple[ModuleType | type, str, Any]] = [
        (turns.BatchSizer, "rows", rows),
        (adoption, "SMALL_RUN_TASKS", mix.small_run),
        (host, "POLL_SECONDS", 1.0),
        (sharing_rules, "POLL_SECONDS", 2.0),
        (cluster_limits, "POLL_SECONDS", 2.0),
        (delivery, "POLL_SECONDS", 5.0),
        (trigger_loop, "POLL_SECONDS", 4.0),
        (audit_sealer, "SEAL_SECONDS", 5.0),
        (schedule_actions, "entropy", lambda: draws.getrandbits(64)),
        (evaluation_context, "entropy", lambda: draws.getrandbits(64)),
    ]
    sizes.append((run_pacing, "MIN_PART", 2))
    if mix.crowded:
        sizes.append((run_pacing, "others_wait", lambda memory, run: True))
    circuits = CIRCUITS | {"SIGNATURE_FAILURE_THRESHOLD": mix.alike, "MIN_ATTEMPTS": mix.alike + 4}
    for module in (circuit_breakers, breaking):
        sizes += [(module, name, value) for name, value in circuits.items() if hasattr(module, name)]
    with ExitStack() as stack:
        for owner, name, value in sizes:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield
