"""`mainspring deploy` to a real server with a worker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.client.client import Client
from tests.cli.terminal import Terminal, run_by

MANUAL = "tasks: [{id: only, shell: 'echo here > out.txt'}]\n"
DAILY = f'schedule: {{cron: "30 5 * * *"}}\n{MANUAL}'
BROKEN = 'schedule: {cron: "61 * * * *", enabeld: true}\ntasks: [{id: only, rnu: x}]\n'


class Folder:
    """A folder of pipelines with names that are unique on the shared server."""

    def __init__(self, root: Path, terminal: Terminal) -> None:
        self.root = root
        self._terminal = terminal

    def write(self, **texts: str) -> None:
        """Write pipelines."""
        for name, text in texts.items():
            directory = self.root / name
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "pipeline.yaml").write_text(text)

    def remove(self, name: str) -> None:
        """Remove a pipeline."""
        (self.root / name / "pipeline.yaml").unlink()

    def files(self) -> dict[str, bytes]:
        """Return all files with their content."""
        return {str(path): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}

    def deploy(self, *words: str) -> dict[str, str]:
        """Deploy, and return the change of each pipeline."""
        rows = self._terminal.json("deploy", self.root, *words)
        return {row["pipeline"]: row["change"] for row in rows}


@pytest.fixture
def folder(terminal: Terminal, tmp_path: Path, request: pytest.FixtureRequest) -> Folder:
    """An empty folder named after the test."""
    return Folder(tmp_path / request.node.name.replace("_", "-"), terminal)


def definition(terminal: Terminal, name: str) -> Mapping[str, Any]:
    """Return the definition of a schedule."""
    found: Mapping[str, Any] = terminal.json("schedules", "show", name)["definition"]
    return found


def test_deploying_is_idempotent_and_leaves_the_folder_unchanged(terminal: Terminal, folder: Folder) -> None:
    folder.write(daily_a=DAILY, manual_a=MANUAL)
    (folder.root / "daily_a" / ".schedule-state.json").write_text('{"version": 1, "scheduleId": "daily-a-123456"}')
    before = folder.files()

    assert folder.deploy() == {"daily_a": "created", "manual_a": "created"}
    assert folder.deploy() == {"daily_a": "unchanged", "manual_a": "unchanged"}
    folder.write(daily_a=DAILY.replace("30 5", "40 5"))
    assert folder.deploy("--dry-run") == {"daily_a": "updated", "manual_a": "unchanged"}
    assert definition(terminal, "daily_a")["trigger"]["cron"] == "30 5 * * *"
    assert folder.deploy("--why", "ten minutes later") == {"daily_a": "updated", "manual_a": "unchanged"}

    assert definition(terminal, "daily_a")["trigger"] == {
        "kind": "cron", "cron": "40 5 * * *", "timezone": definition(terminal, "daily_a")["trigger"]["timezone"],
    }  # fmt: skip
    folder.write(daily_a=DAILY)
    assert folder.files() == before


def test_a_deployed_pipeline_runs_in_its_directory(terminal: Terminal, folder: Folder) -> None:
    folder.write(runs_b=DAILY)
    folder.deploy()

    terminal.out("trigger", "runs_b", "--wait")

    assert (folder.root / "runs_b" / "out.txt").read_text() == "here\n"


def test_at_sets_the_path_on_workers(terminal: Terminal, address: str, folder: Folder) -> None:
    folder.write(placed_c=f"schedule: {{cron: '@daily', condition: {{file_exists: in.csv}}}}\n{MANUAL}")
    result = terminal.call("deploy", folder.root, "--at", "/srv/pipelines")

    assert result.exit_code == 0, result.stderr
    assert definition(terminal, "placed_c")["condition"] == {"file_exists": "/srv/pipelines/placed_c/in.csv"}
    with Client(address) as client:
        job = msgspec.json.decode(bytes(client.job("placed_c").definition))  # type: ignore[arg-type]
    assert job["tasks"][0]["work"]["directory"] == "/srv/pipelines/placed_c"
    assert terminal.call("deploy", folder.root, "--at", "srv").exit_code == 2


def test_nothing_is_deployed_if_one_file_is_invalid_and_all_errors_are_listed(
    terminal: Terminal, folder: Folder
) -> None:
    folder.write(good_d=DAILY, bad_d=BROKEN, worse_d="tasks: [\n")

    result = terminal.call("deploy", folder.root)

    assert (result.exit_code, result.stdout) == (2, "")
    for said in ("61 is not from 0 to 59", "did you mean `enabled`?", "unknown field `rnu`", "worse_d/pipeline.yaml:"):
        assert said in result.stderr
    assert terminal.call("schedules", "show", "good_d").exit_code == 5


def test_two_directories_with_the_same_id_are_an_error(terminal: Terminal, folder: Folder) -> None:
    folder.write(Twin_e=DAILY, twin_e=DAILY)

    result = terminal.call("deploy", folder.root)

    assert result.exit_code == 2
    assert "has the same id as" in result.stderr


def test_prune_deletes_only_pipelines_removed_from_the_folder(terminal: Terminal, folder: Folder) -> None:
    folder.write(stays_f=DAILY, gone_f=DAILY, unscheduled_f=DAILY)
    other = Folder(folder.root.with_name("another"), terminal)
    other.write(other_f=DAILY)
    folder.deploy()
    other.deploy()
    folder.remove("gone_f")
    folder.write(unscheduled_f=MANUAL)

    kept = terminal.call("deploy", folder.root)
    unasked = terminal.call("deploy", folder.root, "--prune", "--no-input")
    planned = folder.deploy("--prune", "--dry-run")
    assert "--prune" in kept.stderr
    assert unasked.exit_code == 2
    assert terminal.call("schedules", "show", "gone_f").exit_code == 0
    assert planned == {"stays_f": "unchanged", "gone_f": "deleted", "unscheduled_f": "updated"}
    assert folder.deploy("--prune", "--yes") == planned

    assert [terminal.call("schedules", "show", name).exit_code for name in ("gone_f", "unscheduled_f")] == [5, 5]
    assert terminal.json("jobs", "-f", "job:gone_f") == []
    assert len(terminal.json("jobs", "-f", "job:unscheduled_f")) == 1
    assert definition(terminal, "stays_f")["job"] == "stays_f"
    assert definition(terminal, "other_f")["job"] == "other_f"
    assert "gone_f" not in folder.deploy("--prune")


def test_a_job_with_another_schedule_is_not_pruned(terminal: Terminal, folder: Folder) -> None:
    folder.write(used_g=MANUAL, stays_g=MANUAL)
    folder.deploy()
    terminal.out("schedules", "create", "-", stdin="name: own-g\njob: used_g\nmanual: true\n")
    folder.remove("used_g")

    result = terminal.call("deploy", folder.root, "--prune", "--yes")

    assert result.exit_code == 4
    assert "refused" in result.stdout
    assert len(terminal.json("jobs", "-f", "job:used_g")) == 1


def test_notifications_become_webhooks(terminal: Terminal, folder: Folder) -> None:
    def told() -> list[tuple[str, list[str]]]:
        return [(one["url"], one["events"]) for one in terminal.json("webhooks") if one["job"] == "told_h"]

    folder.write(told_h=f"{DAILY}notify: {{on_failure: 'http://127.0.0.1:9/a'}}\n")
    folder.deploy()
    folder.deploy()
    assert told() == [("http://127.0.0.1:9/a", ["run.failed", "run.timed_out"])]

    folder.write(told_h=f"{DAILY}notify: {{on_success: 'http://127.0.0.1:9/b'}}\n")
    assert folder.deploy() == {"told_h": "updated"}
    assert told() == [("http://127.0.0.1:9/b", ["run.succeeded"])]

    folder.write(told_h=DAILY)
    folder.deploy()
    assert told() == []


def test_pipelines_of_several_tenants_are_pruned_in_their_tenants(terminal: Terminal, folder: Folder) -> None:
    def tenants() -> list[str]:
        found = [terminal.json("jobs", "-f", f"job:own_i tenant:{tenant}") for tenant in ("finance", "sales")]
        return [job["tenant"] for jobs in found for job in jobs]

    folder.write(own_i=f"tenant: finance\n{DAILY}", stays_i=MANUAL)
    folder.deploy()
    assert folder.deploy("--prune") == {"own_i": "unchanged", "stays_i": "unchanged"}
    assert tenants() == ["finance"]

    folder.write(own_i=f"tenant: sales\n{DAILY}")
    folder.deploy("--prune", "--yes")
    assert tenants() == ["sales"]

    folder.remove("own_i")
    assert folder.deploy("--prune", "--yes") == {"stays_i": "unchanged", "own_i": "deleted"}
    assert tenants() == []


def test_an_empty_folder_is_a_usage_error(terminal: Terminal, tmp_path: Path) -> None:
    result = terminal.call("deploy", tmp_path)

    assert result.exit_code == 2
    assert "there is no pipeline.yaml" in result.stderr


@pytest.mark.parametrize("said", ["", "localhost"])
def test_a_folder_is_not_deployed_to_the_scheduler_that_runs_it(
    terminal: Terminal, address: str, folder: Folder, said: str
) -> None:
    """It would run twice. A killed scheduler whose address another server has now does not block a deployment."""
    name = f"twice_{said or 'h'}"
    folder.write(**{name: DAILY, f"below/{name}": DAILY})
    server = address.replace("127.0.0.1", said or "127.0.0.1")

    with run_by(address, folder.root):
        results = [terminal.call("deploy", place, "--server", server) for place in (folder.root, folder.root / "below")]
        elsewhere = terminal.call("deploy", folder.root, "--server", "http://127.0.0.1:1")

    assert [result.exit_code for result in results] == [4, 4]
    assert all("`--server`" in result.stderr for result in results)
    assert terminal.call("schedules", "show", name).exit_code == 5
    assert "http://127.0.0.1:1:" in elsewhere.stderr
    assert folder.deploy() == {name: "created", f"below.{name}": "created"}
