"""Messages of suggestions and their effects (OBS-1), with commands as they can be typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainspring.core.model.resources import NAMES, Resources, format_amount, format_amounts
from mainspring.core.placement.task_shapes import Shape, format_label
from mainspring.core.text.durations import format_seconds
from mainspring.core.text.quantities import format_bytes_exactly, format_millis
from mainspring.core.text.sentences import join_words
from mainspring.core.work.isolation import ISOLATION_LABEL
from mainspring.core.work.remote_jobs import KUBERNETES_LABEL, RAY_LABEL
from mainspring.core.work.work import HANDLER_LABEL

RAISED_FOR = "4h"
"""Duration of a suggested temporary quota."""
STARTS_AFTER, QUEUED_AGAIN = "it starts once that has succeeded", "it is requeued"
ENDS, GOES_ON, PROBED = "it ends soon", "it continues", "it is retried once a probe has succeeded"
_MIB, _GIB = 2**20, 2**30
_CLUSTERS = {KUBERNETES_LABEL: "--kubernetes CONTEXT", RAY_LABEL: "--ray URL"}
"""Labels that follow from another option, and can't be set."""
_OPTIONS: dict[str, tuple[str, Callable[[int], str]]] = {
    "cpu_millis": ("cpu", format_millis),
    "memory_bytes": ("memory", format_bytes_exactly),
    "gpus": ("gpu", str),
    "disk_bytes": ("disk", format_bytes_exactly),
}


def tried_elsewhere(seconds: float) -> str:
    """Effect if its worker stays silent."""
    return f"it is retried on another worker in {format_seconds(seconds)}, unless its worker responds before"


def requeued_in(seconds: float) -> str:
    """Effect if its worker does not acknowledge it."""
    return f"it is requeued in {format_seconds(seconds)}, unless its worker acknowledges it"


def starts_on(worker: str, victims: int, grace_seconds: float) -> str:
    """The task would start now."""
    if not victims:
        return f"it would start now on {worker}"
    who = "1 task" if victims == 1 else f"{victims:,} tasks"
    return f"it would start on {worker} within {format_seconds(grace_seconds)}, preempting {who}"


def then_waits(verdict: str) -> str:
    """The task would wait for another cause."""
    return f"no help by itself: it would wait for another cause ({verdict})"


def round_down(resources: Resources) -> Resources:
    """Round down to amounts that can be written exactly: memory and disk to tenths of a GiB, or MiB."""
    sizes = (resources.memory_bytes, resources.disk_bytes)
    memory, disk = (max(0, size) * 10 // _GIB * _GIB // 10 if size >= _GIB else size // _MIB * _MIB for size in sizes)
    return Resources(resources.cpu_millis, memory, resources.gpus, disk)


def ask_for_less(was: Resources, wanted: Resources) -> str:
    """Suggest a smaller request."""
    names = [name for name in NAMES if getattr(was, name) != getattr(wanted, name)]
    less, instead = ([format_amount(name, getattr(one, name)) for name in names] for one in (wanted, was))
    return f"Request {join_words(less)} instead of {join_words(instead)}"


def without_label(key: str, value: str) -> str:
    """Suggest to drop a label."""
    return f"Remove the label {format_label(key, value)}"


def without_zone(zone: str) -> str:
    """Suggest to drop the zone."""
    return f"Remove the zone {zone}"


def promote(priority: str, *, needs_grant: bool) -> str:
    """Suggest another priority."""
    return f"Raise the priority of its run to {priority}{' (its tenant needs a grant)' if needs_grant else ''}"


def promote_command(run: str, priority: str) -> str:
    """The command for `promote`."""
    return f"mainspring promote {run} --priority {priority}"


def one_more_worker(shape: Shape) -> str:
    """Suggest a worker that would take the task."""
    offers = [*format_amounts(shape.resources), *(format_label(key, value) for key, value in _labels(shape))]
    return f"Add a worker with {join_words(offers)}{f' in zone {shape.zone}' if shape.zone else ''}"


def worker_command(pool: str, shape: Shape) -> str:
    """The command for `one_more_worker`."""
    needs = shape.resources
    said = [f"mainspring worker --pool {pool} --cpu {format_millis(needs.cpu_millis)}"]
    said += [f"--memory {format_bytes_exactly(needs.memory_bytes)}"] if needs.memory_bytes else []
    said += [f"--gpus {needs.gpus}"] if needs.gpus else []
    said += [f"--disk {format_bytes_exactly(needs.disk_bytes)}"] if needs.disk_bytes else []
    said += [_CLUSTERS.get(key, f"--label {key}={value or 'yes'}") for key, value in _labels(shape)]
    return " ".join([*said, *([f"--zone {shape.zone}"] if shape.zone else [])])


def raise_quota(tenant: str, limit: str, most: int) -> str:
    """Suggest a temporary quota."""
    if limit == "max_tasks":
        return f"Raise the limit of {tenant} to {most:,} tasks at a time for {RAISED_FOR}"
    return f"Raise the burst of {tenant} to {format_amount(limit, most)} for {RAISED_FOR}"


def raise_command(tenant: str, pool: str, limit: str, most: int) -> str:
    """The command for `raise_quota`."""
    if limit == "max_tasks":
        change = f"--max-tasks {most}"
    else:
        option, format_number = _OPTIONS[limit]
        change = f"--burst-{option} {format_number(most)}"
    where = f" --pool {pool}" if pool else ""
    return f"mainspring quota raise {tenant}{where} --for {RAISED_FOR} {change}"


def widen_group(name: str, most: int, per_seconds: float | None) -> str:
    """Suggest a higher limit of a group."""
    return f"Raise group {name} to {most:,} {'at a time' if per_seconds is None else f'every {per_seconds:g} s'}"


def group_command(tenant: str, name: str, most: int) -> str:
    """The command for `widen_group`."""
    return f"mainspring groups set {name} --most {most} --tenant {tenant}"


def unfreeze(kind: str, subject: str) -> str:
    """Suggest to end a freeze."""
    return f"Unfreeze {f'{kind} {subject}' if subject else 'everything'}"


def unfreeze_command(kind: str, subject: str) -> str:
    """The command for `unfreeze`."""
    return f"mainspring unfreeze {kind} {subject}".rstrip()


def resume(run: str) -> tuple[str, str]:
    """Resume a run: text and command."""
    return "Resume its run", f"mainspring resume {run}"


def defragment() -> tuple[str, str]:
    """Turn defragmentation on: text and command."""
    return "Allow P2 tasks to be moved, on all pools", "mainspring settings set defragment 1"


def clear(task: str) -> tuple[str, str]:
    """Clear a quarantined task: text and command."""
    return "Clear it once its cause is fixed", f"mainspring clear {task}"


def retry(tasks: Sequence[str], name: str) -> tuple[str, str]:
    """Retry failed upstream tasks: text and command."""
    return f"Retry {name} once the cause is fixed", f"mainspring retry {' '.join(tasks)}"


def restart(task: str) -> tuple[str, str]:
    """Restart a hung task: text and command."""
    return "Kill its process and restart it", f"mainspring kill {task} --again --grace 30s"


def drain(worker: str) -> tuple[str, str]:
    """Drain a worker that does not start a task: text and command."""
    return f"Check {worker}, and drain it", f"mainspring drain {worker}"


def uncordon(worker: str) -> tuple[str, str]:
    """Uncordon a worker: text and command."""
    return f"Uncordon {worker}", f"mainspring uncordon {worker}"


def _labels(shape: Shape) -> list[tuple[str, str]]:
    """Labels to set on a worker; it detects its handlers and its isolation itself."""
    found = (HANDLER_LABEL, ISOLATION_LABEL)
    return [(key, value) for key, value in shape.labels if not key.startswith(found)]
