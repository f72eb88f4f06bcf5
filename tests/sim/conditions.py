"""Conditions of tasks and their meaning: implemented a second time, without the expression engine (DAG-4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from mainspring.core.model.job import JobSpec, TaskSpec
from tests.sim.dynamic_jobs import encode_work
from tests.sim.worker import Work

_Meaning = Callable[[Any, dict[str, Any]], bool]
"""From the output of the named upstream, and the parameters. Raises if it can't be evaluated."""
_UPSTREAM = re.compile(r"outputs\.(\w+)")
_OF_PARAMS: dict[str, _Meaning] = {
    "params.go": lambda _, params: bool(params["go"]),
    "not params.go": lambda _, params: not params["go"],
}
_OF_UPSTREAM: dict[str, _Meaning] = {
    "outputs.{p}.n > 3": lambda output, _: bool(output["n"] > 3),
    "outputs.{p}.ok and params.go": lambda output, params: bool(output["ok"] and params["go"]),
    "outputs.{p} is none or outputs.{p}.n|default(5) < 9": lambda output, _: output is None or _n(output) < 9,
    "outputs.{p}|length > 1": lambda output, _: len(output) > 1,
    "outputs.{p}.n.deeper.than.that > 3": lambda output, _: bool(output["n"]["deeper"]),
}


def add_whens(random: Random, spec: JobSpec) -> JobSpec:
    """The same job with conditions on some of its tasks, and on some that its outputs add."""
    return msgspec.structs.replace(spec, tasks=tuple(_add_when(random, task) for task in spec.tasks))


def holds(when: str, output_of: Callable[[str], Any], params: dict[str, Any]) -> bool | None:
    """Evaluate a condition; None if it can't be. `output_of` gives the output of an upstream."""
    match = _UPSTREAM.search(when)
    meaning = _OF_PARAMS[when] if match is None else _OF_UPSTREAM[when.replace(match[0], "outputs.{p}")]
    try:
        return meaning(None if match is None else output_of(match[1]), params)
    except (KeyError, TypeError):
        return None


def upstream_of(when: str) -> str | None:
    """The upstream that a condition names."""
    match = _UPSTREAM.search(when)
    return None if match is None else match[1]


def _add_when(random: Random, task: TaskSpec) -> TaskSpec:
    work = msgspec.json.decode(task.work, type=Work)
    if work.grows is not None:
        added = msgspec.json.decode(work.grows)
        for one in added["tasks"]:
            if random.random() < 0.3:
                one["when"] = _draw(random, one["needs"])
        work = msgspec.structs.replace(work, grows=msgspec.json.encode(added).decode())
        task = msgspec.structs.replace(task, work=encode_work(work))
    if random.random() < 0.5:
        return task
    return msgspec.structs.replace(task, when=_draw(random, [edge.task for edge in task.needs]))


def _draw(random: Random, upstreams: list[str]) -> str:
    if not upstreams or random.random() < 0.2:
        return random.choices(tuple(_OF_PARAMS), (6, 1))[0]
    return random.choices(tuple(_OF_UPSTREAM), (5, 4, 4, 3, 1))[0].replace("{p}", random.choice(upstreams))


def _n(output: Any) -> int:
    return int(output.get("n", 5)) if isinstance(output, dict) else 5
