"""The names and texts of the program: errors, metrics, settings, variables, codes, log events, messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from mainspring.api.app import endpoints
from mainspring.api.auth import principal
from mainspring.api.http.problems import problem_of
from mainspring.cli.exits import exit_code
from mainspring.core.admission import degradation
from mainspring.core.explain import diagnosis, messages
from mainspring.core.lifecycle import states
from mainspring.core.lifecycle.failure_policy import FailureClass
from mainspring.core.model import alerts, batch, decisions, run, task, webhook_events, worker
from mainspring.core.model.settings import SETTINGS
from mainspring.core.placement import feasibility
from mainspring.core.schedules import windows
from mainspring.core.work import isolation
from mainspring.doctor.health_check import Answer
from mainspring.host.degradation import DegradationMonitor
from mainspring.protocol import errors
from mainspring.protocol.clock import SystemClock
from mainspring.shard import effects, events
from mainspring.smoke.check_results import FaultCode
from mainspring.telemetry import metrics
from mainspring.telemetry.gauges import LeaderGauges
from mainspring.telemetry.schedule_metrics import ScheduleCollector
from mainspring.telemetry.server_gauges import DegradationCollector
from mainspring.telemetry.tracing import NAMES
from mainspring.worker.executors.python import function_calls
from tests.golden.shapes import compact
from tests.house_rules.source import Source

_SOURCE = Path(__file__).parents[2] / "src"
_SQL = re.compile(
    r"\b(SELECT|INSERT INTO|UPDATE \w+|DELETE FROM|WITH \w+|CREATE|ALTER|WHERE|ORDER BY|JOIN|VALUES|BEGIN|SET|AND)\b"
)
_HTML = re.compile(r"<[!/a-z]")
_VARIABLE = re.compile(r"\bMAINSPRING_[A-Z0-9_]*")
_LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})

CODES: Mapping[str, type[Enum]] = {
    "states of a task": task.TaskState,
    "states of a run": run.RunState,
    "states of a pipeline": states.PipelineState,
    "ends of an attempt": task.AttemptEnd,
    "priorities": task.Priority,
    "reasons to stop an attempt": task.StopKind,
    "states of a worker": worker.WorkerStatus,
    "what holds a worker": worker.Hold,
    "failure policies": run.FailurePolicy,
    "classes of failures": FailureClass,
    "outcomes of a window": windows.Outcome,
    "reasons of a diagnosis": diagnosis.Reason,
    "results of the gates of a diagnosis": diagnosis.GateState,
    "acts of a diagnosis": diagnosis.SuggestionKind,
    "foresight of a diagnosis": diagnosis.ExpectedKind,
    "obstacles of a worker": feasibility.ObstacleKind,
    "kinds of alerts": alerts.AlertKind,
    "severities of alerts": alerts.Severity,
    "kinds of decisions": decisions.DecisionKind,
    "work that exceeds a batch": batch.BulkOperationKind,
    "timers": events.TimerKind,
    "replies to an act": effects.ActionStatus,
    "levels of isolation": isolation.Isolation,
    "levels of service": degradation.DegradationLevel,
    "roles": principal.Role,
    "refused submissions": metrics.RefusalReason,
    "faults of mainspring smoke": FaultCode,
    "answers of mainspring doctor": Answer,
}
"""Codes in the API, rows, logs or labels, by purpose."""


def errors_text() -> str:
    """Each error: its code, the status of an answer, the exit code of a command, its name if a task raises it."""
    lines = []
    for kind in _below(errors.MainspringError):
        error = kind("why")
        problem = problem_of(error)
        family = kind.__mro__[1]
        above = family.code if issubclass(family, errors.MainspringError) else "-"
        lines.append(
            f"{kind.code}: HTTP {problem.status}, exit {exit_code(error)}, below {above}, title {problem.title!r}, "
            f"type {problem.type}, of a task {function_calls._type_of(error)}"
        )
    return "\n".join(sorted(lines)) + "\n"


def metrics_text() -> str:
    """Each metric: its name, type, labels, help, and the limits of its buckets."""
    numbers = metrics.Metrics()
    numbers.registry.register(LeaderGauges(dict))
    ScheduleCollector(None, SystemClock(), numbers.registry)  # type: ignore[arg-type]  # not used
    numbers.registry.register(DegradationCollector(_NoLevels()))
    lines = []
    for collector in list(numbers.registry._collector_to_names):
        if isinstance(collector, MetricWrapperBase):
            buckets = getattr(collector, "_kwargs", {}).get("buckets")
            more = f" buckets {', '.join(f'{one:g}' for one in buckets)}" if buckets else ""
            name = f"{collector._name}_total" if collector._type == "counter" else collector._name
            about = collector._documentation
            lines.append(_metric(name, str(collector._type), collector._labelnames, about) + more)
        else:
            lines += [
                _metric(one.name, one.type, getattr(one, "_labelnames", ()), one.documentation)
                for one in collector.collect()
            ]
    lines += [f"{name} (an attribute of OpenTelemetry)" for name in NAMES.values()]
    return "\n".join(sorted(lines)) + "\n"


def settings_text() -> str:
    """Each setting: its type, default and bounds. Its purpose is in docs/reference/settings.md."""
    lines = [
        f"{one.name}: {'int' if one.is_integer else 'float'} = {one.default!r}, from {one.minimum!r} to {one.maximum!r}"
        for one in SETTINGS.values()
    ]
    return "\n".join(lines) + "\n"


def variables_text() -> str:
    """Each environment variable that the program reads or sets for tasks; options of commands are in cli.txt."""
    found = {name for _, text in _texts() for name in _VARIABLE.findall(text)}
    for source in sources():
        found |= set(_read_from_environment(source))
    return "\n".join(sorted(found)) + "\n"


def codes_text() -> str:
    """Each code that is stored or sent, by purpose, in declaration order."""
    lines = []
    for title, kind in CODES.items():
        values = [f"{one.name} {one.value}" if isinstance(one.value, int) else str(one.value) for one in kind]
        lines += [f"{title}: {', '.join(values)}"]
    lines += [f"gates of a diagnosis: {', '.join(messages.QUEUED_GATES)}"]
    lines += [f"events of webhooks: {', '.join((*webhook_events.EVENTS, webhook_events.TEST))}"]
    lines += [f"reasons of errors: {', '.join(sorted({name for one in sources() for name in _reasons(one)}))}"]
    lines += ["", "transitions of a task:", *_moves(states._EDGES), ""]
    lines += ["", "operations (in the OpenAPI document, the audit log, permissions, metrics), * in the audit log:"]
    lines += sorted(f"  {one.operation}{' *' if one.audited else ''}" for one in endpoints())
    return "\n".join(lines) + "\n"


def events_text() -> str:
    """Each event that is logged, with its level and its fields."""
    found = {line for source in sources() for line in _logged(source)}
    return "\n".join(sorted(found)) + "\n"


def messages_text() -> str:
    """Each text of three words or more, with {} as placeholders."""
    return "\n".join(sorted({compact(text)[1:-1] for text in _sentences()})) + "\n"


def _below(kind: type[errors.MainspringError]) -> Iterator[type[errors.MainspringError]]:
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield each
            yield from _below(each)


class _NoLevels(DegradationMonitor):
    """The degradation levels of a server without pools."""

    def __init__(self) -> None: ...

    def pools(self) -> Mapping[str, degradation.PoolLevel]:
        return {}


def _reasons(source: Source) -> Iterator[str]:
    """The codes of `MainspringError.reason`, with {} as placeholders."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for keyword in node.exc.keywords:
                if keyword.arg == "reason":
                    parts = keyword.value.values if isinstance(keyword.value, ast.JoinedStr) else [keyword.value]
                    yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


def _metric(name: str, kind: str, labels: Iterable[str], about: str) -> str:
    return f"{name}{{{','.join(labels)}}} {kind}: {about}"


def _moves(table: Mapping[task.TaskState, Iterable[task.TaskState]]) -> Iterator[str]:
    for begin, ends in table.items():
        yield f"  {begin.value}: {', '.join(sorted(end.value for end in ends)) or '-'}"


@cache
def sources() -> list[Source]:
    """Every file of the program."""
    return [
        Source(path.relative_to(_SOURCE.parent).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(_SOURCE.rglob("*.py"))
    ]


@cache
def _texts() -> list[tuple[Source, str]]:
    """Every string of the program except docstrings."""
    return [(source, text) for source in sources() for text in _texts_in(source)]


def _texts_in(source: Source) -> Iterator[str]:
    parts: set[ast.AST] = set()
    for node in ast.walk(source.tree):
        match node:
            case ast.Expr(value=ast.Constant()):
                parts.add(node.value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="Table"), attr="of")):
                parts.update(node.args, (keyword.value for keyword in node.keywords))
            case ast.JoinedStr():
                parts.update(node.values)
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            case ast.Constant(value=str(text)) if node not in parts:
                yield text


def _sentences() -> Iterator[str]:
    for source, text in _texts():
        if len(text.split()) < 3 or _SQL.search(text) or _HTML.match(text):
            continue
        if source.is_under("mainspring.store") and re.search(r" = | <=? | >=? |\bIS\b|\bIN\b|::", text):
            continue
        yield text


def _read_from_environment(source: Source) -> Iterator[str]:
    """Names of environment variables that the code reads."""
    for node in ast.walk(source.tree):
        match node:
            case (
                ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(value=str(name)))
                | ast.Call(
                    func=ast.Attribute(value=ast.Attribute(attr="environ"), attr="get"),
                    args=[ast.Constant(value=str(name)), *_],
                )
            ):
                yield name


def _logged(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr=level), args=[event, *_]) if (
                level in _LEVELS and not isinstance(event, ast.Name)
            ):
                fields = sorted(keyword.arg or "**" for keyword in node.keywords)
                yield f"{_event(event)} [{level}] {', '.join(fields)}".rstrip()
            case ast.Call(func=ast.Name(id="repeat"), args=[*_, event]):
                yield f"{_event(event)} [warning] fault"


def _event(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "{}"
