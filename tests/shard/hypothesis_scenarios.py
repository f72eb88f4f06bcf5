"""Random situations with a hypothesis that matters to a waiting task, and the same change in reality.

A situation is drawn from its seed alone: a load, a kind of change, a task that waits for what the kind is about, and by
how much it is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from mainspring.core.explain.diagnosis import Reason
from mainspring.core.explain.what_if import Hypothesis
from mainspring.core.fairness.freezes import FreezeKind
from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.limits.concurrency_groups import limit_of
from mainspring.core.model.job import TaskSpec, compile_job
from mainspring.core.model.task import Priority, Task
from mainspring.protocol.wire import Offer
from mainspring.shard import events as happened
from mainspring.shard.explain.diagnose import diagnose
from tests.shard import jobs, sharing_rules
from tests.shard.mixed_load import TENANTS, Kind, MixedLoad

KINDS = (
    "cpu", "memory", "burst", "guaranteed", "tasks", "worker", "priority", "P0", "group", "rate", "unfreeze",
    "unpause", "label", "zone",
)  # fmt: skip
_TRIES = 40
_OFFERS = {"w0": "north", "w1": "south"}
_ROOM = frozenset({
    Reason.NO_WORKER_CAPACITY, Reason.FRAGMENTED, Reason.PRIORITY_QUEUE_WAIT, Reason.FAIR_SHARE, Reason.PREEMPTED,
})  # fmt: skip
_QUOTA = frozenset({Reason.TENANT_OVER_QUOTA})
_WAITS_FOR = {
    "cpu": _ROOM | _QUOTA | {Reason.TOO_BIG},
    "memory": _ROOM | {Reason.TOO_BIG},
    "burst": _QUOTA,
    "guaranteed": _QUOTA | {Reason.FAIR_SHARE},
    "tasks": _QUOTA,
    "worker": _ROOM | {Reason.TOO_BIG, Reason.NO_MATCHING_WORKER},
    "priority": _ROOM | _QUOTA,
    "P0": _ROOM,
    "group": frozenset({Reason.CONCURRENCY}),
    "rate": frozenset({Reason.RATE_LIMIT}),
    "unfreeze": frozenset({Reason.FROZEN}),
    "unpause": frozenset({Reason.PAUSED}),
    "label": _ROOM | {Reason.NO_MATCHING_WORKER},
    "zone": _ROOM | {Reason.NO_MATCHING_WORKER},
}
"""Reasons that a kind of change can affect."""
_ASKS: dict[int, dict[str, Any]] = {
    0: {"groups": ("db",)},
    1: {"labels": {"in": "north"}},
    2: {"zone": "north"},
    5: {"labels": {"in": "nowhere"}},
    6: {"groups": ("api",)},
}


def situation(seed: int) -> tuple[MixedLoad, Task, str]:
    """A load, a task that waits in it, and a change of the kind that the seed selects."""
    kind, random = KINDS[seed % len(KINDS)], Random(seed)
    for again in range(_TRIES):
        load = MixedLoad(100 + seed + 1_000 * again, rules=_rules(random), asks=_ASKS, offers=_OFFERS)
        load.submit_some(random.choice((8, 15, 30)))
        load.advance(random.uniform(10, 40))
        _prepare(load, kind, random)
        found = [task for task in _waiting(load) if _matters(load, task, kind)]
        if found:
            task = random.choice(found)
            return load, task, _WORDS[kind](load, task, random)
    raise AssertionError(f"{kind} never matters to anybody")


def make(load: MixedLoad, task: Task, hypothesis: Hypothesis) -> str:
    """Make the change; return the task, which is another if it was resubmitted."""
    load.victims.clear()
    load.first_starts.pop(task.id, None)
    if hypothesis.changes_task():
        return _submit_again(load, task, hypothesis)
    if hypothesis.priority is not None:
        load.turn(happened.ChangePriority(run_id=task.run_id, by="ann", priority=hypothesis.priority))
    if hypothesis.unpaused:
        load.turn(happened.ResumeRun(run_id=task.run_id, by="ann"))
    for more in hypothesis.workers:
        offer = Offer(more.offers.cpu_millis, more.offers.cpu_millis // 1_000 * jobs.GIB)
        shape = load.shard.memory.shape(task)
        load.turn(
            happened.WorkerRegistered(
                worker="the new worker", session="the new worker", offer=offer, labels=dict(shape.labels),
                zone=shape.zone or "", version="", holds=(),
            )
        )  # fmt: skip
    rules = load.shard.memory.rules
    if hypothesis.unfrozen:
        rules = replace(rules, freezes=())
    for name, most in hypothesis.groups.items():
        group = rules.groups[limit_of(task.tenant, name)]
        changed = replace(group, most=most, version=group.version + 1)
        rules = replace(rules, groups={**rules.groups, group.limit: changed})
    if hypothesis.changes_quota():
        rules = _with_quota(rules, task.tenant, hypothesis)
    if rules is not load.shard.memory.rules:
        load.turn(happened.RulesChanged(rules=replace(rules, version=rules.version + 1)))
    return task.id


def _rules(random: Random) -> SharingRules:
    """All rules that can hold a task, tight enough to do so sometimes."""
    return sharing_rules.rules(
        sharing_rules.quota("acme", guaranteed=4, weight=2.0),
        sharing_rules.quota("beta", guaranteed=random.choice((0, 1, 3)), burst=random.choice((3, 4, 6))),
        sharing_rules.quota("gamma", max_tasks=random.choice((1, 2, 4))),
        sharing_rules.group("db", random.choice((1, 2))),
        sharing_rules.group("api", random.choice((1, 2)), per_seconds=random.choice((30, 90))),
    )


def _prepare(load: MixedLoad, kind: str, random: Random) -> None:
    """Actions that make a kind of change matter."""
    rules = load.shard.memory.rules
    if kind == "unfreeze" and not rules.freezes:
        frozen = sharing_rules.freeze(FreezeKind.TENANT, random.choice(TENANTS))
        load.turn(happened.RulesChanged(rules=replace(rules, freezes=[frozen], version=rules.version + 1)))
        load.submit_some(5)
    if kind == "unpause":
        for task in random.sample(load.queued(), min(3, len(load.queued()))):
            load.turn(happened.PauseRun(run_id=task.run_id, by="ann"))
        load.advance(random.choice((1, 10)))


def _waiting(load: MixedLoad) -> list[Task]:
    """All queued tasks, and the first tasks of paused runs."""
    runs = load.shard.memory.runs.values()
    return [*load.queued(), *(run.tasks[0] for run in runs if run.run.paused and run.tasks[0].worker_id is None)]


def _matters(load: MixedLoad, task: Task, kind: str) -> bool:
    found, shape = diagnose(load.shard.memory, task.id, load.now), load.shard.memory.shape(task)
    if found is None or found.reason not in _WAITS_FOR[kind]:
        return False
    if kind in ("cpu", "memory"):
        return not task.position and shape.resources.cpu_millis >= 2_000
    if kind in ("priority", "P0"):
        return task.priority is not Priority.P0
    asked = {"label": shape.labels, "zone": shape.zone, "tasks": task.tenant == "gamma", "burst": task.tenant == "beta"}
    return bool(asked.get(kind, True))


# how much


def _less(load: MixedLoad, task: Task, random: Random) -> int:
    return random.randrange(1, load.shard.memory.shape(task).resources.cpu_millis // 1_000)


def _words_of_cpu(load: MixedLoad, task: Task, random: Random) -> str:
    less = _less(load, task, random)
    return random.choice((f"cpu {less}", f"cpu {less}, memory {less}Gi", "cpu 0.5, memory 512Mi"))


def _words_of_worker(load: MixedLoad, task: Task, random: Random) -> str:
    cores = load.shard.memory.shape(task).resources.cpu_millis // 1_000
    return f"worker {random.choice((1, 2, 4)) * cores}"


def _words_of_group(load: MixedLoad, task: Task, random: Random) -> str:
    (name,) = load.shard.memory.runs[task.run_id].spec(task.position).groups
    most = load.shard.memory.rules.groups[limit_of(task.tenant, name)].most
    return f"group {name} {most + random.choice((0, 1, 1, 4))}"


_WORDS: dict[str, Callable[[MixedLoad, Task, Random], str]] = {
    "cpu": _words_of_cpu,
    "memory": lambda load, task, random: f"memory {_less(load, task, random)}Gi, cpu 1",
    "burst": lambda _load, _task, random: f"burst {random.choice((5, 8, 20))}",
    "guaranteed": lambda _load, _task, random: f"guaranteed {random.choice((4, 8, 20))}",
    "tasks": lambda _load, _task, random: f"tasks {random.choice((3, 6, 30))}",
    "worker": _words_of_worker,
    "priority": lambda _load, task, random: f"priority P{random.randrange(task.priority)}",
    "P0": lambda _load, _task, _random: "priority P0",
    "group": _words_of_group,
    "rate": _words_of_group,
    "unfreeze": lambda _load, _task, _random: "unfreeze",
    "unpause": lambda _load, _task, _random: "unpause",
    "label": lambda load, task, _: f"without label {load.shard.memory.shape(task).labels[0][0]}",
    "zone": lambda _load, _task, random: random.choice(("without zone", "zone south")),
}


# what is done


def _with_quota(rules: SharingRules, tenant: str, hypothesis: Hypothesis) -> SharingRules:
    row = rules.quotas[tenant]
    quota = row.quota
    if hypothesis.guaranteed_cpu_millis is not None:
        quota = replace(quota, guaranteed=replace(quota.guaranteed, cpu_millis=hypothesis.guaranteed_cpu_millis))
    if hypothesis.burst_cpu_millis is not None:
        quota = replace(quota, burst=replace(quota.burst, cpu_millis=hypothesis.burst_cpu_millis))
    if hypothesis.max_tasks is not None:
        quota = replace(quota, max_tasks=hypothesis.max_tasks)
    return replace(rules, quotas={**rules.quotas, tenant: replace(row, quota=quota)})


def _submit_again(load: MixedLoad, task: Task, hypothesis: Hypothesis) -> str:
    """Submit the job with another request of the task, and cancel the former run."""
    run = load.shard.memory.runs[task.run_id]
    spec = run.job.spec
    tasks = tuple(_changed(one, hypothesis) if one.name == task.name else one for one in spec.tasks)
    load.turn(happened.CancelRun(run_id=task.run_id, by="ann"))
    job = compile_job("job_again", replace(spec, tasks=tasks))
    return load.submit(Kind(run.job, task.tenant, ()), task.priority, job)


def _changed(spec: TaskSpec, hypothesis: Hypothesis) -> TaskSpec:
    resources = spec.resources
    if hypothesis.cpu_millis is not None:
        resources = replace(resources, cpu_millis=hypothesis.cpu_millis)
    if hypothesis.memory_bytes is not None:
        resources = replace(resources, memory_bytes=hypothesis.memory_bytes)
    labels = {key: value for key, value in spec.labels.items() if key not in hypothesis.without_labels}
    zone = spec.zone if hypothesis.zone is None else hypothesis.zone or None
    return replace(spec, resources=resources, labels=labels, zone=zone)
