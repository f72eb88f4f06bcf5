"""Midnight at 50,000 workers: run by `make soak`, and in part by CI."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from mainspring.simulation.capacity.report import Report
from mainspring.simulation.capacity.scenario import scaled
from mainspring.simulation.capacity.scenario_file import find_scenario

SEED = 1
_OF_A_PART = 0.2
"""A partial soak scales the pool down: at 0.1 one pool of 1,000 workers, under half a minute."""


@pytest.mark.soak
def test_the_same_seed_gives_the_same_midnight_byte_for_byte(soak_scale: float) -> None:
    """In processes of their own, so that the order of sets is another."""
    scale = soak_scale if soak_scale >= 1 else soak_scale * _OF_A_PART
    first, second = (_play(scale, hash_seed) for hash_seed in ("1", "2"))

    assert first == second
    report = msgspec.json.decode(first, type=Report)
    assert (report.is_partial, report.timing) == (False, None)
    assert report.workers == scaled(find_scenario("midnight"), scale).workers.count
    assert report.placed > 1_000_000 * scale / 2
    assert report.preemptions > 0
    assert max(row.delays.p95_seconds for row in report.priorities) > 0.1  # there was a storm


def _play(scale: float, hash_seed: str) -> bytes:
    arguments = ["midnight", "--scale", str(scale), "--seed", str(SEED), "--no-timing", "-o", "json"]
    told = subprocess.run(
        [sys.executable, "-m", "mainspring.cli.main", "simulate", *arguments],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    assert told.returncode == 0, told.stderr.decode()
    return told.stdout
