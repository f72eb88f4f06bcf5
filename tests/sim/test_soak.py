"""Many seeds: run by `make soak`, and in part by CI."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SEEDS_OF_A_WHOLE_SOAK = 10_000
"""A hundredth of them keeps two cores busy for about two minutes."""
PARTS = 8
"""Number of parts, so that two test processes share the work and report progress."""


@pytest.mark.soak
@pytest.mark.processes
@pytest.mark.parametrize("part", range(PARTS))
def test_many_seeds_hold_every_invariant(part: int) -> None:
    """Each part of the seeds runs in a separate process: the order of sets depends on its hash seed."""
    scale = float(os.environ.get("SOAK_SCALE", "1"))
    seeds = max(1, round(SEEDS_OF_A_WHOLE_SOAK * scale / PARTS))
    arguments = ["--first", str(1 + part * seeds), "--seeds", str(seeds), "--processes", "1"]
    told = subprocess.run([sys.executable, "-m", "tests.sim", *arguments], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
