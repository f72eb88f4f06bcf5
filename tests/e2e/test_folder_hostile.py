"""`mainspring up` on a hostile folder: error messages, and leftovers after a kill."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mainspring.folder.state.records import LOCK_FILE, OWN_DIRECTORY
from tests.cli.terminal import Terminal
from tests.e2e.cluster import until
from tests.e2e.folders import COMMAND, a_folder

_ENDLESS = """
schedule: {cron: "0 9 1 1 *"}
input: {items: [{a: 1}, {a: 2}, {a: 3}]}
map: {prompt: "{{a}}", concurrency: 3}
invoker: {command: [sh, -c, "setsid sleep 999 & echo > began$$; sleep 999"]}
"""


def test_a_map_leaves_nothing_when_its_scheduler_is_killed(tmp_path: Path) -> None:
    with a_folder(tmp_path / "pipelines") as folder:
        place = folder.write("endless", _ENDLESS)
        folder.up()
        with folder.client() as client:
            client.trigger(folder.state("endless")["scheduleId"])
        until(lambda: len(list(place.glob("began*"))) == 3, "three are asked")

        folder.kill()

        until(lambda: not folder.processes(), "nothing is left of it")


def test_a_folder_with_symlinked_state_is_refused_without_a_traceback(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (OWN_DIRECTORY, LOCK_FILE):
        root = tmp_path / f"with{name}"
        root.mkdir()
        (root / name).symlink_to(elsewhere)

        refused = Terminal().call("up", root, "--port", "0")

        assert refused.exit_code == 4
        assert f"{root / name} " in refused.stderr
        assert "Traceback" not in refused.stderr
    assert list(elsewhere.iterdir()) == []


def test_a_damaged_database_is_reported_and_the_hint_works(tmp_path: Path) -> None:
    with a_folder(tmp_path / "pipelines") as folder:
        folder.write("daily", 'schedule: {cron: "0 9 1 1 *"}\ntasks: [{id: only, shell: "true"}]\n')
        folder.up()
        schedule = folder.state("daily")["scheduleId"]
        with folder.client() as client:
            client.trigger(schedule)
        until(lambda: folder.state("daily")["stats"]["totalRuns"] == 1, "it has run")
        assert folder.stop() == 0
        database = folder.root / OWN_DIRECTORY / "mainspring.db"
        database.write_text("this is not a database, " * 100)

        refused = Terminal().call("up", folder.root, "--port", "0")

        assert refused.exit_code == 1
        assert f"error: the database at {database} is damaged: " in refused.stderr
        assert "hint: move it and its companion files" in refused.stderr
        assert "Traceback" not in refused.stderr
        for path in database.parent.glob(f"{database.name}*"):
            path.rename(tmp_path / path.name)
        folder.up()
        until(lambda: folder.said().count("Ready") == 2, "the folder has been read again")
        assert folder.state("daily")["scheduleId"] == schedule
        assert folder.state("daily")["stats"]["totalRuns"] == 1
        with folder.client() as client:
            client.trigger(schedule)
        until(lambda: folder.state("daily")["stats"]["totalRuns"] == 2, "it runs again")
        assert folder.stop() == 0


def test_it_stops_cleanly_when_its_output_is_closed(tmp_path: Path) -> None:
    with a_folder(tmp_path / "pipelines") as folder:
        folder.write("tick", 'schedule: {cron: "* * * * * *"}\ntasks: [{id: only, shell: "sleep 0.5"}]\n')
        errors = tmp_path / "errors"
        with errors.open("w") as stream:
            folder.process = subprocess.Popen(
                [*COMMAND, "up", str(folder.root), "--port", "0"], stdout=subprocess.PIPE, stderr=stream, text=True
            )
        assert folder.process.stdout is not None
        with folder.process.stdout as output:
            while "started" not in output.readline():
                pass

        assert folder.ended() == 0
        assert "Traceback" not in errors.read_text()
        assert not (folder.root / LOCK_FILE).exists()
        assert folder.state("tick")["status"] == "idle"
        assert folder.state("tick")["lastRun"]["success"]
        assert folder.processes() == []
