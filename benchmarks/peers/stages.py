"""The stages of a measurement.

    first run    from the installed packages to the first task start
    enqueue      single requests, and the system's bulk request
    drain        queued tasks, then workers: starts per second, and tasks recorded as done per second
    starts       one task on an idle system, from the request to its first line
    chain        from the start of each step to the start of the next
    fan-out      from the request for parallel tasks to the start of the join

Work that a system does not support is not offered by its driver, and has no figure.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.peers.arithmetic import in_milliseconds, missing, steady_rate, steps, whole_rate
from benchmarks.peers.driver import Driver
from benchmarks.peers.figures import Figure, Measure, figure
from benchmarks.peers.load import Reading, between, memory_of, read_load
from benchmarks.peers.marks import Marks
from benchmarks.peers.peer import Service, Sizes
from benchmarks.peers.processes import Processes, SystemFailure

STEPS = 10
_POLL_SECONDS = 0.02
_PROBE_POLL_SECONDS = 0.0005
_MEMORY_SECONDS = 2.0
_GAPS_SECONDS = (0.01, 0.06)
"""Random pauses between probes, so that polling intervals do not align."""
_WARM_PROBES = 5
_PROBE_BUDGET_SECONDS = 60.0
_CHAIN_BUDGET_SECONDS = 40.0
_SETTLE_SECONDS = 1.5
_MIN = 3
Figures = dict[Measure, Figure]


class RunningSystem(NamedTuple):
    """A running system, with everything needed to measure it."""

    driver: Driver
    marks: Marks
    sizes: Sizes
    services: Processes
    workers: Processes
    worker_services: Sequence[Service]
    driver_works: bool

    def memory(self) -> int:
        """Bytes that the system uses now, without its store."""
        roots = [*self.services.pids, *self.workers.pids]
        return memory_of([*roots, self.driver.pid] if self.driver_works else roots)


def first_task(running: RunningSystem) -> float:
    """Run one task, and return its start time."""
    running.workers.start_all(running.worker_services)
    running.marks.clear()
    if "enqueue" in running.driver.actions:
        running.driver.ask("enqueue", first=0, count=1)
    else:
        running.driver.ask("run_many", first=0, count=1)
    return _wait_for(running, 0, running.sizes.timeout_seconds * 3)


def drains(running: RunningSystem) -> Figures:
    """The best of several drains, with the enqueue rate of its tasks."""
    found: Figures = {}
    for number in range(running.sizes.drains):
        fresh = _drain_of_a_queue(running) if "enqueue" in running.driver.actions else _drain_by_request(running)
        if not found or _is_better(fresh, found):
            found |= fresh
        if number == 0 and found[Measure.STARTED].value < _slow(running.sizes):
            break  # a long drain is not repeated
    return found


def starts(running: RunningSystem) -> Figures:
    """Start latency of a single task on an idle system."""
    action = "start" if "start" in running.driver.actions else "enqueue"
    if action not in running.driver.actions:
        return {}
    if running.worker_services and not running.workers.pids:
        running.workers.start_all(running.worker_services)
    time.sleep(_SETTLE_SECONDS)
    running.marks.clear()
    chance = random.Random(3)
    waits: list[float] = []
    before, give_up_at = read_load(), time.monotonic() + _PROBE_BUDGET_SECONDS
    for number in range(_WARM_PROBES + running.sizes.probes):
        if time.monotonic() > give_up_at and len(waits) >= _MIN:
            break
        sent_at = running.driver.ask(action, first=number, count=1).began_at
        began_at = _wait_for(running, number, running.sizes.timeout_seconds, _PROBE_POLL_SECONDS)
        if number >= _WARM_PROBES or running.sizes.probes <= _WARM_PROBES:
            waits.append(began_at - sent_at)
        time.sleep(chance.uniform(*_GAPS_SECONDS))
    foreign = between(before, read_load()).foreign_cores
    return _percentiles({Measure.START_P50: 50, Measure.START_P95: 95}, waits, foreign)


def chain(running: RunningSystem) -> Figures:
    """Latency between the steps of a chain."""
    if "chain" not in running.driver.actions:
        return {}
    running.marks.clear()
    found: list[float] = []
    before, give_up_at = read_load(), time.monotonic() + _CHAIN_BUDGET_SECONDS
    for number in range(running.sizes.chains):
        if time.monotonic() > give_up_at and number > 1:
            break
        running.driver.ask("chain", first=number * STEPS, count=STEPS)
        _wait_for(running, number * STEPS + STEPS - 1, running.sizes.timeout_seconds)
        if number > 0:  # the first one warms everything up
            found += steps(running.marks.several(number * STEPS, STEPS))
    foreign = between(before, read_load()).foreign_cores
    return _percentiles({Measure.STEP_P50: 50, Measure.STEP_P95: 95}, found, foreign)


def fan_out(running: RunningSystem) -> Figures:
    """Duration from a request for parallel tasks to the join; the best of two."""
    if "fan_out" not in running.driver.actions:
        return {}
    width, best = running.sizes.width, None
    for _ in range(min(2, running.sizes.drains)):
        running.marks.clear()
        before = read_load()
        asked_at = running.driver.ask("fan_out", first=0, count=width).began_at
        ended_at = _wait_for(running, width, running.sizes.timeout_seconds * 3)
        spent = between(before, read_load())
        if late := missing(running.marks.several(0, width)):
            raise SystemFailure(f"the last task of a fan-out began before {late} of the {width} others had")
        one = figure(ended_at - asked_at, spent.foreign_cores, of=width)
        best = one if best is None or one.value < best.value else best
    return {Measure.FAN_OUT: best} if best is not None else {}


def _drain_of_a_queue(running: RunningSystem) -> Figures:
    """Enqueue everything without workers; then start them."""
    found: Figures = {}
    sizes, has_many = running.sizes, "enqueue_many" in running.driver.actions
    _wait_for_records(running)  # unrecorded tasks would be run again later
    running.workers.stop()
    running.marks.clear()
    singly = min(sizes.singly, sizes.tasks) if has_many else sizes.tasks
    found[Measure.ENQUEUE] = _enqueue(running, "enqueue", 0, singly)
    if has_many and sizes.tasks > singly:
        found[Measure.ENQUEUE_MANY] = _enqueue(running, "enqueue_many", singly, sizes.tasks - singly)
    running.workers.start_all(running.worker_services)
    return found | _watch(running, sizes.tasks)


def _drain_by_request(running: RunningSystem) -> Figures:
    """For a system without a queue: request everything at once."""
    _wait_for_records(running)  # late tasks of an earlier request would be counted here
    running.marks.clear()
    before = read_load()
    running.driver.ask("run_many", first=0, count=running.sizes.tasks)
    return _watch(running, running.sizes.tasks, before)


def _enqueue(running: RunningSystem, action: str, first: int, count: int) -> Figure:
    before = read_load()
    answer = running.driver.ask(action, first=first, count=count)
    return figure(count / answer.seconds, between(before, read_load()).foreign_cores, of=count)


def _watch(running: RunningSystem, tasks: int, before: Reading | None = None) -> Figures:
    """Wait until all tasks have started and are recorded; CPU counts from the first start, or an earlier reading."""
    memory, sample_at = 0, 0.0
    waiting, moved_at = tasks, time.monotonic()
    while True:
        now, left = time.monotonic(), running.marks.several(0, tasks).count(0.0)
        if before is None and left < tasks:
            before = read_load()
        if left != waiting:
            waiting, moved_at = left, now
        if left == 0 or now - moved_at > running.sizes.timeout_seconds:
            break
        if now > sample_at:
            running.workers.check()
            memory, sample_at = max(memory, running.memory()), now + _MEMORY_SECONDS
        time.sleep(_POLL_SECONDS)
    if waiting or before is None:
        raise SystemFailure(f"{waiting} of {tasks} tasks never began")
    recorded_at = _wait_for_records(running)
    spent = between(before, read_load())
    moments = running.marks.several(0, tasks)
    memory = max(memory, running.memory())
    begun = sum(1 for moment in moments if moment > before.at) or tasks
    return _rates(moments, recorded_at, spent.foreign_cores) | {
        Measure.CPU: figure(1_000 * spent.system_cpu / begun, spent.foreign_cores, of=begun),
        Measure.MEMORY: figure(memory / 2**20),
    }


def _rates(moments: Sequence[float], recorded_at: float | None, foreign: float) -> Figures:
    values = {
        Measure.RECORDED: steady_rate(moments, recorded_at) if recorded_at is not None else None,
        Measure.STARTED: steady_rate(moments),
        Measure.STARTED_WHOLE: whole_rate(moments),
    }
    return {measure: figure(value, foreign, of=len(moments)) for measure, value in values.items() if value is not None}


def _wait_for_records(running: RunningSystem) -> float | None:
    """When the system had recorded all tasks as done; None if it keeps no such record."""
    if "left" not in running.driver.actions:
        return None
    give_up_at = time.monotonic() + running.sizes.timeout_seconds
    while True:
        answer = running.driver.ask("left")
        if not answer.answer:
            return answer.ended_at
        if time.monotonic() > give_up_at:
            raise SystemFailure(f"{answer.answer:.0f} tasks have begun and were never recorded as done")
        time.sleep(_POLL_SECONDS)


def _wait_for(running: RunningSystem, number: int, seconds: float, poll_seconds: float = _POLL_SECONDS) -> float:
    """Start time of this task."""
    give_up_at = time.monotonic() + seconds
    while not (moment := running.marks.get(number)):
        if time.monotonic() > give_up_at:
            running.workers.check()
            raise SystemFailure(f"task {number} did not begin in {seconds:.0f} s")
        time.sleep(poll_seconds)
    return moment


def _percentiles(measures: dict[Measure, int], seconds: Sequence[float], foreign: float) -> Figures:
    found = {measure: in_milliseconds(seconds, percent) for measure, percent in measures.items()}
    return {key: figure(value, foreign, of=len(seconds)) for key, value in found.items() if value is not None}


def _is_better(fresh: Figures, found: Figures) -> bool:
    """The faster drain counts, with all its figures."""
    key = Measure.RECORDED if Measure.RECORDED in found else Measure.STARTED
    return fresh[key].value > found[key].value


def _slow(sizes: Sizes) -> float:
    """Tasks per second with which a drain takes half a minute."""
    return sizes.tasks / 30


Stage = Callable[[RunningSystem], Figures]
STAGES: dict[str, Stage] = {"drain": drains, "starts": starts, "chain": chain, "fan-out": fan_out}
