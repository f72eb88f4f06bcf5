"""Expired artifacts are removed, and those that a run may still need never are (WRK-11)."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from mainspring.protocol.clock import SystemClock
from mainspring.protocol.wire import RunEnds, RunEndsRequest
from mainspring.worker.artifacts import retention
from mainspring.worker.artifacts.artifact_store import ArtifactStore
from mainspring.worker.artifacts.retention import ArtifactSweep

DAY = 86_400


def put(root: Path, run: str, *, days: float, name: str = "a.csv") -> Path:
    """Create a file that was stored this many days ago."""
    path = root / "acme" / run / f"task_{run[4:]}.0" / "att_1" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(run)
    at = (SystemClock().wall() - timedelta(days=days)).timestamp()
    os.utime(path, (at, at))
    return path


def sweep_of(root: Path, ends: dict[str, float | None], asked: list[str]) -> ArtifactSweep:
    """A sweep with a retention of 30 days, whose server knows these runs."""

    def ask(question: RunEndsRequest) -> None:
        asked.extend(question.runs)
        sweep.take(RunEnds({run: ends[run] for run in question.runs if run in ends}))

    sweep = ArtifactSweep(ArtifactStore(f"file://{root}"), 30 * DAY, SystemClock(), Random(1), ask)
    return sweep


async def test_artifacts_are_removed_when_their_retention_is_over(tmp_path: Path) -> None:
    young = put(tmp_path, "run_young", days=29)
    going_on = put(tmp_path, "run_going_on", days=400)
    just_over = put(tmp_path, "run_just_over", days=400)
    over = [put(tmp_path, "run_over", days=31, name=name) for name in ("a", "b/c d")]
    forgotten = put(tmp_path, "run_forgotten", days=31)
    foreign = tmp_path / "acme" / "not-ours.txt"
    foreign.write_text("theirs")
    os.utime(foreign, (1, 1))
    asked: list[str] = []
    ends = {"run_going_on": None, "run_just_over": 29.0 * DAY, "run_over": 31.0 * DAY}

    removed = await sweep_of(tmp_path, ends, asked).sweep()

    assert removed == 3
    assert sorted(asked) == ["run_forgotten", "run_going_on", "run_just_over", "run_over"]
    assert [path.exists() for path in (young, going_on, just_over, foreign)] == [True] * 4
    assert [path.exists() for path in (*over, forgotten)] == [False] * 3


async def test_without_an_answer_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, "run_over", days=31)
    monkeypatch.setattr(retention, "ANSWER_TIMEOUT_SECONDS", 0.01)
    silent = ArtifactSweep(ArtifactStore(f"file://{tmp_path}"), 30 * DAY, SystemClock(), Random(1), lambda _: None)

    with pytest.raises(TimeoutError):
        await silent.sweep()

    assert path.exists()


async def test_a_missing_storage_has_nothing_to_remove(tmp_path: Path) -> None:
    assert await sweep_of(tmp_path / "never", {}, []).sweep() == 0


async def test_without_a_retention_nothing_is_swept(tmp_path: Path) -> None:
    path = put(tmp_path, "run_over", days=400)
    keeps = ArtifactSweep(ArtifactStore(f"file://{tmp_path}"), 0, SystemClock(), Random(1), lambda _: None)

    async with asyncio.timeout(5):
        await keeps.run()

    assert path.exists()
