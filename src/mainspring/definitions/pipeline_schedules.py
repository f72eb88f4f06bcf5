"""Schedules of a pipeline file: its `schedule` or `on` block, converted to `ScheduleSpec`s.

Each block is read as a schedule file (`schedule_file.py`), with values of the pipeline around it, and with the defaults
of pipeline files: one missed window is caught up, and a window is skipped while a run is active (TRG-5, TRG-12).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

import msgspec

from mainspring.core.schedules.schedule_json import decode_schedule
from mainspring.core.schedules.schedule_spec import Overlap, ScheduleSpec
from mainspring.definitions.files.drafts import Draft
from mainspring.definitions.files.field_values import Path, as_flag, suggestion
from mainspring.definitions.files.pipeline_fields import BESIDE_BLOCK, BLOCK_FIELDS, FROM_PIPELINE, ON_KEYS, Param
from mainspring.definitions.files.sources import Entry, FileIssue, Node, Position
from mainspring.definitions.schedule_file import ScheduleDraft

EVENT = "-event"
"""Name suffix of a second schedule."""
_DEFAULTS: dict[str, object] = {"max_catch_up_windows": 1, "overlap": Overlap.SKIP, "max_active": 1}
_FEW = 8
"""Maximum number of known fields listed for an unknown one."""
_MANUAL = {"manual": Entry(Position(0, 0), Node(value=True, text="true", place=Position(0, 0)))}


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file that defines a schedule."""

    place: Position
    entries: dict[str, Entry]


class Blocks(msgspec.Struct, frozen=True, kw_only=True):
    """Trigger blocks of a file."""

    own: Block | None = None
    event: Block | None = None
    beside: dict[str, Entry] = {}
    """Fields in the block that are not the schedule's: `retryPolicy`, `notify`."""
    manual_off: Position | None = None
    """Position of `manual: false`, which has no effect."""

    @property
    def all(self) -> list[Block]:
        """In the order of the schedules."""
        return [block for block in (self.own, self.event) if block is not None]


class PipelineContext(msgspec.Struct, frozen=True, kw_only=True):
    """Values that a schedule takes from its pipeline."""

    id: str
    entries: dict[str, Entry]
    """Its priority and its concurrency, by the names of `BLOCK_FIELDS`."""
    params: dict[str, Param]
    param_places: dict[str, Position]
    directory: str | None
    zone: str


def find_blocks(draft: Draft, entries: Mapping[str, Entry]) -> Blocks:
    """Return the blocks of a file. Issues in their form are added to the draft."""
    schedule, on = entries.get("schedule"), entries.get("on")
    if schedule is not None and on is not None:
        later = max(schedule, on, key=lambda entry: (entry.place.line, entry.place.column))
        draft.add(later.place, "`schedule` and `on` can't be combined", "keep one of them")
    found = Blocks() if on is None else _read_on(draft, on)
    if schedule is None:
        return found
    own, beside = _split(draft, "schedule", schedule)
    return msgspec.structs.replace(found, own=own, beside=beside)


def make_schedules(
    issues: list[FileIssue], blocks: Blocks, context: PipelineContext
) -> tuple[list[ScheduleSpec], dict[Path, Position]]:
    """Return the schedules, and the positions of the first one's parts. An invalid one is omitted.

    A file without any is checked as a manual one: its schedule fields may be wrong.
    """
    made: list[ScheduleSpec] = []
    places: dict[Path, Position] = {}
    for number, block in enumerate(blocks.all or [Block(place=Position(0, 0), entries=_MANUAL)]):
        draft = ScheduleDraft([])
        name = context.id if number == 0 else context.id + EVENT
        body = _strict(draft, block, context, name)
        draft.check(_rooted(body, context.directory or "/"))
        issues.extend(issue for issue in draft.issues if issue not in issues)
        if not draft.issues and blocks.all:
            made.append(decode_schedule(msgspec.json.encode(_rooted(body, context.directory))))
        if number == 0:
            places = draft.places
    return made, places


def _strict(draft: ScheduleDraft, block: Block, context: PipelineContext, name: str) -> dict[str, object]:
    """Return the strict form of a block."""
    root = Node(value={**context.entries, **block.entries}, place=block.place)
    schedule: dict[str, object] = {**_DEFAULTS, **draft.schedule(root, BLOCK_FIELDS), "name": name, "job": context.id}
    trigger = schedule.get("trigger")
    for clock in (trigger, trigger.get("expected")) if isinstance(trigger, dict) else ():
        if isinstance(clock, dict) and "cron" in clock:
            clock.setdefault("timezone", context.zone)
    for key, param in context.params.items():
        inside, place = "computed" if param.is_computed else "params", context.param_places[key]
        draft.places[inside, key] = place
        if param.default is not None:
            values = schedule.setdefault(inside, {})
            assert isinstance(values, dict)
            values[key] = param.default
    return schedule


def _rooted(schedule: dict[str, object], directory: str | None) -> dict[str, object]:
    """Return the strict form with the path of its condition below a directory, if any."""
    condition = schedule.get("condition")
    if directory is not None and isinstance(condition, dict) and "file_exists" in condition:
        path = posixpath.join(directory, condition["file_exists"])
        schedule = {**schedule, "condition": {**condition, "file_exists": path}}
    return schedule


def _read_on(draft: Draft, on: Entry) -> Blocks:
    entries = on.node.value
    if not isinstance(entries, dict):
        draft.add(on.place, f"`on` must be a mapping with {', '.join(ON_KEYS)}")
        return Blocks()
    for key in entries.keys() - set(ON_KEYS):
        _refuse(draft, key, entries[key], "`on`", ON_KEYS)
    own, beside = _one_schedule(draft, entries)
    event = _read_event(draft, entries["event"]) if "event" in entries else None
    manual_off = None
    if "manual" in entries:
        manual = draft.read("manual", as_flag, entries["manual"].node)
        manual_off = entries["manual"].place if manual is False else None
    return Blocks(own=own, event=event, beside=beside, manual_off=manual_off)


def _one_schedule(draft: Draft, entries: Mapping[str, Entry]) -> tuple[Block | None, dict[str, Entry]]:
    """Return the schedule under `on`: `schedule`, a mapping or a list of one, or `every`."""
    schedule, every = entries.get("schedule"), entries.get("every")
    if every is not None:
        if schedule is not None:
            draft.add(every.place, "`every` and `schedule` can't be combined")
        return Block(place=every.place, entries={"every": every}), {}
    if schedule is None:
        return None, {}
    if isinstance(schedule.node.value, list):
        if len(schedule.node.value) != 1:
            place = schedule.node.value[1].place if schedule.node.value else schedule.place
            draft.add(place, "a file has one schedule", "move the second one to another file")
            return None, {}
        schedule = Entry(schedule.place, schedule.node.value[0])
    return _split(draft, "schedule", schedule)


def _read_event(draft: Draft, event: Entry) -> Block | None:
    """Read `event: orders.ready`, or a mapping with `type` and other schedule fields."""
    if not isinstance(event.node.value, dict):
        return Block(place=event.place, entries={"event": event})
    if "event" in event.node.value:
        _refuse(draft, "event", event.node.value["event"], "`event`", ("type",))
    named = {"event" if key == "type" else key: entry for key, entry in event.node.value.items() if key != "event"}
    if "event" not in named:
        draft.add(event.place, "`event` needs a `type`")
        return None
    return Block(place=event.place, entries=named)


def _split(draft: Draft, key: str, entry: Entry) -> tuple[Block | None, dict[str, Entry]]:
    """Split a mapping into a block and the fields that are not the schedule's."""
    if not isinstance(entry.node.value, dict):
        why = f'`{key}` must be a mapping such as {{cron: "0 9 * * *", timezone: Europe/Paris}}'
        draft.add(entry.node.place, why)
        return None, {}
    known = [name for name in BLOCK_FIELDS if name not in FROM_PIPELINE] + list(BESIDE_BLOCK)
    entries: dict[str, Entry] = {}
    for name, inner in entry.node.value.items():
        if name in BLOCK_FIELDS or name == "manual":
            entries[name] = inner
        elif name not in BESIDE_BLOCK:
            _refuse(draft, name, inner, f"`{key}`", known)
    beside = {name: inner for name, inner in entry.node.value.items() if name in BESIDE_BLOCK}
    return Block(place=entry.place, entries=entries), beside


def _refuse(draft: Draft, key: str, entry: Entry, what: str, known: list[str] | tuple[str, ...]) -> None:
    if draft.is_full:
        return
    note = suggestion(key, known) or ("" if len(known) > _FEW else f"known: {', '.join(known)}")
    draft.add(entry.place, f"unknown field `{key}` of {what}", note)
