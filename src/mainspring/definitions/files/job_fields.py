"""Fields of a job file: names, targets in the strict form, and readers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from mainspring.core.lifecycle.failure_policy import FailureClass
from mainspring.core.text.quantities import parse_bytes, parse_millis
from mainspring.core.work.isolation import Isolation
from mainspring.definitions.files.executor_fields import HTTP_NAMES, as_container, as_http, as_kubernetes, as_ray
from mainspring.definitions.files.field_values import (
    Field,
    Inner,
    Inside,
    ListOf,
    OneOf,
    as_bytes,
    as_count,
    as_directory,
    as_expression,
    as_flag,
    as_number,
    as_seconds,
    as_text,
    as_texts,
    as_words,
    count_between,
    duration_fields,
    measured,
    mismatch,
    unknown,
    whole_number,
)
from mainspring.definitions.files.map_reduce_fields import MAP_NAMES, as_input, as_invoker, as_map, as_reduce
from mainspring.definitions.files.sources import Entry, Node, plain

_MOST_RETRIES = 4
_STATUS_CALL = re.compile(r"\b(success|always|failure|cancelled)\(\)")


def _attempts(node: Node) -> int:
    """Convert retries to attempts."""
    return count_between(node, 0, _MOST_RETRIES) + 1


def _needs(node: Node) -> list[object]:
    """Read upstream tasks: a name, `{task: .., when: ..}`, or a list of these."""
    items = node.value if isinstance(node.value, list) else [node]
    return [{"task": as_text(item)} if not isinstance(item.value, dict | list) else plain(item) for item in items]


def _resources(node: Node) -> dict[str, float]:
    if not isinstance(node.value, dict):
        raise mismatch(node, "must be a mapping such as {cpu: 0.5, memory: 512Mi}")
    amounts: dict[str, float] = dict(_DEFAULT_RESOURCES)
    for key, entry in node.value.items():
        if key not in RESOURCES:
            raise unknown(Node(value=None, place=entry.place), f"unknown resource `{key}`", key, RESOURCES)
        name, read = RESOURCES[key]
        amounts[name] = measured(entry.node, read)
    return amounts


def _condition(node: Node) -> str | None:
    """Read `if`: an expression. `success()` is the default, and so ignored."""
    if isinstance(node.value, list):
        raise mismatch(node, "must be an expression over `outputs` and `params`")
    expression = as_expression(node)
    if expression.strip() == "success()":
        return None
    match _STATUS_CALL.search(expression):
        case None:
            return expression
        case found if found[1] == "success":
            raise mismatch(
                node, "`success()` is the default: a task runs when its upstream tasks succeeded", "remove it"
            )
        case found:
            note = "use `on_failure: skip_failed` of the job, and `notify` for notifications"
            raise mismatch(node, f"`{found[0]}` is not supported: a task runs when its upstream tasks succeeded", note)


def _retry(node: Node) -> dict[str, object]:
    if isinstance(node.value, int):
        raise mismatch(
            node, "must be a mapping such as {delay: 10s, cap: 10m}", "use `retries` for the number of retries"
        )
    return Inside("`retry`", RETRY)(node)


def _classes(node: Node) -> dict[str, object]:
    """Read the backoff per failure class."""
    if not isinstance(node.value, dict):
        raise mismatch(node, "must be a mapping of failure classes, such as {rate_limited: {delay: 15m}}")
    return {
        _failure(Node(value=key, text=key, place=entry.place)): Inside(f"`{key}`", BACKOFF)(entry.node)
        for key, entry in node.value.items()
    }


def _failure(node: Node) -> str:
    kinds = [kind.value for kind in FailureClass]
    kind = as_text(node)
    if kind not in kinds:
        raise unknown(node, f"unknown failure class `{kind}`", kind, kinds)
    return kind


def _rule(node: Node) -> dict[str, object]:
    return Inside("a rule", RULE)(node)


RESOURCES: dict[str, tuple[str, Callable[[object], float]]] = {
    "cpu": ("cpu_millis", parse_millis),
    "memory": ("memory_bytes", parse_bytes),
    "gpus": ("gpus", whole_number),
    "disk": ("disk_bytes", parse_bytes),
    "cpu_millis": ("cpu_millis", whole_number),
    "memory_bytes": ("memory_bytes", whole_number),
    "disk_bytes": ("disk_bytes", whole_number),
}
_DEFAULT_RESOURCES = {"cpu_millis": 1_000, "memory_bytes": 256 * 1024 * 1024}
"""A missing resource gets its default, not zero."""

BACKOFF: dict[str, Inner] = {
    "delay": ("base_seconds", as_seconds),
    "factor": ("factor", as_number),
    "cap": ("cap_seconds", as_seconds),
    "attempts": ("max_attempts", as_count),
    "base_seconds": ("base_seconds", as_number),
    "cap_seconds": ("cap_seconds", as_number),
    "max_attempts": ("max_attempts", as_count),
}
RULE: dict[str, Inner] = {
    "failure": ("failure", _failure),
    "exit_codes": ("exit_codes", ListOf(as_count)),
    "types": ("types", ListOf(as_text)),
    "contains": ("contains", as_text),
}
RETRY: dict[str, Inner] = {
    "factor": ("factor", as_number),
    "cap": ("cap_seconds", as_seconds),
    "linear": ("linear", as_flag),
    "memory_factor": ("memory_factor", as_number),
    "memory_limit": ("memory_limit_bytes", as_bytes),
    "classes": ("classes", _classes),
    "rules": ("rules", ListOf(_rule)),
    "cap_seconds": ("cap_seconds", as_number),
    "memory_limit_bytes": ("memory_limit_bytes", as_count),
}
_RETRY_NAMES = {key: name for fields in (BACKOFF, RULE, RETRY) for key, (name, _) in fields.items()}
DELAY_OF_RETRY = "retry.delay"
"""`delay` inside of `retry` is a task field in the strict form."""

JOB_FIELDS = {
    "name": Field(("name",), as_text),
    "description": Field(("description",), as_text),
    "labels": Field(("labels",), as_texts),
    "on_failure": Field(("on_failure",), as_text),
    **duration_fields("timeout", "finish_within"),
    "escalate": Field(("escalate",), as_flag),
    "retry": Field(("retry",), _retry, _RETRY_NAMES),
    "max_retries": Field(("max_retries",), as_count),
    "max_fan_out": Field(("max_fan_out",), as_count),
    "pool": Field(("pool",), as_text),
    "groups": Field(("groups",), ListOf(as_text)),
    "tasks": Field(("tasks",), plain),
    "defaults": Field(("defaults",), plain),
}
TASK_FIELDS = {
    "id": Field(("name",), as_text),
    "name": Field(("name",), as_text),
    "needs": Field(("needs",), _needs),
    "run": Field(("work", "run"), as_words),
    "shell": Field(("work", "shell"), as_text),
    "python": Field(("work", "python"), as_text),
    "handler": Field(("work", "handler"), as_text),
    "args": Field(("work", "args"), plain),
    "values": Field(("work", "values"), plain),
    "map": Field(("work", "map"), as_map, MAP_NAMES),
    "input": Field(("work", "input"), as_input),
    "reduce": Field(("work", "reduce"), as_reduce),
    "invoker": Field(("work", "invoker"), as_invoker),
    "results": Field(("work", "results"), as_text),
    "http": Field(("work", "http"), as_http, HTTP_NAMES),
    "container": Field(("work", "container"), as_container),
    "kubernetes": Field(("work", "kubernetes"), as_kubernetes),
    "ray": Field(("work", "ray"), as_ray),
    "env": Field(("work", "env"), as_texts),
    "secrets": Field(("work", "secrets"), as_texts),
    "directory": Field(("work", "directory"), as_directory),
    "grace": Field(("work", "grace_seconds"), as_seconds),
    "isolation": Field(("work", "isolation"), OneOf(tuple(Isolation))),
    "network": Field(("work", "network"), as_flag),
    "fetch": Field(("work", "fetch"), ListOf(as_text)),
    "work": Field(("work",), plain),
    "resources": Field(("resources",), _resources),
    "labels": Field(("labels",), as_texts),
    "zone": Field(("zone",), as_text),
    "prefer": Field(("prefer",), as_texts),
    "prefer_zone": Field(("prefer_zone",), as_text),
    "affinity": Field(("affinity",), ListOf(as_text)),
    "anti_affinity": Field(("anti_affinity",), ListOf(as_text)),
    "groups": Field(("groups",), ListOf(as_text)),
    "retries": Field(("max_attempts",), _attempts),
    "max_attempts": Field(("max_attempts",), plain),
    **duration_fields("retry_delay"),
    "retry": Field(("retry",), _retry, _RETRY_NAMES),
    DELAY_OF_RETRY: Field(("retry_delay_seconds",), as_seconds),
    **duration_fields("timeout", "soft_timeout", "stall", "expected"),
    "on_skip": Field(("on_skip",), as_text),
    "if": Field(("when",), _condition),
    "when": Field(("when",), _condition),
    "for_each": Field(("for_each",), as_expression),
    "label": Field(("label",), as_text),
    "grows": Field(("grows",), as_flag),
}
MAP_FIELDS = frozenset({"map", "input", "reduce", "invoker", "results"})
OWN_FIELDS = MAP_FIELDS | {
    "id", "name", "needs", "for_each", "label", "affinity", "fetch", "work", "run", "shell", "python", "handler",
    "args", "values", "http", "container", "kubernetes", "ray",
}  # fmt: skip
"""Fields of a task that can't have a default."""


def unfold_retry(entries: Mapping[str, Entry]) -> Mapping[str, Entry]:
    """Return the fields of a task or job, with the `delay` of its `retry` moved to a field of its own."""
    retry = entries.get("retry")
    if retry is None or not isinstance(retry.node.value, dict) or "delay" not in retry.node.value:
        return entries
    inside = {key: entry for key, entry in retry.node.value.items() if key != "delay"}
    without = msgspec.structs.replace(retry.node, value=inside)
    return {**entries, "retry": Entry(retry.place, without), DELAY_OF_RETRY: retry.node.value["delay"]}
