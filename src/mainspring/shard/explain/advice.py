"""Suggestions for a waiting task (OBS-1): only what would change the verdict by the shard's own rules.

Each reason has candidates. Each is tried on a copy (`shard/explain/forecast.py`), and suggested if the task would
start, or would wait for another cause; the effect says which. Waiting is suggested wherever a start is expected.

If you add a reason: its candidates in `_CANDIDATES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from mainspring.core.admission.job_routing import p0_fault
from mainspring.core.explain import advice_messages as words
from mainspring.core.explain.diagnosis import Diagnosis, ExpectedKind, Reason, Suggestion, SuggestionKind
from mainspring.core.explain.what_if import NO_CHANGES, ExtraWorkers, Hypothesis
from mainspring.core.fairness.quotas import Quota, excess
from mainspring.core.model.resources import NAMES, ZERO_RESOURCES, Resources
from mainspring.core.model.task import Priority, StopKind, Task, TaskState
from mainspring.core.model.worker import Worker
from mainspring.core.placement.feasibility import Affinity, ObstacleKind, obstacles
from mainspring.core.placement.task_shapes import Shape
from mainspring.core.work.isolation import ISOLATION_LABEL
from mainspring.core.work.work import HANDLER_LABEL
from mainspring.shard.events import ClearTask, Event, RulesChanged, UncordonWorker
from mainspring.shard.explain.findings import lease_count
from mainspring.shard.explain.forecast import forecast_start, try_out, try_start
from mainspring.shard.explain.snapshot import Snapshot, discard_memory, memory_of
from mainspring.shard.placement import concurrency_groups
from mainspring.shard.placement.affinity import affinity_of
from mainspring.shard.state.limit_ledger import limits_of
from mainspring.shard.state.memory import ShardMemory

_MAX_TRIED = 8
_ACTOR = "what if"
_SIZE = frozenset({ObstacleKind.NO_CAPACITY, ObstacleKind.RESERVED, ObstacleKind.TOO_BIG})
_NO_ADVICE = frozenset({Reason.UNKNOWN, Reason.SCHEDULER_LAG})


class _Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A change that may help."""

    kind: SuggestionKind
    says: str
    command: str = ""
    hypothesis: Hypothesis = NO_CHANGES
    events: tuple[Event, ...] = ()
    snapshot: Snapshot | None = None
    """Another snapshot, if the change is no hypothesis."""


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """The task that suggestions are made for."""

    found: Diagnosis
    snapshot: Snapshot
    memory: ShardMemory
    """Made from the snapshot, read-only."""
    task: Task
    shape: Shape
    affinity: Affinity


def advise(found: Diagnosis, snapshot: Snapshot) -> Diagnosis:
    """Return the diagnosis with its expected start, if the task is queued, and with suggestions."""
    if found.is_stale() or found.reason in _NO_ADVICE:
        return found
    if found.expected is None and found.state == TaskState.QUEUED:
        found = replace(found, expected=forecast_start(snapshot))
    if found.reason is None:
        return found
    memory = memory_of(snapshot)
    task = memory.runs.find(snapshot.task_id) or snapshot.task()
    shape = memory.shape(task)
    affinity = affinity_of(memory, task, shape)
    case = _Case(found=found, snapshot=snapshot, memory=memory, task=task, shape=shape, affinity=affinity)
    advised = replace(found, suggestions=(*_waiting(case), *_without_trial(case), *_tried(case)))
    discard_memory(memory)
    return advised


def _waiting(case: _Case) -> Iterator[Suggestion]:
    """Suggest to wait, where a start is expected or the cause passes without an action."""
    found = case.found
    if found.expected is not None and found.expected.kind is ExpectedKind.RANGE:
        yield Suggestion.wait()
    elif effect := words.ENDS if _is_ending(case.task) else _automatic_effect(found):
        yield Suggestion.wait(effect=effect)


def _is_ending(task: Task) -> bool:
    """Return whether a worker has it, and was asked to stop it."""
    return task.stop is not None and task.stop.kind is not StopKind.HOLD


def _automatic_effect(found: Diagnosis) -> str:
    """Describe the effect of waiting; empty if unknown."""
    numbers = found.numbers
    if found.reason is Reason.WORKER_LOST and "lost_in_seconds" in numbers:
        return words.tried_elsewhere(numbers["lost_in_seconds"])
    if found.reason is Reason.STARTING_SLOW and "taken_back_in_seconds" in numbers:
        return words.requeued_in(numbers["taken_back_in_seconds"])
    if found.reason is Reason.RUNNING_SLOW:
        return words.GOES_ON
    return words.PROBED if found.reason is Reason.CIRCUIT_OPEN else ""


def _without_trial(case: _Case) -> Iterator[Suggestion]:
    """Suggestions that need no trial."""
    found = case.found
    if found.reason is Reason.DEPENDENCY_NOT_READY:
        failed = [one for one in found.blockers if one.kind == "task"]
        if failed:
            says, command = words.retry([one.id for one in failed], "the failed upstream tasks")
            yield Suggestion.change(says, command, words.STARTS_AFTER)
    if found.reason is Reason.STUCK and found.task is not None and not _is_ending(case.task):
        says, command = words.restart(found.task)
        yield Suggestion.change(says, command, words.QUEUED_AGAIN)
    if found.reason is Reason.STARTING_SLOW and case.task.worker_id is not None:
        says, command = words.drain(case.task.worker_id)
        yield Suggestion.ask(says, command, words.QUEUED_AGAIN)


def _tried(case: _Case) -> Iterator[Suggestion]:
    """The candidates that would change the verdict."""
    if case.task.worker_id is not None:  # it has started
        return
    left = _MAX_TRIED
    for find in _CANDIDATES.get(case.found.reason or Reason.UNKNOWN, ()):
        for one in find(case):
            if not left:
                return
            left -= 1
            effect = _effect(case, one)
            if effect:
                yield Suggestion(kind=one.kind, says=one.says, command=one.command, effect=effect)


def _effect(case: _Case, one: _Candidate) -> str:
    """The effect of a candidate; empty if it changes nothing."""
    snapshot = one.snapshot or case.snapshot
    # A hypothetical worker may help others only: what would block the task then is not asked for.
    is_more = bool(one.hypothesis.workers)
    tried = try_start(snapshot, one.hypothesis) if is_more else try_out(snapshot, one.hypothesis, *one.events)
    if tried.worker is not None:
        return words.starts_on(tried.worker, len(tried.victims), snapshot.scheduler_settings.preemption_grace_seconds)
    then = tried.found
    if then is None or then.reason in (None, case.found.reason) or then.reason in _NO_ADVICE:
        return ""
    is_never = then.expected is not None and then.expected.kind is ExpectedKind.NEVER
    return "" if is_never else words.then_waits(then.verdict)


# candidates


def _smaller(case: _Case) -> Iterator[_Candidate]:
    """Request what the worker with the best fit has free; if the task is too big, what one has in total.

    No more than the remaining quota of its tenant. A reservation of the task itself counts as free.
    """
    is_too_big, asked = case.found.reason is Reason.TOO_BIG, case.shape.resources
    left = _left_of_quota(case)
    capacities = [
        _least(worker.total if is_too_big else worker.free_for(case.task.id), left)
        for worker in case.memory.workers.values()
        if _obstacle_kinds(case, worker) <= _SIZE
    ]
    capacity = _most(capacities, asked)
    if capacity is not None and capacity != asked:
        says = words.ask_for_less(asked, capacity)
        yield _Candidate(kind=SuggestionKind.CHANGE, says=says, hypothesis=_asking_for(asked, capacity))


def _obstacle_kinds(case: _Case, worker: Worker) -> set[ObstacleKind]:
    found = obstacles(case.shape, worker, case.affinity, case.task.id, case.memory.limits.zones)
    return {one.kind for one in found}


def _left_of_quota(case: _Case) -> Resources:
    """The remaining quota of the task's tenant, of each resource at most what the task requests."""
    memory, tenant, asked = case.memory, case.task.tenant, case.shape.resources
    if tenant not in memory.rules.quotas or case.task.priority is Priority.P0:
        return asked
    quota, use = memory.rules.quota(tenant, case.snapshot.at), memory.leases.use.get(tenant, ZERO_RESOURCES)
    left = [
        getattr(asked, name) if most is None else getattr(quota.guaranteed, name) + most - getattr(use, name)
        for name, most in ((name, getattr(quota.burst, name)) for name in NAMES)
    ]
    return _least(asked, Resources(*left))


def _least(one: Resources, other: Resources) -> Resources:
    return Resources(*(min(getattr(one, name), getattr(other, name)) for name in NAMES))


def _most(capacities: list[Resources], asked: Resources) -> Resources | None:
    """The part of a request that fits best into one of these capacities, in amounts that can be written exactly."""
    parts = [
        words.round_down(_least(asked, capacity)) if not asked.fits(capacity) else asked for capacity in capacities
    ]
    wanted = [name for name in NAMES if getattr(asked, name)]

    def covered(part: Resources) -> tuple[float, float]:
        shares = [getattr(part, name) / getattr(asked, name) for name in wanted]
        return min(shares), sum(shares)

    some = [part for part in parts if all(getattr(part, name) > 0 for name in wanted)]
    return max(some, key=covered, default=None) if wanted else None


def _asking_for(was: Resources, wanted: Resources) -> Hypothesis:
    said = {name: getattr(wanted, name) for name in NAMES if getattr(wanted, name) != getattr(was, name)}
    return Hypothesis(**said)


def _unconstrained(case: _Case) -> Iterator[_Candidate]:
    """Drop one label, or the zone."""
    for key, value in case.shape.labels:
        if not key.startswith((HANDLER_LABEL, ISOLATION_LABEL)):
            says = words.without_label(key, value)
            yield _Candidate(kind=SuggestionKind.CHANGE, says=says, hypothesis=Hypothesis(without_labels=(key,)))
    if case.shape.zone is not None:
        says = words.without_zone(case.shape.zone)
        yield _Candidate(kind=SuggestionKind.CHANGE, says=says, hypothesis=Hypothesis(zone=""))


def _promoted(case: _Case) -> Iterator[_Candidate]:
    """The next higher priority."""
    if case.task.priority is Priority.P0:
        return
    above = Priority(case.task.priority - 1)
    needed = bool(case.snapshot.scheduler_settings.p0_needs_grant)
    needs_grant = p0_fault(above, case.task.tenant, case.memory.rules, case.snapshot.at, needed=needed) is not None
    yield _Candidate(
        kind=SuggestionKind.ASK if needs_grant else SuggestionKind.CHANGE,
        says=words.promote(above.name, needs_grant=needs_grant),
        command=words.promote_command(case.task.run_id, above.name),
        hypothesis=Hypothesis(priority=above),
    )


def _more_workers(case: _Case) -> Iterator[_Candidate]:
    """Add a worker as large as the request."""
    yield _Candidate(
        kind=SuggestionKind.ASK,
        says=words.one_more_worker(case.shape),
        command=words.worker_command(case.snapshot.shard, case.shape),
        hypothesis=Hypothesis(workers=(ExtraWorkers(offers=case.shape.resources),)),
    )


def _uncordoned(case: _Case) -> Iterator[_Candidate]:
    """A cordoned worker that would take it."""
    for worker in case.memory.workers.values():
        if worker.hold and _obstacle_kinds(case, worker) == {ObstacleKind.CORDONED}:
            says, command = words.uncordon(worker.id)
            event = UncordonWorker(worker=worker.id, by=_ACTOR)
            yield _Candidate(kind=SuggestionKind.ASK, says=says, command=command, events=(event,))
            return


def _in_one_piece(case: _Case) -> Iterator[_Candidate]:
    if case.task.priority is Priority.P1 and not case.snapshot.scheduler_settings.defragment:
        says, command = words.defragment()
        snapshot = replace(case.snapshot, scheduler_settings=replace(case.snapshot.scheduler_settings, defragment=1))
        yield _Candidate(kind=SuggestionKind.ASK, says=says, command=command, snapshot=snapshot)


def _raised(case: _Case) -> Iterator[_Candidate]:
    """A quota that fits the task in addition to what is in use."""
    memory, tenant, now = case.memory, case.task.tenant, case.snapshot.at
    row = memory.rules.quotas.get(tenant)
    if row is None:
        return
    use, tasks = memory.leases.use.get(tenant, ZERO_RESOURCES) + case.shape.resources, lease_count(memory, tenant) + 1
    quota, limits = row.at(now), dict[str, int]()
    for _ in range(len(NAMES) + 1):
        limit = excess(quota, use, tasks)
        if limit is None:
            break
        limits[limit] = tasks if limit == "max_tasks" else getattr(use, limit) - getattr(quota.guaranteed, limit)
        quota = _allowing(quota, limit, limits[limit])
    if len(limits) == 1:
        ((limit, most),) = limits.items()
        rules = replace(memory.rules, quotas={**memory.rules.quotas, tenant: replace(row, quota=quota, raised=None)})
        yield _Candidate(
            kind=SuggestionKind.ASK,
            says=words.raise_quota(tenant, limit, most),
            command=words.raise_command(tenant, row.pool, limit, most),
            events=(RulesChanged(rules=replace(rules, version=rules.version + 1)),),
        )


def _allowing(quota: Quota, limit: str, most: int) -> Quota:
    if limit == "max_tasks":
        return replace(quota, max_tasks=most)
    return replace(quota, burst=replace(quota.burst, **{limit: most}))


def _widened(case: _Case) -> Iterator[_Candidate]:
    """Raise the limit of each full group by one."""
    run = case.memory.runs[case.task.run_id]
    for limit in dict.fromkeys((*case.shape.groups, *limits_of(run))):
        group = case.memory.rules.groups.get(limit)
        if group is not None and concurrency_groups.left(case.memory, group, case.snapshot.at) <= 0:
            most = group.most + 1
            yield _Candidate(
                kind=SuggestionKind.ASK,
                says=words.widen_group(group.name, most, group.per_seconds),
                command=words.group_command(group.tenant, group.name, most),
                hypothesis=Hypothesis(groups={group.name: most}),
            )


def _unfrozen(case: _Case) -> Iterator[_Candidate]:
    """The freeze that applies, if any."""
    now, run = case.snapshot.at, case.memory.runs[case.task.run_id]
    rules = case.memory.rules
    frozen = rules.freeze(case.task.tenant, run.job.spec.name, now)
    if frozen is not None:
        left = tuple(row for row in rules.freezes if row is not frozen)
        yield _Candidate(
            kind=SuggestionKind.ASK,
            says=words.unfreeze(frozen.kind, frozen.subject),
            command=words.unfreeze_command(frozen.kind, frozen.subject),
            events=(RulesChanged(rules=replace(rules, freezes=left, version=rules.version + 1)),),
        )


def _resumed(case: _Case) -> Iterator[_Candidate]:
    says, command = words.resume(case.task.run_id)
    yield _Candidate(kind=SuggestionKind.CHANGE, says=says, command=command, hypothesis=Hypothesis(unpaused=True))


def _cleared(case: _Case) -> Iterator[_Candidate]:
    says, command = words.clear(case.found.task or case.found.subject)
    event = ClearTask(run_id=case.task.run_id, task_id=case.task.id, by=_ACTOR)
    yield _Candidate(kind=SuggestionKind.CHANGE, says=says, command=command, events=(event,))


_Find = Callable[[_Case], Iterator[_Candidate]]
_FOR_CAPACITY: tuple[_Find, ...] = (_smaller, _unconstrained, _promoted, _uncordoned, _more_workers)
_CANDIDATES: dict[Reason, tuple[_Find, ...]] = {
    Reason.NO_WORKER_CAPACITY: _FOR_CAPACITY,
    Reason.PRIORITY_QUEUE_WAIT: _FOR_CAPACITY,
    Reason.FAIR_SHARE: _FOR_CAPACITY,
    Reason.PREEMPTED: _FOR_CAPACITY,
    Reason.FRAGMENTED: (_smaller, _in_one_piece, _promoted, _uncordoned, _more_workers),
    Reason.TOO_BIG: (_smaller, _more_workers),
    Reason.NO_MATCHING_WORKER: (_unconstrained, _uncordoned, _more_workers),
    Reason.TENANT_OVER_QUOTA: (_smaller, _raised, _promoted),
    Reason.CONCURRENCY: (_widened,),
    Reason.RATE_LIMIT: (_widened,),
    Reason.FROZEN: (_unfrozen,),
    Reason.PAUSED: (_resumed,),
    Reason.QUARANTINED: (_cleared,),
}
