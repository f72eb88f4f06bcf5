"""Parameters of one seed: amounts, fault types and rates. Each seed draws its own (swarm testing)."""

from __future__ import annotations

from random import Random

import msgspec

from tests.sim.sharing_mix import SharingMix, draw_sharing

STRIKES = (
    "server_stalled", "server_killed", "server_stopped", "worker_stalled", "worker_killed", "worker_wiped",
    "partition", "link_cut", "store_gone", "store_slow", "store_clock_jumped", "store_failed_over",
)  # fmt: skip
"""External faults, at random times."""

CALL_FAULTS = ("call_slow", "call_refused", "call_unanswered", "call_late")
"""Faults of single calls to the store."""


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """The draw of one seed."""

    seed: int
    servers: int
    workers: int
    tenants: int
    runs: int
    acts: int
    chaos_seconds: float
    seconds: float
    strikes: int
    weights: dict[str, float]
    """External faults with their weights."""
    calls: dict[str, float]
    """Faults of calls with their probability per call that writes."""
    duplicated: float
    """Probability that a message is delivered twice."""
    torn: float
    """Probability that a message ends its session."""
    latency: float
    store_rate: float
    """Store seconds per second."""
    budget: int
    """Rows per turn of a shard."""
    small_run: int
    """Runs of up to this many tasks are adopted without a bulk operation."""
    poison: float
    """Probability that a process returns content that can't be stored."""
    poisoned_jobs: float
    failure: float
    stubborn: float
    crash_after_write: float
    """Probability that a worker dies just after a write to its spool."""
    stay: float
    """Seconds before a finished run moves to history."""
    saves: int
    """How often an attempt saves a checkpoint."""
    worker_acts: int
    leavings: int
    """How often a worker leaves gracefully."""
    schedules: int
    schedule_acts: int
    """How often schedules are paused, resumed, triggered, backfilled or disabled."""
    events: int
    """How many events arrive; some repeatedly."""
    growing: float
    """Probability that a job has fan-outs or expansions."""
    crowded: bool
    """Whether dynamic tasks are paced as if other runs always waited."""
    alike: int
    """Number of failures with one signature that opens a circuit breaker."""
    with_failure_mode: float
    """Probability that a job has a common failure mode."""
    conditional: float
    """Probability that a job has tasks with conditions of their own."""
    linear: float
    """Probability that a job uses linear delays."""
    since: float
    """Probability that a new schedule catches up on windows before its creation."""
    computed: float
    """Probability that a schedule computes parameters."""
    kills: int
    corrections: int
    """How often a user replaces a checkpoint."""
    priorities: int
    """How often the priority of a run is changed."""
    retunings: int
    """How often an operator changes settings."""
    sharing: SharingMix


def draw_mix(seed: int, seconds: float) -> Mix:
    """Draw the parameters of a seed."""
    random, later = Random(f"mix:{seed}"), Random(f"mix of time, failure and growth:{seed}")
    people = Random(f"mix of what operators do:{seed}")
    folder = Random(f"mix of what pipeline files say:{seed}")
    chosen = [name for name in STRIKES if random.random() < 0.5] or [random.choice(STRIKES)]
    return Mix(
        seed=seed,
        servers=random.choice((1, 2, 2, 2, 3)),
        workers=random.randint(1, 5),
        tenants=random.randint(1, 4),
        runs=random.randint(15, 35),
        acts=random.choice((0, 8, 16, 30)),
        chaos_seconds=seconds * random.uniform(0.55, 0.7),
        seconds=seconds,
        strikes=random.randint(11, 26),
        weights={name: random.uniform(0.2, 1.0) for name in chosen},
        calls={name: random.choice((0.0, 0.0, 0.003, 0.01, 0.03)) for name in CALL_FAULTS},
        duplicated=random.choice((0.0, 0.0, 0.02, 0.2)),
        torn=random.choice((0.0, 0.0, 0.003, 0.02)),
        latency=random.choice((0.001, 0.005, 0.05)),
        store_rate=random.choice((1.0, 1.0, 0.98, 1.02)),
        budget=random.choice((1_000, 200, 40, 12)),
        small_run=random.choice((32, 32, 8, 3)),
        poison=random.choice((0.0, 0.0, 0.03, 0.15)),
        poisoned_jobs=random.choice((0.0, 0.0, 0.1)),
        failure=random.choice((0.0, 0.1, 0.3)),
        stubborn=random.choice((0.0, 0.2, 0.6)),
        crash_after_write=random.choice((0.0, 0.0, 0.01)),
        stay=random.choice((30.0, 120.0, 86_400.0)),
        saves=random.choice((0, 40, 200)),
        worker_acts=random.choice((0, 6, 20)),
        leavings=random.choice((0, 0, 3, 8)),
        schedules=later.choice((0, 2, 4, 7)),
        schedule_acts=later.choice((0, 10, 30)),
        events=later.choice((0, 10, 40)),
        growing=later.choice((0.0, 0.2, 0.5)),
        with_failure_mode=later.choice((0.0, 0.2, 0.6)),
        crowded=later.random() < 0.5,
        alike=later.choice((6, 6, 40)),
        conditional=folder.choice((0.0, 0.0, 0.5)),
        linear=folder.choice((0.0, 0.0, 0.5)),
        since=folder.choice((0.0, 0.5)),
        computed=folder.choice((0.0, 0.5)),
        kills=people.choice((0, 10, 30)),
        corrections=people.choice((0, 20, 60)),
        priorities=people.choice((0, 15, 40)),
        retunings=people.choice((0, 5, 15)),
        sharing=draw_sharing(seed),
    )
