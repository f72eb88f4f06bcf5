"""Checks across pipelines; and the local time zone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.definitions.local_time_zone import system_zone
from mainspring.definitions.pipeline_checks import after_cycles, unknown_afters
from mainspring.definitions.pipeline_file import Pipeline, read_pipeline
from mainspring.protocol.errors import Fault


def pipelines(**after: str) -> list[Pipeline]:
    """Pipelines, each with its `after`."""
    return [
        read_pipeline(
            f"schedule:\n  every: 1h\n  after: {other}\ntasks: [{{id: a, run: x}}]\n".replace("  after: \n", ""),
            f"{name}.yaml",
            local_zone="UTC",
        )
        for name, other in after.items()
    ]


def test_a_chain_is_not_a_cycle() -> None:
    assert after_cycles(pipelines(a="b", b="c", c="", d="b")) == []


def test_every_pipeline_of_a_cycle_is_reported_with_its_line() -> None:
    found = after_cycles(pipelines(a="b", b="c", c="b", d="a", e="elsewhere"))

    assert [(pipeline.file, issue.place.line + 1, issue.why) for pipeline, issue in found] == [
        ("b.yaml", 3, "`after` forms a cycle: b waits for c, c waits for b"),
        ("c.yaml", 3, "`after` forms a cycle: c waits for b, b waits for c"),
    ]


def test_a_long_chain_is_visited_once() -> None:
    names = [f"p{number}" for number in range(300)]
    chain = pipelines(**dict(zip(names, [*names[1:], names[0]], strict=True)))

    assert len(after_cycles(chain)) == 300
    assert after_cycles(chain[:-1]) == []


def test_two_schedules_of_a_file_may_have_different_upstreams() -> None:
    text = "on: {{schedule: {{every: 1h, after: {}}}, event: {{type: x, after: {}}}}}\ntasks: [{{id: a, run: x}}]\n"
    both = [
        read_pipeline(text.format("b", "c"), "a.yaml", local_zone="UTC"),
        read_pipeline(text.format("x", "a"), "c.yaml", local_zone="UTC"),
    ]

    assert [issue.why for _, issue in after_cycles(both)] == [
        "`after` forms a cycle: a waits for c, c waits for a",
        "`after` forms a cycle: c waits for a, a waits for c",
    ]


def test_an_unknown_pipeline_is_reported_with_a_suggestion() -> None:
    found = unknown_afters(pipelines(report="data-ftch"), {"data-fetch", "report"})

    why = "waits for `data-ftch`, which is not in this folder, did you mean `data-fetch`?"
    assert found == [Fault(where="report.yaml:3:3", why=why)]


def test_a_pipeline_is_not_suggested_to_wait_for_itself() -> None:
    found = unknown_afters(pipelines(report="reports"), {"report"})

    assert [fault.why for fault in found] == ["waits for `reports`, which is not in this folder"]


@pytest.mark.parametrize(
    ("variable", "link", "file", "zone"),
    [
        ("Asia/Tokyo", "Europe/Paris", "Europe/Rome", "Asia/Tokyo"),
        (":/usr/share/zoneinfo/Asia/Tokyo", None, None, "Asia/Tokyo"),
        ("CET-1CEST", "Europe/Paris", None, "Europe/Paris"),
        ("", "Europe/Paris", "Europe/Rome", "Europe/Paris"),
        ("", None, "Europe/Rome\n", "Europe/Rome"),
        ("", "nonsense", "nonsense", "UTC"),
        ("", None, None, "UTC"),
    ],
)
def test_time_zone_of_the_machine(
    variable: str, link: str | None, file: str | None, zone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", variable)
    etc = tmp_path / "etc"
    etc.mkdir()
    if link is not None:
        (etc / "localtime").symlink_to(f"/usr/share/zoneinfo/{link}")
    if file is not None:
        (etc / "timezone").write_text(file)

    assert system_zone(tmp_path) == zone
