"""A sample of the simulator for every test run: some seeds, those that once failed, and some mutations.

`make sim` runs thousands of seeds, `make sim-faults` disables every guard. Seeds that fail are added here.
"""

from __future__ import annotations

import random
import time

import pytest

from tests.sim.guard import Escaped, sealed
from tests.sim.mutations import MUTATIONS, without_timers_of_silence
from tests.sim.runs import run_planted_seed
from tests.sim.world import run_seed

SHORT = 300.0
WHOLE = 900.0

REGRESSIONS = {
    1: "an event that failed alone ended the leader: a field of the log line had the name of the line itself",
    2: "who came back to a line was compared with one that had left it, and overtook others (PLC-4)",
    3: "a worker restarted in the middle of a group started the next attempt twice (I-17)",
    17: "silence was counted from the beginning of the turn in which a worker sent a message (I-16)",
    21: "a length of time that was almost over made the loop spin until its next renewal (L-5)",
    28: "after the store's clock had gone back, the loop spun until its time advanced (L-5)",
    32: "a quarantined task was cleared after its upstream had been cancelled, and ran (I-40)",
    45: "a worker was given up whose registration waited in the inbox of a turn that was full (I-16)",
    86: "a batch that was long on its way reached a store that had gone back: the same attempt twice is right then",
    150: "a task that was late and lost by turns was tried for ever (I-18)",
    1094: "a failover lost runs that were only submitted, and their leader ended broken instead of stepping down",
    1428: "an attempt that was asked to stop and ended in one turn was signaled without a request in its row (STA-8)",
    185: "a task that was made, placed and asked to go in one batch was not counted as one that goes (PLC-8)",
    403: "a run was late of which nobody knew how long the rest takes: an output had added it (PLC-11)",
    207: "a task that was evicted and whose worker was lost with it lost more often than is allowed (I-18)",
    59: "a fan-out that waited for another one of its run, which was paced, made the leader spin (L-5); "
    "a P0 waited for room of its own while a P1 got some that was kept for a P2 (I-62)",
    197: "a leader that was stopping met a batch that the store refuses, and did not hand over",
    57: "the end of a run came late, after a failover had given its window to another: the schedule was suspended",
    491: "a resume that met too long a list was ended in the middle of a visit, and counted one too many (SPREAD)",
    975: "the second watch gave a worker up that came back while the batch before was being written (I-16)",
    549: "room that went over to an older task of its line did not stand in that task's row (PLC-6)",
    164: "a group whose important task had ended still counted as that, and a P1 made room instead of its P2 (PLC-6)",
    525: "a P1 got capacity reserved for a P2, and a P0 that waited for its next check did not (I-62)",
    233: "a P0 waited for room that others were leaving, while a P1 got what was kept for a P2 and was there (I-62)",
    56: "a task that lost its reservation to a P0 waited again for capacity, and smaller ones took it all (L-6)",
}
"""Seeds that failed once, and the cause."""


@pytest.mark.parametrize("seed", range(1001, 1009))
def test_a_seed_has_no_findings(seed: int) -> None:
    result = run_seed(seed, seconds=SHORT)

    assert result.found == []
    assert result.virtual_seconds >= SHORT


@pytest.mark.parametrize("seed", REGRESSIONS, ids=str)
def test_a_seed_that_failed_once_does_not_fail_again(seed: int) -> None:
    result = run_seed(seed, seconds=WHOLE)

    assert result.found == []
    assert sum(result.faults.values()) >= 10


def test_a_seed_is_deterministic() -> None:
    first, second = run_seed(1010, seconds=SHORT), run_seed(1010, seconds=SHORT)

    assert first == second


@pytest.mark.parametrize(
    ("guard", "seed", "invariant"),
    [
        ("term fence", 3, "I-20"),
        ("dependency check", 3, "I-40"),
        ("spool answer", 1, "I-50"),
        ("window cursor", 3, "I-31"),
        ("fan-in", 4, "I-40"),
        ("retry budget", 2, "RTY-3"),
        ("condition of a task", 2, "DAG-4"),
        ("instant of a new schedule", 1, "TRG-5"),
        ("entry of a lookup", 1, "I-73"),
        ("queue of a priority", 3, "I-62"),
        ("expected checkpoint", 1, "WRK-7"),
        ("quota", 1, "ADM-5"),
        ("slot of a group", 2, "PLC-12"),
        ("preempted attempts", 3, "PLC-6"),
        ("grant of an escalation", 3, "PLC-11"),
        ("first come, after a take-over", 3, "PLC-4"),
        ("log of placements", 1, "PLC-8"),
        ("owner of a claimed attempt", 16, "I-13"),
        ("start of a recalled attempt", 29, "I-13"),
        ("size of a claim", 16, "WRK-2"),
        ("recall of a claimed attempt", 142, "LIV-3"),
        ("claim of a disconnected worker", 108, "LIV-3"),
    ],
)
def test_a_missing_guard_is_detected(guard: str, seed: int, invariant: str) -> None:
    plant = next(plant for plant in MUTATIONS if plant.guard == guard)

    result = run_planted_seed(plant, seed)

    assert result.found[0][0] == invariant


@pytest.mark.parametrize(
    ("guard", "invariant", "story"),
    [
        ("capacity check", "I-60", "left after taking"),
        ("a group counts once", "I-60", "tenants use"),
        ("burst before guaranteed", "PLC-6", "is guaranteed it, and others are not"),
        ("no level evicts itself", "PLC-6", "and the other way round before"),
        ("reservation", "PLC-6", "that is kept for others"),
        ("reservation of a new leader", "PLC-6", "is kept, and a leader has"),
        ("time of a reservation", "PLC-6", "kept until"),
        ("strict priority", "I-62", "before"),
        ("first come", "PLC-4", "starts before"),
        ("no tenant is passed over", "L-6", "younger ones have"),
    ],
)
def test_a_missing_sharing_guard_is_detected_by_its_own_check(guard: str, invariant: str, story: str) -> None:
    """No placement beyond capacity; usage equals leases, a group once; burst before guaranteed; no mutual preemption;
    reservations are made and released; strict priority; first come; no tenant starves.

    The first seed of each mutation detects it.
    """
    plant = next(plant for plant in MUTATIONS if plant.guard == guard)

    result = run_planted_seed(plant, plant.first_seed)

    assert result.found[0][0] == invariant
    assert story in result.found[0][1]


@pytest.mark.parametrize("seed", [1015, 1022])
def test_the_second_check_alone_finds_every_silent_worker(seed: int) -> None:
    """LIV-1: either of the two watches suffices."""
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
