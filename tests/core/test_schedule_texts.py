"""Schedules as JSON: decoded strictly, with every fault, and encoded as submitted."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model.task import Priority
from mainspring.core.schedules.schedule_json import MAX_TEXT_BYTES, decode_schedule, encode_schedule
from mainspring.core.schedules.schedule_spec import After, Overlap, ScheduleSpec
from mainspring.core.schedules.triggers import (
    CronTrigger,
    EventTrigger,
    Expected,
    IntervalTrigger,
    ManualTrigger,
    Trigger,
)
from mainspring.protocol.errors import Refused

TRIGGERS: list[Trigger] = [
    CronTrigger(cron="0 5 * * *", timezone="Europe/Paris"),
    IntervalTrigger(every_seconds=60),
    EventTrigger(type="a.b", filter="event.data.x", expected=Expected(cron="0 6 * * *", buffer_seconds=60.0)),
    ManualTrigger(),
]


def faults(text: bytes) -> list[str]:
    """Where a text has faults."""
    with pytest.raises(Refused) as refused:
        decode_schedule(text)
    return [fault.where for fault in refused.value.faults]


@given(st.sampled_from(TRIGGERS), st.sampled_from(Priority), st.sampled_from(Overlap), st.integers(1, 9), st.booleans())
def test_what_is_shown_can_be_taken_again(
    trigger: Trigger, priority: Priority, overlap: Overlap, max_active: int, waits: bool
) -> None:
    spec = ScheduleSpec(
        name="a", job="b", trigger=trigger, priority=priority, overlap=overlap, max_active=max_active,
        after=After(job="c", within_seconds=60.0) if waits else None,
    )  # fmt: skip

    again = decode_schedule(encode_schedule(msgspec.json.encode(spec).decode()))

    assert msgspec.json.encode(again) == msgspec.json.encode(spec)


def test_parameters_stay_as_they_were_written() -> None:
    text = b'{"name":"a","job":"b","trigger":{"kind":"manual"},"params":{"x": 1.50, "y": 1e3}}'

    assert bytes(decode_schedule(text).params) == b'{"x": 1.50, "y": 1e3}'


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (b"", ["body"]),
        (b"[]", ["body"]),
        (b"null", ["body"]),
        (b"\xff", ["body"]),
        (b"{}", ["name", "job", "trigger"]),
        (b'{"name":"a","job":"b","trigger":[]}', ["trigger"]),
        (b'{"name":"a","job":"b","trigger":{"kind":"crom"}}', ["trigger.kind"]),
        (b'{"name":"a","job":"b","trigger":{"kind":"cron","crn":"x"}}', ["trigger.crn", "trigger.cron"]),
        (
            b'{"name":"a","job":"b","trigger":{"kind":"event","type":"x","expected":{"cron":1}}}',
            ["trigger.expected.cron"],
        ),
        (b'{"name":"a","job":"b","trigger":{"kind":"manual"},"after":{"jb":1}}', ["after.jb", "after.job"]),
        (b'{"name":"a\\u0000","job":"b","trigger":{"kind":"manual"}}', ["name"]),
        (b'{"name":"a","name":"b","job":"b","trigger":{"kind":"manual"}}', ["body"]),
        (b'"' + b"x" * MAX_TEXT_BYTES + b'"', ["body"]),
    ],
)
def test_every_fault_has_its_path(text: bytes, where: list[str]) -> None:
    assert faults(text) == where
