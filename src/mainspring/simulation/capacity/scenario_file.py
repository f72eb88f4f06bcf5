"""Strict parser of scenario files: every fault is reported with its line. `scenarios/` has the built-in ones.

To add one, add its file there. The types of a scenario are in `scenario.py`; the tables here say how each field is
written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path

import msgspec

from mainspring.core.text.quantities import parse_millis
from mainspring.core.text.strict_json import split_error
from mainspring.core.text.suggestions import did_you_mean
from mainspring.definitions.files.drafts import invalid, issue_of
from mainspring.definitions.files.field_values import (
    Inside,
    ListOf,
    Unreadable,
    as_bytes,
    as_count,
    as_flag,
    as_number,
    as_seconds,
    as_text,
    as_texts,
    attempt,
    measured,
)
from mainspring.definitions.files.field_values import Path as Steps
from mainspring.definitions.files.sources import FileIssue, Node, Position, parse
from mainspring.protocol.errors import Fault, InvalidFile, NotFound
from mainspring.simulation.capacity.scenario import MAX_TASKS, Scenario, count_tasks, faults_of

_SUFFIX = ".yaml"
_BOUND = re.compile(r"Expected `\w+` (>=|<=|>) (\S+)")
_BOUNDS = {">=": "at least", "<=": "at most", ">": "above"}


def builtin() -> list[Scenario]:
    """Built-in scenarios, by name."""
    return [read_scenario(f"{name}{_SUFFIX}", text) for name, text in sorted(_texts().items())]


def find_scenario(name: str) -> Scenario:
    """Load a scenario from a file, or a built-in one by name. Raises InvalidFile, or NotFound."""
    return read_scenario(name, text_of(name))


def text_of(name: str) -> str:
    """Text of a scenario file. Raises InvalidFile, or NotFound."""
    path = Path(name)
    if path.suffix in {_SUFFIX, ".yml"} or "/" in name:
        try:
            return path.read_text("utf-8")
        except OSError as error:
            raise InvalidFile(f"{name} can't be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InvalidFile(f"{name} is not text") from error
    known = _texts()
    if name not in known:
        hint = did_you_mean(name, known) or f"; built-in scenarios: {', '.join(sorted(known))}; or give a file"
        raise NotFound(f"there is no scenario {name!a}{hint}")
    return known[name]


def read_scenario(file: str, text: str) -> Scenario:
    """Parse a scenario. Raises InvalidFile, with the line of every fault."""
    node, issues = parse(text)
    if node is None or issues:
        raise invalid(file, text, issues)
    read = attempt("the file", _SCENARIO, node)
    if isinstance(read, Unreadable):
        raise invalid(file, text, list(read.issues))
    places = dict(_places(node, ()))
    try:
        scenario = msgspec.convert(read, type=Scenario)
    except msgspec.ValidationError as error:
        raise invalid(file, text, [issue_of(_fault(error), places)]) from error
    found = [issue_of(fault, places) for fault in faults_of(scenario)]
    if found:
        raise invalid(file, text, found)
    if count_tasks(scenario) > MAX_TASKS:
        why = f"it has {count_tasks(scenario):,.0f} tasks (limit {MAX_TASKS:,})"
        raise invalid(file, text, [FileIssue(place=Position(0, 0), why=why)])
    return scenario


def _texts() -> dict[str, str]:
    """Texts of the built-in scenarios, by name."""
    found = files("mainspring.simulation.capacity").joinpath("scenarios").iterdir()
    return {file.name.removesuffix(_SUFFIX): file.read_text("utf-8") for file in found if file.name.endswith(_SUFFIX)}


def _fault(error: Exception) -> Fault:
    """Convert a msgspec error to a fault with a path."""
    why, where = split_error(error)
    bound = _BOUND.fullmatch(why)
    why = why[:1].lower() + why[1:] if bound is None else f"must be {_BOUNDS[bound[1]]} {bound[2]}"
    return Fault(where=where.lstrip("."), why=why)


def _places(node: Node, steps: Steps) -> Iterator[tuple[Steps, Position]]:
    """Position of each part."""
    yield steps, node.place
    if isinstance(node.value, dict):
        for key, entry in node.value.items():
            yield from _places(entry.node, (*steps, key))
            yield (*steps, key), entry.place
    elif isinstance(node.value, list):
        for number, item in enumerate(node.value):
            yield from _places(item, (*steps, number))


def _millis(node: Node) -> int:
    return int(measured(node, parse_millis))


def _inside(what: str, fields: Mapping[str, Callable[[Node], object]]) -> Inside:
    return Inside(what, {name: (name, read) for name, read in fields.items()})


_MACHINE = _inside("a machine", {"share": as_number, "cpu": _millis, "memory": as_bytes, "gpus": as_count})
_WORKERS = _inside(
    "workers", {"count": as_count, "zones": as_count, "pools": as_count, "machines": ListOf(_MACHINE)}
)  # fmt: skip
_TENANTS = _inside(
    "tenants", {"count": as_count, "weights": ListOf(as_number), "guaranteed": as_number, "skew": as_number}
)
_HOST = _inside("the host", dict.fromkeys(("commit", "row", "read", "link"), as_seconds))
_JOB = _inside(
    "a job",
    {
        "name": as_text,
        "priority": as_text,
        "cpu": _millis,
        "memory": as_bytes,
        "takes": _inside("takes", dict.fromkeys(("p10", "p50", "p90", "p99"), as_seconds)),
        "fails": as_number,
        "stages": ListOf(as_count),
        "fan_out": as_count,
    },
)
_LOAD = _inside(
    "a load",
    {
        "job": as_text,
        "per_second": as_number,
        "standing": as_flag,
        "runs": as_count,
        "at": as_seconds,
        "within": as_seconds,
        "tenant": as_count,
    },
)
_ZONE_LOST = _inside("a lost zone", {"zone": as_count, "at": as_seconds, "back_after": as_seconds})
_OUTAGE = _inside(
    "an outage", {"jobs": ListOf(as_text), "at": as_seconds, "lasts": as_seconds, "fails_after": as_seconds}
)
_SCENARIO = _inside(
    "a scenario",
    {
        "name": as_text,
        "about": as_text,
        "lasts": as_seconds,
        "warm_up": as_seconds,
        "workers": _WORKERS,
        "tenants": _TENANTS,
        "host": _HOST,
        "jobs": ListOf(_JOB),
        "loads": ListOf(_LOAD),
        "zones_lost": ListOf(_ZONE_LOST),
        "outages": ListOf(_OUTAGE),
        "settings": as_texts,
    },
)
