"""Schedule files: the user-facing form, converted to the strict form of the API.

    name: nightly
    job: etl
    cron: "30 5 * * mon-fri"          # or every: 15m, at: 2026-12-01T05:00:00Z, event: orders.ready, manual: true
    timezone: Europe/Paris
    params: {region: eu}
    max_delay: 1h

Every issue is reported with its line: those of the form, and those of the server's own rules
(`core/schedules/schedule_spec.py`), except what depends on the time or on the server's state. The strict form is
accepted as well, also field by field beside the user-facing one.

To add a field: a line in `SCHEDULE_FIELDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from mainspring.core.schedules.schedule_json import decode_schedule
from mainspring.core.schedules.schedule_spec import Missed, Overlap, check_schedule
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.definitions.files.drafts import Draft, ParsedFile, invalid
from mainspring.definitions.files.field_values import (
    Field,
    OneOf,
    Path,
    as_count,
    as_flag,
    as_seconds,
    as_text,
    duration_fields,
    mismatch,
)
from mainspring.definitions.files.sources import Entry, Node, parse, plain
from mainspring.protocol.errors import Fault, Refused

_KINDS = {"cron": "cron", "every": "interval", "at": "once", "event": "event", "manual": "manual"}
"""Trigger field, and the kind of trigger."""
_BELONGS = {"timezone": "cron", "anchor": "every", "filter": "event", "expected": "event"}
_TRIGGER: Path = ("trigger",)


def read_schedule(text: str, file: str) -> ParsedFile:
    """Parse a schedule file. Raises InvalidFile, with the lines, if it has issues."""
    root, issues = parse(text)
    if root is None:
        raise invalid(file, text, issues)
    draft = ScheduleDraft(issues)
    schedule = draft.schedule(root, SCHEDULE_FIELDS)
    draft.check(schedule)
    if issues:
        raise invalid(file, text, issues)
    body = msgspec.json.encode(schedule)
    return ParsedFile(file=file, text=text, body=body, name=str(schedule["name"]), places=draft.places)


def _faults_in(body: bytes) -> list[Fault]:
    """Return the faults by the server's rules, evaluated in 1970, so that no time is in the past."""
    try:
        return check_schedule(decode_schedule(body), EPOCH)
    except Refused as refused:
        return list(refused.faults)


class ScheduleDraft(Draft):
    """Builds the strict form of a schedule."""

    def check(self, schedule: dict[str, object]) -> None:
        """Add the faults by the server's rules."""
        if not self.is_complete_at(_TRIGGER):
            # Without a trigger the rules stop early: use a placeholder to check the other fields.
            schedule = {**schedule, "trigger": {"kind": "manual"}}
        self.add_faults(_faults_in(msgspec.json.encode(schedule)))

    def schedule(self, root: Node, fields: Mapping[str, Field]) -> dict[str, object]:
        """Return the whole schedule, of a file with these fields."""
        schedule: dict[str, object] = {}
        if not isinstance(root.value, dict):
            self.add(root.place, "a schedule file must be a mapping with `name`, `job` and a trigger")
            return schedule
        self.places[()] = root.place
        kind = self._kind(root, root.value)
        self.fill(schedule, (), {key: entry for key, entry in root.value.items() if key != "manual"}, fields)
        if kind is not None:
            trigger = schedule.setdefault("trigger", {})
            assert isinstance(trigger, dict)
            trigger["kind"] = kind
        return schedule

    def _kind(self, root: Node, entries: Mapping[str, Entry]) -> str | None:
        """Return the kind of trigger; None if the strict form has it."""
        said = [key for key in entries if key in _KINDS]
        if "trigger" in entries:
            return None
        if not said:
            self.add(root.place, f"a schedule needs a trigger: {', '.join(_KINDS)}", at=_TRIGGER)
            return None
        for other in said[1:]:
            self.add(entries[other].place, f"`{other}` and `{said[0]}` can't be combined", at=_TRIGGER)
        for key, owner in _BELONGS.items():
            if key in entries and owner != said[0]:
                self.add(entries[key].place, f"`{key}` requires `{owner}`, not `{said[0]}`", at=_TRIGGER)
        return _KINDS[said[0]]


def _whole_seconds(node: Node) -> int:
    seconds = as_seconds(node)
    if seconds != int(seconds):
        raise mismatch(node, "must be a whole number of seconds")
    return int(seconds)


def _mapping(short: str, fields: Mapping[str, tuple[str, Callable[[Node], object]]]) -> Callable[[Node], object]:
    """Return a reader of a mapping with these fields; a string is the field `short`."""

    def read(node: Node) -> object:
        if not isinstance(node.value, dict):
            return {short: as_text(node)}
        found = {}
        for key, entry in node.value.items():
            name, convert = fields.get(key, (key, plain))
            found[name] = convert(entry.node)
        return found

    return read


def _failures(node: Node) -> int | None:
    """Read the number of consecutive failures; `never` for no limit."""
    return None if node.text == "never" else as_count(node)


def _optional_count(node: Node) -> int | None:
    return None if node.value is None else as_count(node)


def _priority(node: Node) -> str:
    return OneOf(("P0", "P1", "P2"))(msgspec.structs.replace(node, text=as_text(node).upper()))


_WITHIN = {"within": "within_seconds"}
_BUFFER = {"buffer": "buffer_seconds"}
SCHEDULE_FIELDS = {
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
    "priority": Field(("priority",), _priority),
    "enabled": Field(("enabled",), as_flag),
    "missed": Field(("missed",), OneOf(tuple(Missed))),
    "catch_up": Field(("max_catch_up_windows",), as_count),
    "max_catch_up_windows": Field(("max_catch_up_windows",), as_count),
    **duration_fields("max_delay"),
    "jitter": Field(("jitter_seconds",), _whole_seconds),
    "jitter_seconds": Field(("jitter_seconds",), plain),
    "overlap": Field(("overlap",), OneOf(tuple(Overlap))),
    "max_active": Field(("max_active",), as_count),
    "after": Field(("after",), _mapping("job", {"within": ("within_seconds", as_seconds)}), names=_WITHIN),
    "condition": Field(("condition",), _mapping("expression", {})),
    "max_failures": Field(("max_consecutive_failures",), _failures),
    "max_consecutive_failures": Field(("max_consecutive_failures",), _optional_count),
}
