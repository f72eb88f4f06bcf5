"""Write the help of every command and what commands print about the demo: `python -m tools.show_commands [FILE]`.

The demo runs on loopback. When its scenes have ended, each call below is made in this process, and its output is
written to one text file, to be read from top to bottom. The first calls change something and prepare the others.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import rich_click as click
from click.testing import CliRunner

from mainspring.cli.commands.local.commands import walk
from mainspring.cli.main import main
from mainspring.client.client import Client
from mainspring.demo.checks import Check
from mainspring.demo.console_lines import Line
from mainspring.demo.runner import DemoSettings, DemoStarted, play

DEFAULT_FILE = Path(tempfile.gettempdir()) / "mainspring-commands.txt"
_SPEED = 10.0
_LASTS_SECONDS = 1_800.0
_WIDTH = 120
_MAX_LINES = 60
"""Longer outputs are cut."""
_IN_MAIN_THREAD = "smoke "
"""A command that handles signals, which only the main thread of a process can."""

CALLS = """\
tenants describe acme --title "Acme Inc." --contact ops@acme.example
tenants grant-p0 acme --for 4h --why "an incident"
tenants revoke-p0 media
quota set acme --cpu 4 --memory 4Gi --burst-cpu 4 --weight 2
quota raise acme --for 4h --burst-cpu 16 --why "end of the month"
quota book media nightly --cron "0 2 * * *" --for 2h --lead 10m --cpu 6
quota end-raise media
groups set warehouse --most 3 --note "the warehouse allows 3 connections"
groups set geocoder --most 100 --per 1m
pools set gpu --label region=eu --zone eu-1 --max-cpu 16 --note "for training"
policies set eu-data --label eu_data --require region=eu --note "by contract"
freeze job default/heartbeat --for 2h --why "the warehouse moves"
freeze tenant media --why "an audit"
settings set retries_per_second 500 --why "the disk is slow"
webhooks add http://127.0.0.1:9/hook --event run.failed --job invoices
events send orders.ready --data '{"rows": 5}'
token create ci --role submitter --expires 30d
join-token create rack-7 --pool gpu --uses 20
cordon w-02 --why "disk is slow"
drain w-05 --why "new kernel"
submit {folder}/etl.yaml -p day=2026-11-15 --wait
schedules set {folder}/nightly.yaml
schedules set {folder}/manual.yaml
pause report-nightly --why "warehouse move"
submit {folder}/etl.yaml --count 3
submit {folder}/needs-gpu.yaml --finish-by 4h
trigger report-manual --why "asked for"
promote @latest --priority P1
backfill report-nightly --from 2026-11-01 --to 2026-11-04 --dry-run
retry --filter 'job:invoices' --dry-run
deploy {folder}/pipelines --dry-run --at /srv/pipelines
jobs
jobs -o wide
jobs versions etl
history etl --days 3
durations etl
runs --limit 12
runs -o wide --limit 5
runs --limit 2 -o yaml
tasks --limit 12
tasks -o wide --limit 5
tasks @latest
artifacts {run}
queue
queue -t acme
show {run}
show {run}/extract
show {failed}
show {waiting}
show w-01
show w-03
show etl
show report-nightly
graph {run}
logs {run}
logs {failed}
watch {run} --timeout 20s
why {waiting}
why {failed}
why {run}
why etl
why report-nightly
why heartbeat
why --queue
why {waiting} --with 'worker 8'
why {waiting} --markdown
why {waiting} --check
decisions --limit 12
decisions --kind preempts -o wide
dead-letters
dead-letters -o wide
schedules
schedules -o wide
schedules show heartbeat
schedules fires heartbeat --limit 8
schedules fires heartbeat -o wide --limit 3
schedules history report-nightly
next
next --all --until 36h --limit 5
upcoming
events
events -o wide
alerts --all
workers
workers -o wide
workers identities
tenants
tenants -o wide
tenants show acme
quota
quota -o wide
quota show acme
quota show media
groups
groups -o wide
pools
pools -o wide
policies
policies -o wide
freezes
settings
settings -o wide
webhooks
webhooks -o wide
webhooks show {hook}
webhooks test {hook}
webhooks deliveries {hook}
webhooks deliveries {hook} -o wide
token
token -o wide
join-token
join-token -o wide
audit --limit 12
audit -o wide --limit 3
audit heads
audit verify
doctor
smoke --tasks 6 --timeout 1m
top
openapi
example
example cron
schema pipeline
init {folder}/begun
validate {folder}/begun
validate {folder}/pipelines
plan {folder}/pipelines
run {folder}/etl.yaml -p day=2026-11-15
import crontab {folder}/crontab --dry-run
simulate --list
simulate midnight --scale 0.002 --no-timing
config path
config show --origin
context add demo --server {address}
context ls
context show
ca init {folder}/ca
ca cert {folder}/ca 127.0.0.1
version
version -o yaml
commands -o wide
completion bash
runs --columns nothing
show run_missing
runs --server http://127.0.0.1:1
"""

_FILES = {
    "etl.yaml": """\
name: etl
labels: {team: data}
params:
  day: {type: text, default: yesterday}
tasks:
  - {id: extract, shell: "echo 'read 5 rows'"}
  - {id: clean, run: "true", needs: [extract]}
  - {id: load, run: "true", needs: [clean]}
  - {id: report, run: "true", needs: [clean]}
""",
    "needs-gpu.yaml": """\
name: train
tasks:
  - {id: train, run: "true", labels: {gpu: h100}}
""",
    "nightly.yaml": "name: report-nightly\njob: etl\ncron: 30 5 * * *\ntimezone: Europe/Paris\n",
    "manual.yaml": "name: report-manual\njob: etl\nmanual: true\n",
    "pipelines/daily/pipeline.yaml": """\
name: daily
schedule: {cron: "0 6 * * *", timezone: Europe/Paris}
tasks:
  - {id: only, run: "true"}
""",
    "pipelines/broken/pipeline.yaml": "name: broken\ntasks:\n  - {id: only, runs: 'true'}\n",
    "crontab": "0 5 * * * true\n@reboot echo started\n61 5 * * * true\n",
}


class _Observer:
    """Calls the commands once the scenes of the demo have ended, then ends the demo."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._address = ""
        self._thread = threading.Thread(target=self._run, args=(write,))

    def on_start(self, started: DemoStarted) -> None:
        self._address = started.address

    def on_line(self, line: Line, at_seconds: float) -> None:
        """Ignore the lines of the demo."""

    def on_check(self, check: Check) -> None:
        """Ignore the checks of the demo."""

    def on_scenes_finished(self) -> None:
        self._thread.start()

    def _run(self, write: Callable[[str], object]) -> None:
        try:
            for text in outputs(self._address):
                write(text)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)


def helps() -> Iterator[str]:
    """Yield the help of every command."""
    for path in ["", *(path for path, _ in walk(click.Context(main)))]:
        yield _called(f"{path} --help".strip())


def outputs(address: str) -> Iterator[str]:
    """Make the calls and yield what they print."""
    with tempfile.TemporaryDirectory(prefix="mainspring-show-") as name, chdir(name):
        folder = Path(name)
        os.environ |= {
            "MAINSPRING_SERVER_URL": address,
            "MAINSPRING_HOME": str(folder / "home"),
            "COLUMNS": str(_WIDTH),
        }
        for file, text in _FILES.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        known = {"folder": name, "address": address}
        for call in CALLS.splitlines():
            known |= _things(address)
            for word, thing in known.items():
                call = call.replace(f"{{{word}}}", thing)  # noqa: PLW2901 - the call with its arguments
            yield _called(call)


def _things(address: str) -> dict[str, str]:
    """Return the ids that calls name."""
    with Client(address) as client:
        return {
            "run": next((run.id for run in client.runs(job="etl", states=["SUCCEEDED"], limit=1)), "@latest"),
            "failed": next(task.id for task in client.tasks(states=["FAILED"], limit=1)),
            "waiting": next((task.id for task in client.tasks(states=["QUEUED"], limit=1)), "@latest"),
            "hook": next((hook.id for hook in client.webhooks(limit=1)), "hook_none"),
        }


def _called(line: str) -> str:
    """Call a command and return the command line with all that it prints."""
    if line.startswith(_IN_MAIN_THREAD) and "--help" not in line:
        command = [sys.executable, "-m", "mainspring.cli.main", *shlex.split(line)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return f"$ mainspring {line}\n{done.stdout}{done.stderr}\n"
    result = CliRunner().invoke(main, shlex.split(line), prog_name="mainspring")
    lines = result.output.rstrip().splitlines()
    if len(lines) > _MAX_LINES and "--help" not in line:
        lines = [*lines[:_MAX_LINES], f".. {len(lines) - _MAX_LINES} more lines"]
    failed = f"[exit {result.exit_code}]" if result.exit_code else ""
    crashed = f"[{result.exception!r}]" if result.exception and not isinstance(result.exception, SystemExit) else ""
    return "\n".join([f"$ mainspring {line}", *lines, *filter(None, (failed, crashed))]) + "\n\n"


def show(file: Path) -> None:
    """Write the file."""
    os.environ |= {"COLUMNS": str(_WIDTH), "NO_COLOR": "1"}
    with file.open("w", encoding="utf-8", buffering=1) as out:
        out.writelines(helps())
        play(DemoSettings(port=0, speed=_SPEED, seconds=_LASTS_SECONDS), _Observer(out.write))


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE
    show(target)
    sys.stdout.write(f"{target}\n")
