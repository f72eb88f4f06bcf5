"""Artifact paths and fetch patterns (WRK-11)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.admission.validate_job import Limits
from mainspring.core.admission.validate_submission import decode_job
from mainspring.core.model.artifacts import (
    ArtifactRow,
    fault_in_fetch,
    fault_in_path,
    is_expired,
    is_fetched,
    storage_key,
)
from mainspring.protocol.errors import Refused

NOW = datetime(2026, 11, 16, tzinfo=UTC)


@pytest.mark.parametrize("path", ["a", "a.csv", "by day/ü.csv", "100%.txt", ".hidden", "...", "a/b/c", "x" * 255])
def test_valid_paths(path: str) -> None:
    assert fault_in_path(path) is None


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/etc/passwd", "a/", "a//b", ".", "..", "a/../b", "../a", "a\\b", "a#1", "a\nb", "a\0", "\x7f"),
        *("\ud800", "x" * 256, "ü" * 128, "x/" * 256 + "x", "ü/" * 300 + "x"),
    ],
)
def test_invalid_paths(path: str) -> None:
    assert fault_in_path(path) is not None


@given(st.text())
def test_no_valid_path_leads_out_of_its_key(path: str) -> None:
    if fault_in_path(path) is None:
        parts = storage_key("acme", "run_1", "task_1", "att_1", path).split("/")
        assert parts[:4] == ["acme", "run_1", "task_1", "att_1"]
        assert not {"", ".", ".."} & set(parts)
        assert len("/".join(parts).encode()) <= 1024


@pytest.mark.parametrize(
    ("fetch", "path", "is_wanted"),
    [
        ("extract", "any/thing", True),
        ("extract/*.csv", "a.csv", True),
        ("extract/*.csv", "more/a.csv", False),
        ("extract/**/*.csv", "a.csv", True),
        ("extract/**/*.csv", "more/and/a.csv", True),
        ("extract/**", "more/a.txt", True),
        ("extract/more", "more/a.txt", False),
        ("extract/a?.csv", "ab.csv", True),
        ("extract/a?.csv", "a/.csv", False),
        ("extract/a.csv", "axcsv", False),
        ("extract/[a].csv", "a.csv", False),
        ("extract/[a].csv", "[a].csv", True),
        ("other/*", "a.csv", False),
    ],
)
def test_pattern_matching(fetch: str, path: str, is_wanted: bool) -> None:
    assert is_fetched([fetch], "extract", path) is is_wanted


@pytest.mark.parametrize("text", ["", "/a", "extract/", "extract/../a", "*/a", "a?b", "x" * 201])
def test_invalid_patterns(text: str) -> None:
    assert fault_in_fetch(text) is not None


def test_an_artifact_expires_after_the_end_of_its_run() -> None:
    row = ArtifactRow(
        run_id="run_1", task_id="task_1", attempt_id="att_1", path="a", task="t", partition=None, tenant="acme",
        size_bytes=1, sha256="", location="", keep_seconds=60, succeeded=True, stored_at=NOW,
    )  # fmt: skip
    minute = timedelta(seconds=60)

    assert not is_expired(row, None, NOW + 100 * minute)
    assert not is_expired(row, NOW, NOW + minute - timedelta(microseconds=1))
    assert is_expired(row, NOW, NOW + minute)


def faults(*tasks: dict[str, object]) -> dict[str, str]:
    """Return the faults of a job of these tasks."""
    try:
        decode_job(json.dumps({"name": "files", "tasks": tasks}).encode(), Limits())
    except Refused as refused:
        return {fault.where: fault.why for fault in refused.faults}
    return {}


def a_task(name: str, *needs: str, fetch: list[str] | None = None, **work: object) -> dict[str, object]:
    """A task, after others."""
    kind = work or {"shell": "true"}
    return {
        "name": name,
        "needs": [{"task": need} for need in needs],
        "work": {**kind, **({"fetch": fetch} if fetch is not None else {})},
    }


def test_a_task_may_fetch_from_direct_and_indirect_upstream_tasks() -> None:
    first, second = a_task("extract"), a_task("clean", "extract")

    assert faults(first, second, a_task("load", "clean", fetch=["extract/*.csv", "clean"])) == {}


def test_a_task_may_not_fetch_from_other_tasks() -> None:
    found = faults(
        a_task("extract"), a_task("beside"), a_task("load", "extract", fetch=["beside", "extarct/a", "load"])
    )

    assert list(found) == [f"tasks[2].work.fetch[{number}]" for number in range(3)]
    assert "did you mean" in found["tasks[2].work.fetch[1]"]


def test_fetch_is_validated_and_only_allowed_on_the_workers_machine() -> None:
    load = a_task("load", "extract", fetch=["extract/../x"])
    call = a_task("call", "extract", fetch=["extract"], http={"url": "https://example.org"})
    many = a_task("many", "extract", fetch=["extract"] * 101)
    found = faults(a_task("extract"), load, call, many)

    assert set(found) == {"tasks[1].work.fetch[0]", "tasks[2].work.fetch", "tasks[3].work.fetch"}
