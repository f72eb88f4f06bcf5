"""Schedules as JSON, as clients send and receive them: `ScheduleSpec`, with the priority as `P0`, `P1` or `P2`.

msgspec stops at the first fault, so each part is decoded separately and all faults of form are reported. Values are
checked afterwards, by `schedule_spec.check_schedule`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import msgspec

from mainspring.core.admission.validate_job import Faults
from mainspring.core.model.task import Priority
from mainspring.core.schedules.schedule_spec import After, Condition, ScheduleSpec
from mainspring.core.schedules.triggers import EventTrigger, Expected, Trigger
from mainspring.core.text.field_errors import name_faults
from mainspring.core.text.strict_json import InvalidValue, Read, Reader

MAX_TEXT_BYTES = 512 * 1024
_KIND = "kind"
_TRIGGERS: dict[str, type[msgspec.Struct]] = {str(one.__struct_config__.tag): one for one in get_args(Trigger)}
_NAMED = InvalidValue("its faults have been reported")


def decode_schedule(text: bytes) -> ScheduleSpec:
    """Decode a definition. Raises Refused with every fault of form, each with its path."""
    faults = Faults()
    value = _read(text, faults)
    if isinstance(value, dict):
        value = dict(value)
        _check_part(value, "priority", _name_fault_of_priority, faults)
        _check_part(value, "trigger", _name_faults_of_trigger, faults)
        _check_part(value, "after", _optional(After), faults)
        _check_part(value, "condition", _optional(Condition), faults)
        if not isinstance(value.get("params", {}), dict | InvalidValue):
            faults.add("params", "must be an object")
    if value is not None or not faults.total():
        name_faults(value, ScheduleSpec, "", faults)
    faults.refuse("the schedule has")
    return msgspec.json.decode(_exchange_priority(text, lambda said: Priority[str(said)].value), type=ScheduleSpec)


def encode_schedule(spec: str) -> bytes:
    """Convert a stored definition to the form that clients receive."""
    return _exchange_priority(spec.encode(), lambda stored: Priority(int(str(stored))).name)


def _exchange_priority(text: bytes, exchange: Callable[[object], int | str]) -> bytes:
    """Replace the priority by its other form, if there is one; the rest stays untouched."""
    fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    if "priority" in fields:
        other = exchange(msgspec.json.decode(fields["priority"]))
        fields["priority"] = msgspec.Raw(msgspec.json.encode(other))
    return msgspec.json.encode(fields)


def _read(text: bytes, faults: Faults) -> Read:
    """Parse the JSON text; None if there is no value."""
    if len(text) > MAX_TEXT_BYTES:
        faults.add("", f"{len(text)} bytes exceed the limit of {MAX_TEXT_BYTES}")
        return None
    try:
        value, found = Reader().read(text.decode(), "")
    except UnicodeDecodeError as error:
        faults.add("", f"is not UTF-8 (byte {error.start})")
        return None
    faults.extend(found)
    return value


def _check_part(
    whole: dict[str, Read], name: str, name_its_faults: Callable[[Read, str, Faults], object], faults: Faults
) -> None:
    """Report the faults of one part, and mark it as reported."""
    if name in whole and not isinstance(whole[name], InvalidValue):
        name_its_faults(whole[name], name, faults)
        whole[name] = _NAMED


def _name_fault_of_priority(value: Read, where: str, faults: Faults) -> None:
    if not isinstance(value, str) or value not in Priority.__members__:
        faults.add(where, f"must be one of {', '.join(Priority.__members__)}")


def _name_faults_of_trigger(value: Read, where: str, faults: Faults) -> None:
    """The kind of a trigger determines its fields."""
    if not isinstance(value, dict):
        name_faults(value, EventTrigger, where, faults)
        return
    kind = value.get(_KIND)
    if not isinstance(kind, str) or kind not in _TRIGGERS:
        faults.add(f"{where}.{_KIND}", f"must be one of {', '.join(_TRIGGERS)}")
        return
    fields = {name: part for name, part in value.items() if name != _KIND}
    if _TRIGGERS[kind] is EventTrigger:
        _check_part(
            fields, "expected", lambda part, _, __: _optional(Expected)(part, f"{where}.expected", faults), faults
        )
    name_faults(fields, _TRIGGERS[kind], where, faults)


def _optional(kind: type[msgspec.Struct]) -> Callable[[Read, str, Faults], None]:
    def name_its_faults(value: Read, where: str, faults: Faults) -> None:
        if value is not None:
            name_faults(value, kind, where, faults)

    return name_its_faults
