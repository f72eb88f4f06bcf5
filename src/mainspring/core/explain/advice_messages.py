"""What can be done, in words: acts and their effects (OBS-1), with commands as they can be typed."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.model.resources import NAMES, Resources, say_amount, say_amounts
from mainspring.core.placement.task_shapes import Shape, say_label
from mainspring.core.text.durations import say_seconds
from mainspring.core.text.quantities import say_millis, write_bytes
from mainspring.core.text.sentences import say_together
from mainspring.core.work.isolation import ISOLATION_LABEL
from mainspring.core.work.remote_jobs import KUBERNETES_LABEL, RAY_LABEL
from mainspring.core.work.work import HANDLER_LABEL

RAISED_FOR = "4h"
"""How long a raise is that is proposed."""
STARTS_AFTER, QUEUED_AGAIN = "it starts once that has succeeded", "it would be queued again"
ENDS, GOES_ON, PROBED = "it ends soon", "it goes on by itself", "it is tried again once a probe has succeeded"
_MIB, _GIB = 2**20, 2**30
_CLUSTERS = {KUBERNETES_LABEL: "--kubernetes CONTEXT", RAY_LABEL: "--ray URL"}
"""Labels that a worker has with something else, and can't be given."""
_OPTIONS = {"cpu_millis": "cpu", "memory_bytes": "memory", "gpus": "gpu", "disk_bytes": "disk"}


def wait() -> str:
    """Nothing has to be done."""
    return "Wait"


def tried_elsewhere(seconds: float) -> str:
    """What happens if its worker stays silent."""
    return f"it is tried elsewhere in {say_seconds(seconds)}, unless its worker answers before"


def given_to_another(seconds: float) -> str:
    """What happens if its worker does not say that it has it."""
    return f"it is queued again in {say_seconds(seconds)}, unless its worker says that it has it"


def starts_on(worker: str, victims: int, grace_seconds: float) -> str:
    """It would start now."""
    if not victims:
        return f"it would start now on {worker}"
    who = "1 task" if victims == 1 else f"{victims:,} tasks"
    return f"it would start on {worker} within {say_seconds(grace_seconds)}, and {who} would be stopped for it"


def waits_then(verdict: str) -> str:
    """It would wait for something else."""
    return f"it would wait for something else then ({verdict})"


def round_down(resources: Resources) -> Resources:
    """So much that it can be said exactly: of memory and disk tenths of a GiB, or MiB."""
    sizes = (resources.memory_bytes, resources.disk_bytes)
    memory, disk = (max(0, size) * 10 // _GIB * _GIB // 10 if size >= _GIB else size // _MIB * _MIB for size in sizes)
    return Resources(resources.cpu_millis, memory, resources.gpus, disk)


def ask_for_less(was: Resources, wanted: Resources) -> str:
    """The request is made smaller."""
    names = [name for name in NAMES if getattr(was, name) != getattr(wanted, name)]
    less, instead = ([say_amount(name, getattr(one, name)) for name in names] for one in (wanted, was))
    return f"Ask for {say_together(less)} instead of {say_together(instead)}"


def without_label(key: str, value: str) -> str:
    """A label is not asked for."""
    return f"Do without {say_label(key, value)}"


def without_zone(zone: str) -> str:
    """Any zone will do."""
    return f"Do without zone {zone}"


def promote(priority: str, *, needs_grant: bool) -> str:
    """Another priority."""
    return f"Give its run {priority}{', which its tenant has to be granted' if needs_grant else ''}"


def promote_command(run: str, priority: str) -> str:
    """The command for it."""
    return f"mainspring promote {run} --priority {priority}"


def one_more_worker(shape: Shape) -> str:
    """A worker that would take it."""
    offers = [*say_amounts(shape.resources), *(say_label(key, value) for key, value in _labels(shape))]
    return f"Add a worker with {say_together(offers)}{f' in zone {shape.zone}' if shape.zone else ''}"


def worker_command(pool: str, shape: Shape) -> str:
    """The command that starts one."""
    needs = shape.resources
    said = [f"mainspring worker --pool {pool} --cpu {say_millis(needs.cpu_millis)}"]
    said += [f"--memory {write_bytes(needs.memory_bytes)}"] if needs.memory_bytes else []
    said += [f"--gpus {needs.gpus}"] if needs.gpus else []
    said += [f"--disk {write_bytes(needs.disk_bytes)}"] if needs.disk_bytes else []
    said += [_CLUSTERS.get(key, f"--label {key}={value or 'yes'}") for key, value in _labels(shape)]
    return " ".join([*said, *([f"--zone {shape.zone}"] if shape.zone else [])])


def raise_quota(tenant: str, limit: str, most: int) -> str:
    """A quota is raised for a while."""
    what = f"{most:,} tasks at a time" if limit == "max_tasks" else f"{say_amount(limit, most)} beyond its guarantee"
    return f"Let {tenant} have {what} for a while"


def raise_command(tenant: str, pool: str, limit: str, most: int) -> str:
    """The command for it."""
    if limit == "max_tasks":
        change = f"--max-tasks {most}"
    else:
        amount = say_millis(most) if limit == "cpu_millis" else str(most) if limit == "gpus" else write_bytes(most)
        change = f"--burst-{_OPTIONS[limit]} {amount}"
    where = f" --pool {pool}" if pool else ""
    return f"mainspring quota raise {tenant}{where} --for {RAISED_FOR} {change}"


def widen_group(name: str, most: int, per_seconds: float | None) -> str:
    """A group lets more in."""
    return f"Let group {name} have {most:,} {'at a time' if per_seconds is None else f'every {per_seconds:g} s'}"


def group_command(tenant: str, name: str, most: int) -> str:
    """The command for it."""
    return f"mainspring groups set {name} --most {most} --tenant {tenant}"


def unfreeze(kind: str, subject: str) -> str:
    """A freeze is ended."""
    return f"Unfreeze {f'{kind} {subject}' if subject else 'everything'}"


def unfreeze_command(kind: str, subject: str) -> str:
    """The command for it."""
    return f"mainspring unfreeze {kind} {subject}".rstrip()


def resume(run: str) -> tuple[str, str]:
    """A run goes on; the words and the command."""
    return "Resume its run", f"mainspring resume {run}"


def defragment() -> tuple[str, str]:
    """Room is made in one piece; the words and the command."""
    return "Let P2 be moved to make room in one piece", "mainspring settings set defragment 1"


def clear(task: str) -> tuple[str, str]:
    """A quarantined task runs again; the words and the command."""
    return "Clear it, once its cause is mended", f"mainspring clear {task}"


def retry(tasks: Sequence[str], name: str) -> tuple[str, str]:
    """What failed upstream is tried again; the words and the command."""
    return f"Retry {name}, once its cause is mended", f"mainspring retry {' '.join(tasks)}"


def kill_again(task: str) -> tuple[str, str]:
    """A process is ended, and the task starts anew; the words and the command."""
    return "End its process, and start it anew", f"mainspring kill {task} --again --grace 30s"


def drain(worker: str) -> tuple[str, str]:
    """What a worker has not started is called back; the words and the command."""
    return f"Look at {worker}, and call back what it does not start", f"mainspring drain {worker}"


def uncordon(worker: str) -> tuple[str, str]:
    """A worker gets work again; the words and the command."""
    return f"Let {worker} have work again", f"mainspring uncordon {worker}"


def _labels(shape: Shape) -> list[tuple[str, str]]:
    """What a worker has to be told to offer; which handlers and which isolation it has, it finds by itself."""
    found = (HANDLER_LABEL, ISOLATION_LABEL)
    return [(key, value) for key, value in shape.labels if not key.startswith(found)]
