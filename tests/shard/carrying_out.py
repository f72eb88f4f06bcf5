"""Execute the suggestions of a diagnosis in a simulated world, as a reader would: by their commands.

Commands are parsed by the CLI itself, so that each suggested command is valid. Changes of a definition are submitted
as a new run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import rich_click as click
from msgspec.structs import replace

from mainspring.cli.main import main
from mainspring.core.explain import advice_messages as words
from mainspring.core.explain.diagnosis import Suggestion
from mainspring.core.fairness.quotas import QuotaOverride
from mainspring.core.limits.concurrency_groups import limit_of
from mainspring.core.model.job import TaskSpec
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority, TaskState
from mainspring.core.text.durations import parse_seconds
from mainspring.core.text.quantities import parse_bytes, parse_millis
from mainspring.protocol.wire import Offer
from mainspring.shard import events as happened
from tests.shard.groups import answer_requests
from tests.shard.preemption_scenes import tune
from tests.shard.virtual_worker import VirtualWorker
from tests.shard.world import World

THE_NEW_WORKER = "the new worker"
_AMOUNT = re.compile(r"([\d.]+) (?:(cores?)|(GPUs?)|([KMGT]i)B of (memory|disk))")


def carry_out(world: World, action: Suggestion, task_id: str) -> str:
    """Execute a suggestion; return the task, which is another if it was resubmitted."""
    if not action.command:
        return _submit_anew(world, action.says, task_id)
    path, said = parse(action.command)
    _COMMANDS[path](world, said)
    return task_id


def parse(command: str) -> tuple[str, dict[str, Any]]:
    """The path of a command, and its arguments as parsed by the CLI."""
    _, *words = shlex.split(command)
    found: click.Command = main
    context, names = click.Context(main, info_name="mainspring"), list[str]()
    while isinstance(found, click.Group):
        name, command_of, words = found.resolve_command(context, words)
        assert name is not None, command
        assert command_of is not None, command
        found, names = command_of, [*names, name]
    with found.make_context(names[-1], words, parent=context) as made:
        return " ".join(names), made.params


# commands


def _promote(world: World, said: dict[str, Any]) -> None:
    for run_id in said["ids"]:
        world.action(happened.ChangePriority, world.run(run_id), priority=Priority[said["priority"]])


def _worker(world: World, said: dict[str, Any]) -> None:
    assert said["pool"] == "pool"
    offer = Offer(said["cpu_millis"], said["memory_bytes"], said["gpus"] or 0, said["disk_bytes"] or 0)
    world.workers[THE_NEW_WORKER] = VirtualWorker(THE_NEW_WORKER, offer, said["labels"], said["zone"])
    world.reconnect(THE_NEW_WORKER)


def _uncordon(world: World, said: dict[str, Any]) -> None:
    world.settle(happened.UncordonWorker(worker=said["worker"], by="ann"))


def _drain(world: World, said: dict[str, Any]) -> None:
    world.settle(happened.DrainWorker(worker=said["worker"], by="ann"))
    for attempt in world.recalls(said["worker"]):
        world.settle(world.say(happened.AttemptReturned, said["worker"], attempt=attempt, refusal=None))


def _raise_quota(world: World, said: dict[str, Any]) -> None:
    row = world.rules.quotas[said["owner"]]
    assert row.pool == said["pool"]
    quota = row.quota
    if said["max_tasks"] is not None:
        quota = replace(quota, max_tasks=int(said["max_tasks"]))
    if said["burst_cpu"] is not None:
        quota = replace(quota, burst=replace(quota.burst, cpu_millis=parse_millis(said["burst_cpu"])))
    if said["burst_memory"] is not None:
        quota = replace(quota, burst=replace(quota.burst, memory_bytes=parse_bytes(said["burst_memory"])))
    assert quota != row.quota, "nothing is raised"
    until = world.now + timedelta(seconds=parse_seconds(said["length"]))
    raised = replace(row, raised=QuotaOverride(quota=quota, until=until, by="ann", why=""))
    world.rule(replace(world.rules, quotas={**world.rules.quotas, row.tenant: raised}))


def _set_group(world: World, said: dict[str, Any]) -> None:
    limit = limit_of(said["tenant"], said["name"])
    was = world.rules.groups[limit]
    group = replace(was, most=said["most"], version=was.version + 1)
    world.rule(replace(world.rules, groups={**world.rules.groups, limit: group}))
    answer_requests(world, said["most"])


def _unfreeze(world: World, said: dict[str, Any]) -> None:
    frozen = [row for row in world.rules.freezes if (row.kind, row.subject) == (said["kind"], said["name"])]
    assert len(frozen) == 1
    world.rule(replace(world.rules, freezes=[row for row in world.rules.freezes if row not in frozen]))


def _resume(world: World, said: dict[str, Any]) -> None:
    for run_id in said["ids"]:
        world.action(happened.ResumeRun, world.run(run_id))


def _set(world: World, said: dict[str, Any]) -> None:
    tune(world, **{said["name"]: float(said["value"])})


def _clear(world: World, said: dict[str, Any]) -> None:
    for task_id in said["tasks"]:
        world.action(happened.ClearTask, world.run(world.task(task_id).run_id), task=task_id)


def _retry(world: World, said: dict[str, Any]) -> None:
    for task_id in said["ids"]:
        world.action(happened.ReopenTask, world.run(world.task(task_id).run_id), task=task_id)


def _kill(world: World, said: dict[str, Any]) -> None:
    task, grace = world.task(said["task"]), parse_seconds(said["grace"])
    run = world.run(task.run_id)
    world.action(happened.KillTask, run, task=task.id, grace_seconds=grace, again=said["again"])
    world.stop(task.id)


_COMMANDS: dict[str, Callable[[World, dict[str, Any]], None]] = {
    "promote": _promote,
    "worker": _worker,
    "uncordon": _uncordon,
    "drain": _drain,
    "quota raise": _raise_quota,
    "groups set": _set_group,
    "unfreeze": _unfreeze,
    "resume": _resume,
    "settings set": _set,
    "clear": _clear,
    "retry": _retry,
    "kill": _kill,
}


# changes of a definition


def _submit_anew(world: World, says: str, task_id: str) -> str:
    task = world.task(task_id)
    assert task.state is TaskState.QUEUED
    run = world.run(task.run_id)
    spec = world.ledger.jobs[run.job_id].spec
    tasks = tuple(_changed(one, says) if one.name == task.name else one for one in spec.tasks)
    world.action(happened.CancelRun, run)
    again = world.submit(replace(spec, tasks=tasks), tenant=run.tenant, priority=run.priority)
    return world.task(task.name, again).id


def _changed(spec: TaskSpec, says: str) -> TaskSpec:
    if spec.zone is not None and says == words.without_zone(spec.zone):
        return replace(spec, zone=None)
    for key, value in spec.labels.items():
        if says == words.without_label(key, value):
            return replace(spec, labels={name: text for name, text in spec.labels.items() if name != key})
    less = _read(says.partition(" instead of ")[0], spec.resources)
    assert says == words.ask_for_less(spec.resources, less)
    return replace(spec, resources=less)


def _read(amounts: str, was: Resources) -> Resources:
    """Parse a request: `2 cores and 1.5 GiB of memory`."""
    found = _AMOUNT.findall(amounts)
    assert found, amounts
    for number, cores, gpus, unit, kind in found:
        if cores:
            was = replace(was, cpu_millis=parse_millis(number))
        elif gpus:
            was = replace(was, gpus=int(number))
        else:
            was = replace(was, **{f"{kind}_bytes": parse_bytes(f"{number}{unit}")})
    return was
