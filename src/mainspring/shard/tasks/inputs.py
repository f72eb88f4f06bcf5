"""Inputs of a task: upstream outputs by name, and the names of upstream tasks that did not succeed (DAG-6)."""

from __future__ import annotations

from mainspring.core.graph.fan_out import MAX_INPUTS_BYTES, MAX_OUTPUT_BYTES, full_name, gather
from mainspring.core.lifecycle.states import UNSUCCESSFUL
from mainspring.shard.state.dynamic_tasks import FanOut
from mainspring.shard.state.run_state import RunMemory

_FEW_UPSTREAMS = MAX_INPUTS_BYTES // MAX_OUTPUT_BYTES
"""This number of upstream outputs can't exceed the limit."""


def inputs(run: RunMemory, position: int) -> tuple[dict[str, str], list[str]]:
    """Upstream outputs as JSON by name, and the upstream tasks that failed. A fan-out gives one list, in item order."""
    found: dict[str, str] = {}
    failed: list[str] = []
    for number in run.parents(position):
        fan_out = run.fan_out_at(number)
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
    """Outputs of an ended fan-out, as one list."""
    if fan_out.gathered is None:
        fan_out.gathered = gather(run.tasks[member].output for member in fan_out.members())
    return fan_out.gathered


def excess(run: RunMemory, position: int) -> str | None:
    """Why the inputs of a task are too large; None if they are not."""
    if run.dynamic_tasks is None and len(run.job.upstream[position]) <= _FEW_UPSTREAMS:
        return None
    size = 0
    for number in run.parents(position):
        fan_out = run.fan_out_at(number)
        output = gathered(run, fan_out) if fan_out is not None else run.tasks[number].output
        size += len(output) if output is not None else 0
    if size <= MAX_INPUTS_BYTES:
        return None
    return f"its inputs have {size} characters (limit {MAX_INPUTS_BYTES})"
