"""The same no-op work on other systems and on ours, in one run on this machine.

    python -m benchmarks.peers
    python -m benchmarks.peers --only pgqueuer mainspring --scale 0.1 -o json

The systems are installed into separate environments, started, measured and stopped sequentially. The method is
described in docs/explanation/how-it-compares.md. Environments are kept, so the first run takes longer.

Results go to stdout, and as peers.json, peers.md and peers.svg to the directory of --out; progress goes to stderr. The
exit code is 1 if a required system could not be measured.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec

from benchmarks.peers.drawing import svg
from benchmarks.peers.environments import default_folder, environment_of
from benchmarks.peers.field import FIELD, chosen
from benchmarks.peers.figures import Report, Row
from benchmarks.peers.machine import this_machine
from benchmarks.peers.measuring import measure
from benchmarks.peers.peer import Peer
from benchmarks.peers.processes import SystemFailure, kill_leftovers
from benchmarks.peers.table import markdown, plain
from mainspring.worker.sandbox.prctl import become_subreaper

MAX_SECONDS = 3_300.0
"""No system is started after this time, so that a run takes at most an hour."""


def main() -> int:
    """Measure the selected systems, write the report, and return whether all required ones succeeded."""
    options = _options()
    signal.signal(signal.SIGTERM, _as_an_exit)
    become_subreaper()
    try:
        report = run(chosen(options.only, options.skip), options.scale, options.keep_environments)
    except KeyboardInterrupt:
        _say("broken off")
        return 130
    finally:
        kill_leftovers()
    _write(report, options.out)
    if options.output == "json":
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        print(markdown(report) if options.output == "markdown" else plain(report), end="")
    for name, why in report.failed.items():
        _say(f"FAILED: {name} may not be left out, and could not be measured: {why}")
    return 1 if report.failed else 0


def run(peers: list[Peer], scale: float, environments: Path) -> Report:
    """Measure these sequentially."""
    began, began_at = time.monotonic(), datetime.now(UTC)
    rows: list[Row] = []
    skipped = {peer.name: "it was not asked for" for peer in FIELD if peer not in peers}
    failed: dict[str, str] = {}
    for peer in peers:
        why = failed if peer.required else skipped
        if time.monotonic() - began > MAX_SECONDS:
            why[peer.name] = "there was no time left"
            continue
        try:
            for row in _rows(peer, scale, environments):
                rows.append(row)
                if row.failures and peer.required:
                    failed[peer.name] = "; ".join(row.failures)
        except (SystemFailure, OSError, RuntimeError, subprocess.SubprocessError) as failure:
            why[peer.name] = str(failure)
            _say(f"{peer.name} could not be measured: {failure}")
    return Report(
        began_at=began_at.strftime("%Y-%m-%d %H:%M UTC"),
        seconds=round(time.monotonic() - began, 1),
        scale=scale,
        machine=this_machine(),
        rows=rows,
        skipped=skipped,
        failed=failed,
    )


def _rows(peer: Peer, scale: float, environments: Path) -> list[Row]:
    _say(f"{peer.title}: looking for its environment")
    environment = environment_of(peer, environments)
    found, failures = [], []
    for variant in peer.variants:
        began = time.monotonic()
        _say(f"{variant.name}: starting")
        try:
            found.append(measure(peer, variant, environment, scale, _say))
        except SystemFailure as failure:
            failures.append(f"{variant.name}: {failure}")
        _say(f"{variant.name}: over after {time.monotonic() - began:.0f} s")
    if failures and (peer.required or not found):
        raise SystemFailure("; ".join(failures))
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", choices=("json", "table", "markdown"), default="table")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="measure only these")
    parser.add_argument("--skip", nargs="+", default=[], metavar="NAME", help="leave these out, if they may be")
    parser.add_argument("--scale", type=float, default=1.0, metavar="FACTOR", help="more or less of everything")
    parser.add_argument(
        "--out", type=Path, default=None, metavar="DIR", help="where the files go; else none are written"
    )
    parser.add_argument("--keep-environments", type=Path, default=default_folder(), metavar="DIR",
                        help="where the environments are kept (default: %(default)s)")  # fmt: skip
    options = parser.parse_args()
    try:
        chosen(options.only, options.skip)
    except ValueError as error:
        parser.error(str(error))
    return options


def _write(report: Report, folder: Path | None) -> None:
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.json").write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    (folder / "peers.md").write_text(markdown(report))
    (folder / "peers.svg").write_text(svg(report, ours="mainspring"))


def _as_an_exit(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
