"""A schedule file: the friendly form that people write, made into the strict form that the server takes.

    name: nightly
    job: etl
    cron: "30 5 * * mon-fri"          # or every: 15m, at: 2026-12-01T05:00:00Z, event: orders.ready, manual: true
    timezone: Europe/Paris
    params: {region: eu}
    max_delay: 1h

Every flaw that can be seen here is named with its line: those of the form, and those of the server's own rules
(`core/schedules.py`), but for what depends on the time or on what the server has. The strict form is taken as well, and
each field of it beside the friendly ones.

When you add a field: a line in `_FIELDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from mainspring.core.schedule_texts import decode_schedule
from mainspring.core.schedules import check_schedule
from mainspring.core.zones import EPOCH
from mainspring.errors import Fault, InvalidFile, Refused
from mainspring.sdk.definition_fields import Field, Path, as_seconds, as_text, misfit
from mainspring.sdk.drafts import Draft, flaw_of, invalid, steps_of
from mainspring.sdk.sources import Entry, Flaw, Node, Place, parse, plain

_KINDS = {"cron": "cron", "every": "interval", "at": "once", "event": "event", "manual": "manual"}
"""The field that says when, and the kind of trigger that it makes."""
_BELONGS = {"timezone": "cron", "anchor": "every", "filter": "event", "expected": "event"}
_IN_BODY = "definition"


class ScheduleFile(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule file that was read: what to send, and where each part of it stands."""

    file: str
    text: str
    body: bytes
    """The strict form, as JSON."""
    name: str
    places: dict[Path, Place]


def read_schedule(text: str, file: str) -> ScheduleFile:
    """The schedule in a file's text. Raises InvalidFile, with the lines, if it has flaws."""
    root, flaws = parse(text)
    if root is None:
        raise invalid(file, text, flaws)
    draft = _Draft(flaws)
    schedule = draft.schedule(root)
    body = msgspec.json.encode(schedule)
    if not flaws:
        flaws.extend(flaw_of(fault, draft.places) for fault in _faults_in(body))
    if flaws:
        raise invalid(file, text, flaws)
    return ScheduleFile(file=file, text=text, body=body, name=str(schedule["name"]), places=draft.places)


def blame(file: ScheduleFile, refused: Refused) -> InvalidFile:
    """A refusal of the server, led back to the lines of the file."""
    flaws = []
    for fault in refused.faults:
        steps = steps_of(fault.where)
        inside = steps[1:] if steps[:1] == (_IN_BODY,) else steps
        pointer = "".join(f"/{step}" for step in inside)
        flaws.append(flaw_of(Fault(where=pointer, why=fault.why), file.places))
    error = invalid(file.file, file.text, flaws)
    error.problem = refused.problem
    return error


def _faults_in(body: bytes) -> list[Fault]:
    """What the server's rules say to it; it is as if it were 1970, so that nothing is over."""
    try:
        return check_schedule(decode_schedule(body), EPOCH)
    except Refused as refused:
        return list(refused.faults)


class _Draft(Draft):
    """The strict form of a schedule in the making."""

    def schedule(self, root: Node) -> dict[str, object]:
        """The whole schedule."""
        schedule: dict[str, object] = {}
        if not isinstance(root.value, dict):
            self.add(
                Flaw(place=root.place, why="a schedule file is a mapping with `name`, `job` and when it fires"), ()
            )
            return schedule
        self.places[()] = root.place
        kind = self._kind(root, root.value)
        self.fill(schedule, (), {key: entry for key, entry in root.value.items() if key != "manual"}, _FIELDS)
        if kind is not None:
            trigger = schedule.setdefault("trigger", {})
            assert isinstance(trigger, dict)
            trigger["kind"] = kind
        return schedule

    def _kind(self, root: Node, entries: Mapping[str, Entry]) -> str | None:
        """What kind of trigger the fields make; None if the strict form says it."""
        said = [key for key in entries if key in _KINDS]
        if "trigger" in entries:
            return None
        if not said:
            self.add(Flaw(place=root.place, why=f"it must say when it fires: {', '.join(_KINDS)}"), ())
            return None
        for other in said[1:]:
            self.add(Flaw(place=entries[other].place, why=f"`{other}` can't be beside `{said[0]}`"), ())
        for key, owner in _BELONGS.items():
            if key in entries and owner != said[0]:
                self.add(Flaw(place=entries[key].place, why=f"`{key}` is for `{owner}`, not for `{said[0]}`"), ())
        return _KINDS[said[0]]


def _whole_seconds(node: Node) -> int:
    seconds = as_seconds(node)
    if seconds != int(seconds):
        raise misfit(node, "must be whole seconds")
    return int(seconds)


def _mapping(short: str, fields: Mapping[str, tuple[str, Callable[[Node], object]]]) -> Callable[[Node], object]:
    """A mapping with these fields; a text alone is the field `short`."""

    def read(node: Node) -> object:
        if not isinstance(node.value, dict):
            return {short: as_text(node)}
        return {
            fields[key][0] if key in fields else key: fields[key][1](entry.node) if key in fields else plain(entry.node)
            for key, entry in node.value.items()
        }

    return read


def _failures(node: Node) -> object:
    """How many in a row; `never` for no limit."""
    return None if node.text == "never" else plain(node)


_WITHIN = {"within": "within_seconds"}
_BUFFER = {"buffer": "buffer_seconds"}
_FIELDS = {
    "name": Field(("name",), as_text),
    "job": Field(("job",), as_text),
    "trigger": Field(("trigger",), plain),
    "cron": Field(("trigger", "cron"), as_text),
    "timezone": Field(("trigger", "timezone"), as_text),
    "every": Field(("trigger", "every_seconds"), _whole_seconds),
    "anchor": Field(("trigger", "anchor_at"), as_text),
    "at": Field(("trigger", "at"), as_text),
    "event": Field(("trigger", "type"), as_text),
    "filter": Field(("trigger", "filter"), as_text),
    "expected": Field(
        ("trigger", "expected"), _mapping("cron", {"buffer": ("buffer_seconds", as_seconds)}), names=_BUFFER
    ),
    "params": Field(("params",), plain),
    "priority": Field(("priority",), lambda node: as_text(node).upper()),
    "enabled": Field(("enabled",), plain),
    "missed": Field(("missed",), as_text),
    "catch_up": Field(("max_catch_up_windows",), plain),
    "max_catch_up_windows": Field(("max_catch_up_windows",), plain),
    "max_delay": Field(("max_delay_seconds",), as_seconds),
    "max_delay_seconds": Field(("max_delay_seconds",), plain),
    "jitter": Field(("jitter_seconds",), _whole_seconds),
    "jitter_seconds": Field(("jitter_seconds",), plain),
    "overlap": Field(("overlap",), as_text),
    "max_active": Field(("max_active",), plain),
    "after": Field(("after",), _mapping("job", {"within": ("within_seconds", as_seconds)}), names=_WITHIN),
    "condition": Field(("condition",), _mapping("expression", {})),
    "max_failures": Field(("max_consecutive_failures",), _failures),
    "max_consecutive_failures": Field(("max_consecutive_failures",), plain),
}
