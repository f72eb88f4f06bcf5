"""A folder of many pipelines: start time, restart time, latency of an edit, and idle cost.

A real `mainspring up` on a real folder; nothing is due meanwhile. Targets with 1,000 pipelines: start in 5 s, an edit
applied within 1 s, next to no CPU while idle.

    python -m benchmarks.folder --pipelines 1000 -o json
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.measure import Figures, run_benchmark
from tests.e2e.cluster import until
from tests.e2e.folders import Folder, a_folder

EDITS = 5
IDLE_SECONDS = 10.0
_PIPELINE = """name: "Pipeline {number}"
schedule:
  cron: "0 {hour} 1 1 *"
  timezone: Europe/Paris
tasks:
  - {{id: first, run: "true"}}
  - {{id: second, needs: [first], run: "true"}}
"""


def main(pipelines: int) -> Figures:
    """Measure one folder."""
    with (
        tempfile.TemporaryDirectory(prefix="mainspring-folder-") as place,
        a_folder(Path(place) / "pipelines") as folder,
    ):
        for number in range(pipelines):
            folder.write(f"p{number:05d}", _PIPELINE.format(number=number, hour=9))
        first = _start(folder)
        edits = [_edit(folder, f"p{number:05d}", hour=10 + number) for number in range(EDITS)]
        idle, memory = _idle(folder)
        folder.stop()
        again = _start(folder)
        folder.stop()
    return {
        "pipelines": pipelines,
        "first_start_s": first,
        "second_start_s": again,
        "edit_seen_s_max": max(edits),
        "edit_seen_s": edits,
        "idle_cpu_percent": idle,
        "memory_mib": memory,
    }


def _start(folder: Folder) -> float:
    """Seconds from the command to readiness, including the start of Python."""
    began = time.perf_counter()
    folder.up()
    return time.perf_counter() - began


def _edit(folder: Folder, name: str, hour: int) -> float:
    """Seconds from saving a file to its new time in the state file."""
    before = folder.state(name)["nextRun"]
    began = time.perf_counter()
    folder.write(name, _PIPELINE.format(number=0, hour=hour))
    until(lambda: folder.state(name)["nextRun"] != before, "the edit is seen")
    return time.perf_counter() - began


def _idle(folder: Folder) -> tuple[float, float]:
    """The share of one core used while idle by all processes, and their memory."""
    assert folder.process is not None
    root = psutil.Process(folder.process.pid)
    processes = [root, *root.children(recursive=True)]
    before = sum(sum(one.cpu_times()[:2]) for one in processes)
    time.sleep(IDLE_SECONDS)
    after = sum(sum(one.cpu_times()[:2]) for one in processes)
    return 100 * (after - before) / IDLE_SECONDS, sum(one.memory_info().rss for one in processes) / 2**20


if __name__ == "__main__":
    run_benchmark(__doc__, main, pipelines=1_000)
