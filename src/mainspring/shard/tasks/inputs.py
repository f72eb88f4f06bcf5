"""What a task gets from upstream: outputs by name, and the names of those that ended without a success (DAG-6)."""

from __future__ import annotations

from mainspring.core.graph.fan_out import LARGEST_INPUTS_BYTES, LARGEST_OUTPUT_BYTES, full_name, gather
from mainspring.core.lifecycle.states import UNSUCCESSFUL
from mainspring.shard.state.dynamic_tasks import FanOut
from mainspring.shard.state.run_state import RunMemory

_FEW = LARGEST_INPUTS_BYTES // LARGEST_OUTPUT_BYTES
"""So many upstreams can't have too much to say."""


def inputs(run: RunMemory, position: int) -> tuple[dict[str, str], list[str]]:
    """The outputs of what a task needs, as JSON by name, and who failed. A fan-out gives one list, in its order."""
    found: dict[str, str] = {}
    failed: list[str] = []
    growth = run.growth
    for number in run.parents(position):
        fan_out = None if growth is None else growth.fan_outs.get(number)
        if fan_out is not None:
            found[run.tasks[number].name] = gathered(run, fan_out)
            members = [run.tasks[member] for member in fan_out.members()]
            failed += [full_name(task) for task in members if task.state in UNSUCCESSFUL]
            continue
        parent = run.tasks[number]
        if parent.output is not None:
            found[parent.name] = parent.output
        elif parent.state in UNSUCCESSFUL:
            failed.append(parent.name)
    return found, failed


def gathered(run: RunMemory, fan_out: FanOut) -> str:
    """The outputs of a fan-out that is over, as one list."""
    if fan_out.gathered is None:
        fan_out.gathered = gather(run.tasks[member].output for member in fan_out.members())
    return fan_out.gathered


def excess(run: RunMemory, position: int) -> str | None:
    """Why a task can't be given what is upstream of it; None if it can, as nearly always."""
    if run.growth is None and len(run.job.upstream[position]) <= _FEW:
        return None
    size = 0
    for number in run.parents(position):
        fan_out = None if run.growth is None else run.growth.fan_outs.get(number)
        output = gathered(run, fan_out) if fan_out is not None else run.tasks[number].output
        size += len(output) if output is not None else 0
    if size <= LARGEST_INPUTS_BYTES:
        return None
    return f"what it would get from upstream has {size} characters, and {LARGEST_INPUTS_BYTES} are allowed"
