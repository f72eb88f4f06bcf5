"""Artifacts of attempts (WRK-11): stored before the end is reported, or the attempt fails."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from urllib.parse import unquote

import httpx2
import pytest

from mainspring.protocol.wire import Artifact, Outcome
from mainspring.worker.supervisor.supervisor_wire import AttemptEnded, EndAttempt, Inventory
from tests.worker.s3_server import running_s3_server
from tests.worker.supervisor.harness import SupervisorHarness

pytestmark = pytest.mark.processes


CODE = """
from mainspring import Context

def leave(context: Context, text: str) -> str:
    (context.artifacts / "said.txt").write_text(text)
    return text

def fail(context: Context) -> None:
    (context.artifacts / "trace.txt").write_text("here")
    raise ValueError("no")

def nothing() -> str:
    return "ok"
"""


async def share(harness: SupervisorHarness) -> None:
    """Connect to this module's shared supervisor."""
    await harness.share(code=CODE, keep_artifacts_seconds=60)


def content(artifact: Artifact) -> bytes:
    """Return the content of a stored artifact."""
    return Path(unquote(artifact.location.removeprefix("file://"))).read_bytes()


def error_of(end: AttemptEnded) -> dict[str, object]:
    """Return the error of a failed attempt."""
    assert end.outcome is Outcome.FAILED, end
    error: dict[str, object] = json.loads(end.error or "")
    return error


async def test_artifacts_are_stored_under_the_attempts_key_and_listed_in_its_result(harness: SupervisorHarness) -> None:
    await share(harness)
    script = 'mkdir -p "$MAINSPRING_ARTIFACTS/by day"; printf a,b > "$MAINSPRING_ARTIFACTS/by day/ü.csv"; '
    end = await harness.ends({"shell": script + ': > "$MAINSPRING_ARTIFACTS/empty"'})

    assert end.outcome is Outcome.SUCCEEDED
    first, second = end.artifacts
    key = f"acme/run_1/task_1/{end.attempt}"
    assert first == Artifact(
        "by day/ü.csv", 3, hashlib.sha256(b"a,b").hexdigest(),
        f"file://{harness.state_dir}/artifacts/{key}/by%20day/%C3%BC.csv", 60,
    )  # fmt: skip
    assert (second.path, second.size_bytes) == ("empty", 0)
    assert [content(first), content(second)] == [b"a,b", b""]
    assert not (harness.state_dir / "attempts" / end.attempt).exists()


async def test_two_attempts_of_a_task_do_not_share_a_place(harness: SupervisorHarness, tmp_path: Path) -> None:
    await harness.start(artifacts=f"file://{tmp_path}/shared")
    work = {"shell": "echo $MAINSPRING_ATTEMPT_ID > $MAINSPRING_ARTIFACTS/same"}
    one, two = await harness.ends(work), await harness.ends(work)

    assert [content(*end.artifacts).decode().strip() for end in (one, two)] == [one.attempt, two.attempt]
    assert str(tmp_path / "shared") in one.artifacts[0].location


async def test_artifacts_of_a_failed_attempt_are_stored_and_its_error_is_kept(harness: SupervisorHarness) -> None:
    await share(harness)
    left = await harness.ends({"shell": "echo why > $MAINSPRING_ARTIFACTS/report; exit 3"})
    bad = await harness.ends({"shell": "ln -s /etc/passwd $MAINSPRING_ARTIFACTS/link; exit 4"})

    assert error_of(left)["exit_code"] == 3
    assert [one.path for one in left.artifacts] == ["report"]
    assert (error_of(bad)["exit_code"], bad.artifacts) == (4, ())


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("ln -s /etc/passwd link", "artifact link "),
        ("mkfifo pipe", "artifact pipe "),
        ("ln -s / folder", "artifact folder "),
        ("cd ..; rmdir artifacts; ln -s /etc artifacts", "artifact folder "),
        ("cd ..; rmdir artifacts; echo > artifacts", "artifact folder "),
        ("touch $(seq 1001)", "more than 1000 artifacts"),
        ("truncate -s 101 large", "101 bytes"),
        ("for n in 1 2 3; do truncate -s 90 $n; done", "275 bytes"),
        ("touch 'a#1'", "has a control character, a backslash or a #"),
        ("touch \"$(printf 'a\\nb')\"", "has a control character"),
        ("touch \"$(printf 'a\\377b')\"", "has a control character"),
        ("p=$(printf 'x%.0s' $(seq 200)); mkdir -p $p/$p/$p; touch $p/$p/$p/f", "longer than 512 characters"),
        ('touch "$PASSWORD.txt"', "contains a secret"),
    ],
)
async def test_a_hostile_folder_is_refused_as_a_whole(harness: SupervisorHarness, script: str, said: str) -> None:
    await harness.share(max_artifact_bytes=100, max_artifacts_bytes=200, variables={"PLACE": "hunter2hunter2"})
    work = {
        "shell": f"cd $MAINSPRING_ARTIFACTS; echo good > good; {script}".replace("echo good > good; cd ..", "cd .."),
        "secrets": {"PASSWORD": "env:PLACE"},
    }
    end = await harness.ends(work)

    error = error_of(end)
    assert (error["type"], error["class"], end.artifacts) == ("Artifacts", "permanent", ())
    assert said in str(error["message"])
    assert "hunter2" not in str(error)
    assert not list((harness.state_dir / "artifacts").rglob("*good*"))


async def test_a_hard_link_to_another_users_file_is_refused(harness: SupervisorHarness) -> None:
    """Changing the owner requires root: without it the file is the user's own, which may be stored."""
    await share(harness)
    script = "cd $MAINSPRING_ARTIFACTS; echo theirs > ../file; chown 12345 ../file; ln ../file mine"
    end = await harness.ends({"shell": script})

    if os.geteuid() == 0:
        assert "another user's" in str(error_of(end)["message"])
    else:
        assert [one.path for one in end.artifacts] == ["mine"]


async def test_a_failing_storage_is_an_infrastructure_failure_and_nothing_is_listed(
    harness: SupervisorHarness, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    await harness.start(artifacts=f"file://{tmp_path}/file/below")
    end = await harness.ends({"shell": "echo > $MAINSPRING_ARTIFACTS/a"})
    nothing = await harness.ends({"shell": "true"})

    error = error_of(end)
    assert (error["type"], error["class"], end.artifacts) == ("Artifacts", "infrastructure", ())
    assert "file://" in str(error["message"])
    assert nothing.outcome is Outcome.SUCCEEDED


async def test_functions_have_an_artifact_folder_on_demand(harness: SupervisorHarness) -> None:
    await share(harness)
    work = {"python": "work:leave", "args": {"text": "one"}}
    other = {"python": "work:leave", "args": {"text": "two"}}
    attempts = harness.launch(work, other, {"python": "work:fail"}, {"python": "work:nothing"})
    one, two, failed, nothing = [await harness.receives(AttemptEnded, attempt) for attempt in attempts]

    assert [content(*end.artifacts) for end in (one, two, failed)] == [b"one", b"two", b"here"]
    assert (one.output, failed.outcome, nothing.artifacts) == ('"one"', Outcome.FAILED, ())
    assert not list((harness.state_dir / "attempts").glob("*"))


async def test_files_are_uploaded_to_a_bucket_in_parts(harness: SupervisorHarness) -> None:
    with running_s3_server("mainspring-supervisor-test") as variables:
        await harness.start(artifacts="s3://mainspring-supervisor-test/some/prefix", variables=variables)
        end = await harness.ends({"shell": "head -c 12000000 /dev/zero > $MAINSPRING_ARTIFACTS/zeros; env"})
        url = end.artifacts[0].location.replace("s3://", f"{variables['AWS_ENDPOINT_URL']}/")
        stored = httpx2.get(url, trust_env=False)

    assert end.artifacts[0].sha256 == hashlib.sha256(bytes(12_000_000)).hexdigest()
    assert end.artifacts[0].location.startswith(
        f"s3://mainspring-supervisor-test/some/prefix/acme/run_1/task_1/{end.attempt}/"
    )
    assert stored.content == bytes(12_000_000)
    assert "AWS_" not in harness.log(end.attempt)


async def test_a_missing_bucket_is_reported(harness: SupervisorHarness) -> None:
    with running_s3_server("mainspring-other-test") as variables:
        await harness.start(artifacts="s3://mainspring-missing-test", variables=variables)
        error = error_of(await harness.ends({"shell": "echo > $MAINSPRING_ARTIFACTS/a"}))

    assert error["class"] == "infrastructure"
    assert "s3://mainspring-missing-test" in str(error["message"])


async def test_a_result_with_artifacts_is_repeated_to_a_new_agent(harness: SupervisorHarness) -> None:
    """The agent dies before it writes its spool."""
    await share(harness)
    end = await harness.ends({"shell": "echo > $MAINSPRING_ARTIFACTS/a"})
    harness.disconnect()
    inventory: Inventory = await harness.connect()

    assert inventory.ended == (end,)
    assert len(end.artifacts) == 1


async def test_a_stopped_attempt_lists_no_artifacts(harness: SupervisorHarness) -> None:
    await share(harness)
    (attempt,) = harness.launch({"shell": "echo > $MAINSPRING_ARTIFACTS/a; echo there; sleep 60"})
    await harness.wait_for_log(attempt, "there")
    harness.say(EndAttempt(attempt, 5.0))
    end = await harness.receives(AttemptEnded, attempt)

    assert (end.outcome, end.artifacts) == (Outcome.STOPPED, ())


async def test_a_fetch_without_a_server_fails_before_the_start(harness: SupervisorHarness) -> None:
    await share(harness)
    error = error_of(await harness.ends({"shell": "echo began", "fetch": ["extract"]}))

    assert (error["type"], error["class"]) == ("Fetch", "infrastructure")
    assert "no server" in str(error["message"])
