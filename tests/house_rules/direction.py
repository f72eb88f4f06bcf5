"""The direction of imports: what each part of the package may import."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.house_rules.source import Complaint, Source

_DATA_MODULES = frozenset(
    {"__future__", "abc", "bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions"}
    | {"functools", "graphlib", "hashlib", "heapq", "itertools", "json", "math", "numbers", "operator", "random", "re"}
    | {"shlex", "string", "textwrap", "types", "typing", "unicodedata", "zoneinfo"}
)
_EVERYTHING = frozenset({"*"})


class Area(NamedTuple):
    """What one part of the package may import."""

    ours: frozenset[str]
    foreign: frozenset[str]
    standard: frozenset[str] = _EVERYTHING


def _area(ours: str = "", foreign: str = "", standard: frozenset[str] = _EVERYTHING) -> Area:
    modules = (f"mainspring.{name}" for name in ours.split())
    return Area(frozenset(modules), frozenset(foreign.split()), standard)


# A host uses databases and networks through ports only.
_CONCRETE = frozenset({"sqlite3", "http", "urllib", "socket", "subprocess"})

_BASICS = "protocol.errors protocol.clock protocol.ids"

_DSL = "client definitions dsl task_context"

# Jobs in Python, definition files, and the client: what users write and call.
_AUTHORING = _area(
    f"{_DSL} simulation.inprocess atomic_files protocol.rest protocol.trust {_BASICS} core.admission.validate_job "
    "core.admission.validate_submission core.expressions.engine core.graph.references core.lifecycle.failure_policy "
    "core.model.artifacts "
    "core.model.audit_entry core.model.job core.model.run core.model.trace_ids core.model.webhook_events "
    "core.schedules.schedule_json core.schedules.schedule_spec core.schedules.time_zones core.schedules.triggers "
    "core.schedules.windows core.text.durations core.text.quantities core.text.suggestions core.work.containers "
    "core.work.http_calls core.work.isolation core.work.map_reduce core.work.work",
    "msgspec httpx2 obstore yaml",
)

# The longest prefix wins: `mainspring.store.ports` is one part, the rest of the store another.
AREAS: dict[str, Area] = {
    "mainspring.atomic_files": _area(),
    "mainspring.unix_sockets": _area(),
    "mainspring.secret_references": _area("core.text.urls protocol.errors", "msgspec"),
    "mainspring.protocol.errors": _area("", "msgspec", _DATA_MODULES),
    "mainspring.protocol.wire": _area("", "msgspec", _DATA_MODULES),
    "mainspring.protocol.ids": _area("protocol.errors", "uuid_utils"),
    "mainspring.protocol.clock": _area("protocol.errors"),
    "mainspring.protocol.certificates": _area("atomic_files protocol.errors", "msgspec cryptography"),
    "mainspring.protocol.rest": _area("protocol.rest", "msgspec", _DATA_MODULES),
    "mainspring.protocol.trust": _area("protocol.errors"),
    "mainspring.protocol": _area(),
    "mainspring.event_loop": _area("", "uvloop structlog"),
    "mainspring.background": _area("core.lifecycle.restart_policy protocol.clock protocol.errors", "msgspec structlog"),
    "mainspring.core": _area("core protocol.errors", "msgspec minijinja", _DATA_MODULES),
    "mainspring.shard": _area(
        "shard core protocol.errors protocol.wire protocol.ids",
        "msgspec",
        _DATA_MODULES,
    ),
    "mainspring.store.ports": _area("store.ports core protocol.errors", "msgspec", _DATA_MODULES),
    "mainspring.store": _area(f"store core event_loop protocol.wire {_BASICS}", "msgspec asyncpg structlog"),
    "mainspring.host": _area(
        f"background host shard core store.ports event_loop protocol.wire {_BASICS}",
        "msgspec structlog",
        frozenset(sys.stdlib_module_names) - _CONCRETE,
    ),
    "mainspring.telemetry.log_output": _area("", "structlog"),
    "mainspring.telemetry": _area(
        "background telemetry core host shard store.ports protocol.errors protocol.clock",
        "msgspec structlog prometheus_client opentelemetry openlineage attr",
    ),
    "mainspring.egress": _area("egress protocol.errors protocol.trust", "httpx2"),
    "mainspring.notify": _area(
        "notify egress core secret_references protocol.clock protocol.errors protocol.trust definitions.files.sources",
        "msgspec httpx2 aiosmtplib apprise",
    ),
    "mainspring.api": _area(
        f"api background host shard core store.ports event_loop telemetry protocol.certificates protocol.trust "
        f"protocol.wire protocol.rest {_BASICS}",
        "msgspec structlog starlette uvicorn websockets httpx2 prometheus_client psutil",
    ),
    "mainspring.worker": _area(
        f"worker background egress atomic_files event_loop secret_references telemetry.log_output {_BASICS} "
        "protocol.certificates protocol.rest.admin protocol.rest.artifacts protocol.trust protocol.wire "
        "client.addresses client.aio client.artifact_files unix_sockets "
        "task_context.task_context core.expressions.engine core.graph.references "
        "core.model.artifacts core.model.trace_ids core.text.urls core.work.containers core.work.http_calls "
        "core.work.invoker_options core.work.isolation core.work.map_reduce core.work.remote_jobs core.work.work",
        "msgspec structlog psutil websockets uvloop httpx2 lightkube obstore",
    ),
    "mainspring.client": _AUTHORING,
    "mainspring.definitions": _AUTHORING,
    "mainspring.dsl": _AUTHORING,
    "mainspring.task_context": _AUTHORING,
    "mainspring.mapreduce": _area(
        "mapreduce egress atomic_files core.expressions core.text.suggestions core.work.map_reduce core.work.work "
        "protocol.clock protocol.errors protocol.trust task_context.task_context unix_sockets",
        "msgspec httpx2",
    ),
    "mainspring.folder": _area(
        f"folder {_DSL} atomic_files protocol.rest {_BASICS} core.schedules.schedule_json core.schedules.schedule_spec "
        "core.schedules.triggers core.schedules.windows core.text.suggestions",
        "msgspec structlog watchfiles psutil",
    ),
    "mainspring.doctor": _area(
        f"doctor {_DSL} protocol.rest protocol.errors protocol.clock core.text.durations core.text.quantities "
        "store.sqlite.file",
        "msgspec psutil",
    ),
    "mainspring.smoke": _area(
        f"smoke {_DSL} protocol.rest {_BASICS} core.admission.validate_job core.work.isolation core.work.remote_jobs "
        "core.work.work",
        "msgspec",
    ),
    "mainspring.simulation.capacity": _area(
        "simulation.capacity simulation.virtual_worker shard core host.batch_sizer host.intake host.links host.loop "
        f"protocol.wire {_BASICS} definitions.files core.text.durations core.text.quantities",
        "msgspec",
    ),
    "mainspring.simulation.inprocess": Area(_EVERYTHING, _EVERYTHING),
    "mainspring.simulation": _area(f"worker protocol.wire {_BASICS} core.work", "msgspec structlog"),
    "mainspring.cli": _area(
        f"cli doctor folder smoke {_DSL} atomic_files secret_references app.build app.standalone protocol.certificates "
        "protocol.clock protocol.errors protocol.rest core.model.audit_entry core.schedules.clock_changes "
        "core.schedules.schedule_spec core.schedules.time_zones core.schedules.triggers core.text "
        "core.work.invoker_options core.work.isolation",
        "click rich_click rich msgspec yaml",
    ),
    "mainspring.cli.commands.pipelines.folder_view": _area(
        "cli folder app.folder_scheduler client.api_calls core.text.durations protocol.clock protocol.errors",
        "rich",
    ),
    "mainspring.cli.commands.processes.up": _area(
        "cli event_loop folder app.folder_scheduler app.server core.text telemetry.log_output", "rich_click"
    ),
    "mainspring.cli.commands.runs.run": _area(
        f"cli {_DSL} app.standalone protocol.clock telemetry.log_output", "rich_click"
    ),
    "mainspring.cli.commands.processes.worker": _area(
        "cli worker.agent.launch core.work.isolation core.text protocol.errors", "rich_click"
    ),
    "mainspring.cli.commands.processes.server": _area("cli app.server core.text", "rich_click"),
    "mainspring.cli.commands.local.demo": _area("cli demo core.text.durations protocol.errors", "rich_click rich"),
    "mainspring.cli.commands.operations.simulate": _area("cli protocol.errors simulation.capacity", "rich_click"),
    "mainspring.cli.commands.local.openapi": _area("cli api.app api.http.openapi", "rich_click msgspec"),
    "mainspring.app": Area(_EVERYTHING, _EVERYTHING),
    "mainspring.demo": Area(_EVERYTHING, _EVERYTHING),
    "mainspring.testing": _area(
        "simulation.inprocess client definitions dsl task_context protocol.errors core.text.durations", "msgspec"
    ),
    "mainspring": _area("client dsl task_context protocol.errors app.folder_scheduler"),
}


def imports_go_one_way(source: Source) -> Iterator[Complaint]:
    """Each part of the package imports only what the table allows it."""
    area_name = _longest_prefix(source.module, AREAS)
    if area_name is None:
        return
    if area_name == "mainspring" and source.module != "mainspring":
        yield source.complain(1, f"{source.module} belongs to no part of the package: add it to AREAS in direction.py")
        return
    area = AREAS[area_name]
    for node, imported, *_ in source.imports:
        top = imported.partition(".")[0]
        if top == "mainspring":
            allowed = (
                area.ours == _EVERYTHING or imported == "mainspring.__version__" or _is_within(imported, area.ours)
            )
        elif top in sys.stdlib_module_names:
            allowed = area.standard == _EVERYTHING or top in area.standard
        else:
            allowed = area.foreign == _EVERYTHING or top in area.foreign
        if not allowed:
            yield source.complain(node, f"{area_name} may not import {imported}")


def _is_within(module: str, allowed: frozenset[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


def _longest_prefix(module: str, names: Iterable[str]) -> str | None:
    return max((name for name in names if module == name or module.startswith(f"{name}.")), key=len, default=None)
