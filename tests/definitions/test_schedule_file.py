"""Schedule files: conversion to the strict form, and errors with lines."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.definitions.schedule_file import read_schedule
from mainspring.protocol.errors import Fault, InvalidFile, Refused

START = "name: nightly\njob: etl\n"


def strict(text: str) -> dict[str, object]:
    """The strict form of a file, without its name and job."""
    body: dict[str, object] = msgspec.json.decode(read_schedule(START + text, "s.yaml").body)
    return {key: value for key, value in body.items() if key not in {"name", "job"}}


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ('cron: "0 5 * * *"\n', {"kind": "cron", "cron": "0 5 * * *"}),
        ("every: 15m\nanchor: 2026-01-01T00:05:00Z\n",
         {"kind": "interval", "every_seconds": 900, "anchor_at": "2026-01-01T00:05:00Z"}),
        ("at: 2036-12-01T05:00:00+01:00\n", {"kind": "once", "at": "2036-12-01T05:00:00+01:00"}),
        ("event: a.b\nfilter: event.data.x > 1\nexpected: {cron: 0 6 * * *, buffer: 10m}\n",
         {"kind": "event", "type": "a.b", "filter": "event.data.x > 1",
          "expected": {"cron": "0 6 * * *", "buffer_seconds": 600.0}}),
        ("manual: true\n", {"kind": "manual"}),
        ("trigger: {kind: manual}\n", {"kind": "manual"}),
    ],
)  # fmt: skip
def test_each_kind_of_trigger(text: str, trigger: dict[str, object]) -> None:
    assert strict(text) == {"trigger": trigger}


def test_every_field_has_its_target() -> None:
    text = """\
manual: true
params: {region: eu, rows: 5}
priority: p0
enabled: false
missed: skip
catch_up: 2
max_delay: 1h
jitter: 30s
overlap: cancel_running
max_active: 3
after: {job: load, within: 2h}
condition: params.rows > 3
max_failures: never
"""
    assert strict(text) == {
        "trigger": {"kind": "manual"},
        "params": {"region": "eu", "rows": 5},
        "priority": "P0",
        "enabled": False,
        "missed": "skip",
        "max_catch_up_windows": 2,
        "max_delay_seconds": 3600.0,
        "jitter_seconds": 30,
        "overlap": "cancel_running",
        "max_active": 3,
        "after": {"job": "load", "within_seconds": 7200.0},
        "condition": {"expression": "params.rows > 3"},
        "max_consecutive_failures": None,
    }


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ('cron: "61 5 * * *"\n', "3:1", "minute: 61 is not from 0 to 59"),
        ('cron: "0 0 30 2 *"\n', "3:1", "never matches"),
        ('cron: "0 5 * * *"\ntimezone: Europe/Pariss\n', "4:1", "did you mean Europe/Paris?"),
        ("cron: * * * * *\n", "3:8", "quote a string that begins with"),
        ("every: 15m\nat: 2036-01-01T00:00:00Z\n", "4:1", "`at` and `every` can't be combined"),
        ("every: 15m\ntimezone: Europe/Paris\n", "4:1", "`timezone` requires `cron`, not `every`"),
        ("every: 1.5s\n", "3:8", "must be a whole number of seconds"),
        ("every: soon\n", "3:8", "must be a duration"),
        ("at: 2036-01-01T00:00:00\n", "3:1", "must have a time zone"),
        ("params: {}\n", "1:1", "a schedule needs a trigger"),
        ("manual: true\nmax_activ: 2\n", "4:1", "did you mean `max_active`?"),
        ("manual: true\noverlap: wait\n", "4:10", "must be one of queue, skip, cancel_running"),
        ("manual: true\nafter: {job: load, within: 0}\n", "4:20", "must be from more than 0"),
        ("manual: true\npriority: P7\n", "4:11", "must be one of P0, P1, P2"),
    ],
)
def test_an_error_has_its_line(text: str, place: str, why: str) -> None:
    with pytest.raises(InvalidFile) as raised:
        read_schedule(START + text, "s.yaml")

    assert f"s.yaml:{place}:" in str(raised.value)
    assert why in str(raised.value)


@pytest.mark.parametrize("text", ["", "- a\n", "5\n", "{", "name: x\n---\nname: y\n"])
def test_a_file_without_a_schedule_is_refused(text: str) -> None:
    with pytest.raises(InvalidFile):
        read_schedule(text, "s.yaml")


def test_faults_of_the_server_are_mapped_to_lines() -> None:
    file = read_schedule(START + "manual: true\nafter: {job: load, within: 2h}\n", "s.yaml")

    error = file.locate_faults(
        Refused("no", [
            Fault(where="/definition/job", why="there is no job 'etl'"),
            Fault(where="/definition/after/within_seconds", why="is too long"),
        ]),
    )  # fmt: skip

    assert [fault.where for fault in error.faults] == ["s.yaml:2:1", "s.yaml:4:20"]
