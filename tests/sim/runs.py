"""Run many seeds in several processes, and report the results."""

from __future__ import annotations

import multiprocessing
import multiprocessing.pool
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.sim.mutation import Mutation
from tests.sim.mutations import MUTATIONS
from tests.sim.world import SeedResult, run_seed

RERUN_EVERY = 50
PLANTED_BUDGET = 300
LEAST_FAULTS = 10


class Outcome(msgspec.Struct, frozen=True):
    """A seed, and whether its second run was the same (None: it was run once)."""

    result: SeedResult
    same: bool | None = None


def tell_seed(seed: int, seconds: float, guard: str | None) -> int:
    """Run one seed and print all that happens."""
    plant = next((one for one in MUTATIONS if one.guard == guard), None)
    if guard is not None and plant is None:
        sys.exit(f"no such guard: {guard}; there are {', '.join(one.guard for one in MUTATIONS)}")
    result = run_planted_seed(plant, seed, verbose=True) if plant else run_seed(seed, seconds=seconds, verbose=True)
    print(f"seed {seed}: {sum(result.faults.values())} faults, {result.steps} steps, trace {result.digest}")
    for invariant, story in result.found:
        print(f"{invariant}: {story}")
    return 1 if result.found else 0


def run_seeds(seeds: Sequence[int], processes: int, seconds: float) -> int:
    """Run these seeds, and report."""
    began = time.perf_counter()
    outcomes: list[Outcome] = []
    work = [(seed, seconds, index % RERUN_EVERY == 0) for index, seed in enumerate(seeds)]
    with _progress("seeds", len(seeds)) as advance, _pool(processes) as pool:
        for outcome in pool.imap_unordered(_run_one, work, chunksize=1):
            outcomes.append(outcome)
            advance(outcome.result.found)
    return _report(outcomes, time.perf_counter() - began)


def run_planted(processes: int) -> int:
    """Disable each guard, and run seeds until that is detected."""
    missed = 0
    width = max(len(plant.guard) for plant in MUTATIONS)
    print(f"{'guard':{width}}  caught by  seed  seeds needed  what the simulator saw")
    for number, plant in enumerate(MUTATIONS):
        caught = _catch(number, processes)
        if caught is None:
            missed += 1
            print(f"{plant.guard:{width}}  NOT CAUGHT in {PLANTED_BUDGET} seeds", flush=True)
        else:
            seed, tried, (invariant, story) = caught
            print(f"{plant.guard:{width}}  {invariant:9}  {seed:4}  {tried:12}  {story[:100]}", flush=True)
    print(f"{len(MUTATIONS) - missed} of {len(MUTATIONS)} guards are noticed when they are gone")
    print("to see one: python -m tests.sim --seed SEED --plant 'GUARD'")
    return 1 if missed else 0


def _catch(number: int, processes: int) -> tuple[int, int, tuple[str, str]] | None:
    """The first seed that detects a missing guard, the number of seeds tried, and the finding."""
    first = MUTATIONS[number].first_seed
    work = ((number, seed) for seed in range(first, first + PLANTED_BUDGET))
    with _pool(processes) as pool:
        for tried, (seed, found) in enumerate(pool.imap(_run_planted_one, work, chunksize=1), 1):
            if found:
                return seed, tried, found[0]
    return None


def run_planted_seed(plant: Mutation, seed: int, *, verbose: bool = False) -> SeedResult:
    """Run one seed without a guard, for the duration of the mutation."""
    with plant.patch():
        return run_seed(seed, seconds=plant.seconds, verbose=verbose, only=plant.only)


def _run_one(work: tuple[int, float, bool]) -> Outcome:
    seed, seconds, twice = work
    result = run_seed(seed, seconds=seconds)
    if not twice:
        return Outcome(result)
    return Outcome(result, run_seed(seed, seconds=seconds).digest == result.digest)


def _run_planted_one(work: tuple[int, int]) -> tuple[int, list[tuple[str, str]]]:
    number, seed = work
    return seed, run_planted_seed(MUTATIONS[number], seed).found


def _report(outcomes: Sequence[Outcome], took: float) -> int:
    results = sorted((outcome.result for outcome in outcomes), key=lambda result: result.seed)
    failing = [result for result in results if result.found]
    reruns = [outcome.same for outcome in outcomes if outcome.same is not None]
    lazy = [result.seed for result in results if not result.found and sum(result.faults.values()) < LEAST_FAULTS]
    faults, events, checks = (
        _sum(one.faults for one in results),
        _sum(one.events for one in results),
        _sum(one.checks for one in results),
    )
    virtual = sum(result.virtual_seconds for result in results)
    for result in failing:
        print(f"seed {result.seed} fails:")
        for invariant, story in result.found:
            print(f"  {invariant}: {story[:600]}")
        print(f"  python -m tests.sim --seed {result.seed}")
    print(f"seeds          {len(results)}, {len(failing)} failing")
    print(f"virtual time   {virtual / 3600:.1f} hours, {min(one.virtual_seconds for one in results):.0f} s at least")
    print(f"speed          {len(results) / took * 3600:.0f} seeds per hour, {virtual / took:.0f} times real time")
    print(f"faults         {sum(faults.values())}, {sum(faults.values()) / len(results):.0f} per seed")
    _print_counts(faults)
    print(f"events         {sum(events.values())}, {sum(one.steps for one in results)} steps")
    _print_counts(events)
    print(f"invariants     {sum(checks.values())} evaluations")
    _print_counts(checks)
    print(f"run twice      {len(reruns)}, {sum(reruns)} with an equal trace")
    if lazy:
        print(f"too few faults in {lazy}")
    return 1 if failing or lazy or not all(reruns) else 0


def _sum(counts: Iterable[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total


def _print_counts(counts: Counter[str]) -> None:
    for name, count in sorted(counts.items()):
        print(f"    {name:26} {count:>12}")


@contextmanager
def _pool(processes: int) -> Iterator[multiprocessing.pool.Pool]:
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield pool


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[object], None]]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        failing = 0

        def advance(found: object) -> None:
            nonlocal failing
            failing += bool(found)
            progress.update(task, advance=1, description=f"{what}, {failing} failing" if failing else what)

        yield advance
