"""Imports go one way: what each part of the package may import."""

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


# A host reaches databases and networks through ports, never by itself.
_CONCRETE = frozenset({"sqlite3", "http", "urllib", "socket", "subprocess"})

_PORTS = (
    "store.port store.port_admin store.port_artifacts store.port_front store.port_schedules store.port_sharing "
    "store.port_terms store.port_workers"
)
_REST = (
    "rest rest_admin rest_apply rest_artifacts rest_claims rest_decisions rest_diagnosis rest_overviews rest_schedules "
    "rest_sharing"
)

# The part of a longer name wins: `mainspring.store.ports.store` is its own part, the rest of the store another.
AREAS: dict[str, Area] = {
    "mainspring.protocol.errors": _area("", "msgspec", _DATA_MODULES),
    "mainspring.protocol.wire": _area("", "msgspec", _DATA_MODULES),
    "mainspring.protocol.ids": _area("errors", "uuid_utils"),
    "mainspring.protocol.clock": _area("errors"),
    "mainspring.event_loop": _area("", "uvloop structlog"),
    "mainspring.protocol.certificates": _area("errors", "msgspec cryptography"),
    "mainspring.core": _area("core errors", "msgspec minijinja", _DATA_MODULES),
    "mainspring.shard": _area("shard core errors wire ids", "msgspec", _DATA_MODULES),
    "mainspring.store.ports.store": _area(
        "core errors store.port_admin store.port_artifacts store.port_front store.port_schedules store.port_sharing "
        "store.port_terms store.port_workers",
        "msgspec",
        _DATA_MODULES,
    ),
    "mainspring.store.ports.admin": _area("core errors", "msgspec", _DATA_MODULES),
    "mainspring.store.ports.artifacts": _area("core errors", "msgspec", _DATA_MODULES),
    "mainspring.store.ports.sharing": _area("core errors store.port_terms", "msgspec", _DATA_MODULES),
    "mainspring.store.ports.terms": _area("", "msgspec", _DATA_MODULES),
    "mainspring.store.ports.front": _area("core errors", "msgspec", _DATA_MODULES),
    "mainspring.store.ports.workers": _area("core errors", "msgspec", _DATA_MODULES),
    "mainspring.store.ports.schedules": _area("core errors", "msgspec", _DATA_MODULES),
    "mainspring.store": _area("store core errors wire clock event_loop ids", "msgspec asyncpg structlog"),
    "mainspring.host.background": _area("core.restart_policy clock errors", "msgspec structlog"),
    "mainspring.host": _area(
        f"host shard core {_PORTS} clock errors event_loop wire ids",
        "msgspec structlog",
        frozenset(sys.stdlib_module_names) - _CONCRETE,
    ),
    "mainspring.protocol.rest.runs": _area("", "msgspec", _DATA_MODULES),
    "mainspring.protocol.rest.apply": _area("rest", "msgspec", _DATA_MODULES),
    "mainspring.protocol.rest.admin": _area("rest", "msgspec", _DATA_MODULES),
    "mainspring.protocol.rest.artifacts": _area("rest", "msgspec", _DATA_MODULES),
    "mainspring.protocol.rest.claims": _area("rest rest_sharing", "msgspec", _DATA_MODULES),
    "mainspring.protocol.rest.decisions": _area("rest rest_sharing", "msgspec", _DATA_MODULES),
    "mainspring.protocol.rest.diagnosis": _area("rest", "msgspec", _DATA_MODULES),
    "mainspring.protocol.rest.overviews": _area("rest", "msgspec", _DATA_MODULES),
    "mainspring.protocol.rest.schedules": _area("rest", "msgspec", _DATA_MODULES),
    "mainspring.protocol.rest.sharing": _area("rest", "msgspec", _DATA_MODULES),
    "mainspring.telemetry": _area(
        f"telemetry core host shard errors clock {_PORTS}",
        "msgspec structlog prometheus_client opentelemetry openlineage attr",
    ),
    "mainspring.protocol.trust": _area(),
    "mainspring.egress": _area("outgoing errors trust", "httpx2"),
    "mainspring.notify": _area("notify outgoing core clock errors sdk.sources", "msgspec httpx2 aiosmtplib apprise"),
    "mainspring.api": _area(
        f"api host shard core {_PORTS} certificates clock errors event_loop wire ids telemetry trust {_REST}",
        "msgspec structlog starlette uvicorn websockets httpx2 prometheus_client psutil",
    ),
    "mainspring.worker": _area(
        "worker certificates rest_admin rest_artifacts sdk.addresses sdk.aio sdk.artifact_files core.artifacts "
        "outgoing wire event_loop errors clock ids log_output core.isolation core.work core.http_calls core.containers "
        "core.expressions core.mapping core.references core.invoker_texts core.remote_jobs core.trace_ids "
        "core.urls host.background sdk.context sdk.signatures",
        "msgspec structlog psutil websockets uvloop httpx2 lightkube obstore",
    ),
    "mainspring.client": _area(
        f"sdk local {_REST} errors clock ids core.work core.admission core.artifacts "
        "core.audit_trail core.expressions core.failure_policy core.fires core.hints core.job_rules core.jobs "
        "core.amounts core.containers core.http_calls core.isolation core.lengths core.mapping core.references "
        "core.runs core.schedules core.schedule_texts core.trace_ids core.triggers core.webhook_events core.zones",
        "msgspec httpx2 obstore yaml",
    ),
    "mainspring.mapreduce": _area(
        "mapreduce outgoing core.mapping core.work core.expressions core.expression_grammar core.expression_values "
        "core.hints clock errors sdk.context",
        "msgspec httpx2",
    ),
    "mainspring.folder": _area(
        f"folder sdk {_REST} errors clock ids core.fires core.hints core.schedule_texts core.schedules core.triggers",
        "msgspec structlog watchfiles psutil",
    ),
    "mainspring.doctor": _area(f"checkup sdk {_REST} errors clock store.sqlite_file", "msgspec psutil"),
    "mainspring.smoke": _area(
        f"smoke sdk {_REST} errors clock ids core.isolation core.job_rules core.remote_jobs core.work", "msgspec"
    ),
    "mainspring.simulation.capacity": _area(
        "fleet shard core host.intake host.loop host.pace wire ids clock errors worker.played sdk.drafts "
        "sdk.field_values sdk.quantities sdk.sources",
        "msgspec",
    ),
    "mainspring.cli": _area(
        f"cli bootstrap certificates checkup errors folder sdk {_REST} smoke standalone clock "
        "core.audit_trail core.clock_changes core.hints core.invoker_texts core.isolation core.schedules core.triggers "
        "core.zones",
        "click rich_click rich msgspec yaml",
    ),
    "mainspring.cli.commands.pipelines.folder_view": _area(
        "cli clock errors folder scheduler sdk.calls sdk.quantities", "rich"
    ),
    "mainspring.cli.commands.processes.up": _area("cli event_loop folder log_output scheduler serving", "rich_click"),
    "mainspring.cli.commands.runs.run": _area("cli clock log_output sdk standalone", "rich_click"),
    "mainspring.cli.commands.processes.worker": _area(
        "cli worker.launch core.isolation errors sdk.quantities", "rich_click"
    ),
    "mainspring.cli.commands.processes.server": _area("cli serving sdk.quantities", "rich_click"),
    "mainspring.cli.commands.local.demo": _area("cli demo errors sdk.quantities", "rich_click rich"),
    "mainspring.cli.commands.operations.simulate": _area("cli errors fleet", "rich_click"),
    "mainspring.cli.commands.operations.simulate_tables": _area("cli fleet", "msgspec"),
    "mainspring.cli.commands.local.openapi": _area("cli api.app api.openapi", "rich_click msgspec"),
    "mainspring.telemetry.log_output": _area("", "structlog"),
    "mainspring.app.server": Area(_EVERYTHING, _EVERYTHING),
    "mainspring.app.standalone": Area(_EVERYTHING, _EVERYTHING),
    "mainspring.app.folder_scheduler": Area(_EVERYTHING, _EVERYTHING),
    "mainspring.demo": Area(_EVERYTHING, _EVERYTHING),
    "mainspring.app.build": Area(_EVERYTHING, _EVERYTHING),
    "mainspring.simulation.inprocess": Area(_EVERYTHING, _EVERYTHING),
    "mainspring.testing": _area("local sdk errors", "msgspec"),
    "mainspring": _area("sdk errors scheduler"),
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
