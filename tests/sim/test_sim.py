"""A taste of the simulator for every run of the tests: some seeds, those that once failed, and some planted faults.

`make sim` runs thousands of seeds, `make sim-faults` takes out every guard. A seed that fails is kept here.
"""

from __future__ import annotations

import random
import time

import pytest

from tests.sim.guard import Escaped, sealed
from tests.sim.planted import PLANTS, without_timers_of_silence
from tests.sim.runs import run_planted_seed
from tests.sim.world import run_seed

SHORT = 300.0
WHOLE = 900.0

REGRESSIONS = {
    1: "an event that failed alone ended the leader: a field of the log line had the name of the line itself",
    3: "a worker restarted in the middle of a group started the next attempt twice (I-17)",
    17: "silence was counted from the beginning of the turn in which a worker was heard of (I-16)",
    21: "a length of time that was almost over made the loop spin until its next renewal (L-5)",
    28: "after the store's clock had gone back, the loop spun until its time went on (L-5)",
    32: "a quarantined task was cleared after its upstream had been cancelled, and ran (I-40)",
    45: "a worker was given up whose registration waited in the inbox of a turn that was full (I-16)",
    86: "a batch that was long on its way reached a store that had gone back: the same attempt twice is right then",
    150: "a task that was late and lost by turns was tried for ever (I-18)",
    1094: "a failover lost runs that were only submitted, and their leader ended broken instead of stepping down",
    1428: "an attempt that was asked to stop and ended in one turn was signalled without a request in its row (STA-8)",
    207: "a task that was evicted and whose worker was lost with it lost more often than is allowed (I-18)",
    59: "a fan-out that waited for another one of its run, which was paced, made the leader spin (L-5)",
    197: "a leader that was stopping met a batch that the store refuses, and did not hand over",
    491: "a resume that met too long a list was ended in the middle of a visit, and counted one too many (SPREAD)",
    975: "the second watch gave a worker up that came back while the batch before was being written (I-16)",
}
"""Seeds that failed once, and what was wrong."""


@pytest.mark.parametrize("seed", range(1001, 1009))
def test_a_seed_finds_nothing(seed: int) -> None:
    result = run_seed(seed, seconds=SHORT)

    assert result.found == []
    assert result.virtual_seconds >= SHORT


@pytest.mark.parametrize("seed", REGRESSIONS, ids=str)
def test_a_seed_that_failed_once_does_not_fail_again(seed: int) -> None:
    result = run_seed(seed, seconds=WHOLE)

    assert result.found == []
    assert sum(result.faults.values()) >= 10


def test_a_seed_always_tells_the_same_story() -> None:
    first, second = run_seed(1010, seconds=SHORT), run_seed(1010, seconds=SHORT)

    assert first == second


@pytest.mark.parametrize(
    ("guard", "seed", "invariant"),
    [
        ("term fence", 3, "I-20"),
        ("dependency check", 1, "I-40"),
        ("journal answer", 1, "I-50"),
        ("window cursor", 3, "I-31"),
        ("fan-in", 4, "I-40"),
        ("retry budget", 2, "RTY-3"),
        ("condition of a task", 2, "DAG-4"),
        ("instant of a new schedule", 1, "TRG-5"),
        ("entry of a lookup", 1, "I-73"),
        ("queue of a priority", 3, "I-62"),
        ("expected checkpoint", 1, "WRK-7"),
    ],
)
def test_a_missing_guard_is_noticed(guard: str, seed: int, invariant: str) -> None:
    plant = next(plant for plant in PLANTS if plant.guard == guard)

    result = run_planted_seed(plant, seed, WHOLE)

    assert result.found[0][0] == invariant


@pytest.mark.parametrize("seed", [1015, 1022])
def test_the_second_watch_alone_finds_every_silent_worker(seed: int) -> None:
    """LIV-1: either of the two is enough."""
    with without_timers_of_silence():
        result = run_seed(seed, seconds=SHORT)

    assert result.found == []
    assert result.checks["LIV-1"] > 0


def test_simulated_code_cannot_reach_the_machines_clock_or_chance() -> None:
    with sealed(lambda level, event, fields: None):
        with pytest.raises(Escaped):
            time.monotonic()
        with pytest.raises(Escaped):
            random.random()
