"""Tasks on Ray (WRK-3), against a fake jobs API; `test_ray_for_real.py` uses a real cluster."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable

import pytest

from mainspring.protocol.wire import Offer, Outcome
from mainspring.worker.supervisor.supervisor_wire import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    EndAttempt,
    Launch,
    ProgressReported,
)
from tests.worker.remote.ray import StandIn
from tests.worker.supervisor.harness import DEADLINE_SECONDS, SupervisorHarness

pytestmark = pytest.mark.processes


def sh(script: str, *words: str, **more: object) -> dict[str, object]:
    """A task that runs a script as a job of Ray."""
    return {"ray": {"run": ["sh", "-c", script, *words]}, **more}


def error_of(end: AttemptEnded) -> dict[str, object]:
    assert end.outcome is Outcome.FAILED
    found: dict[str, object] = json.loads(end.error or "")
    return found


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition on the cluster."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not holds():  # noqa: ASYNC110 - the cluster is observed from outside
            await asyncio.sleep(0.01)  # tidy: sleeps because the cluster has no events


async def test_a_task_runs_as_a_job_named_after_its_attempt(harness: SupervisorHarness, ray: StandIn) -> None:
    await harness.share(ray=ray.address)
    script = """
        echo "$0 and $LEVEL on try $MAINSPRING_ATTEMPT"
        echo '::mainspring-progress:: 40 loading'
        echo '::mainspring-checkpoint:: {"page": 3}'
        echo '::mainspring-output:: {"rows": 3}'
    """
    work = sh(script, "{{ params.day }}", env={"LEVEL": "{{ params.level }}"}, grace_seconds=7)
    order = harness.order(work, "lease", params='{"day": "it\'s $(date)", "level": "low"}', token="secret-token")
    harness.say(Launch((type(order)(order.assignment, "lease", Offer(500, 2**20, 1)),)))
    end = await harness.receives(AttemptEnded, order.assignment.attempt)

    assert (end.outcome, end.output) == (Outcome.SUCCEEDED, '{"rows":3}')
    assert harness.log(end.attempt) == "it's $(date) and low on try 1\n", "values are not executed"
    reports = [one for one in harness.received if isinstance(one, ProgressReported | CheckpointSaved)]
    if reports[0] == ProgressReported(end.attempt, None, "Job has not started yet."):
        # It was polled before it started.
        del reports[0]
    assert reports == [ProgressReported(end.attempt, 40.0, "loading"), CheckpointSaved(end.attempt, '{"page":3}')]
    [request] = ray.requests
    assert request["submission_id"] == end.attempt
    assert request["runtime_env"]["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"] == "7"
    room = ("entrypoint_num_cpus", "entrypoint_memory", "entrypoint_num_gpus")
    assert [request[what] for what in room] == [0.5, 2**20, 1]
    assert "secret-token" not in json.dumps(request), "submissions are readable by everyone"


async def test_a_failed_job_is_reported_with_exit_code_or_signal(harness: SupervisorHarness, ray: StandIn) -> None:
    await harness.share(ray=ray.address)
    exited = error_of(await harness.ends(sh("echo one; exit 3")))
    assert (exited["type"], exited["exit_code"], exited["last_lines"]) == ("Exit", 3, "one\n")
    killed = error_of(await harness.ends(sh("kill -KILL $$")))
    assert (killed["type"], killed["signal"]) == ("Signal", "SIGKILL")


async def test_disruptions_of_the_cluster_are_infrastructure_failures(harness: SupervisorHarness, ray: StandIn) -> None:
    await harness.share(ray=ray.address)
    lost, gone, stopped = (harness.launch(sh("echo up; sleep 100"))[0] for _ in range(3))
    for attempt in (lost, gone, stopped):
        await harness.wait_for_log(attempt, "up")
    ray.lose(lost, "JOB_SUPERVISOR_ACTOR_DIED", "Job supervisor actor died: its node is gone")
    del ray.jobs[gone]
    ray.jobs[stopped]["status"] = "STOPPED"
    for attempt, kind in ((lost, "Cluster"), (gone, "Gone"), (stopped, "Stopped")):
        error = error_of(await harness.receives(AttemptEnded, attempt))
        assert (error["type"], error["class"]) == (kind, "infrastructure")


async def test_a_stopped_task_is_stopped_on_the_cluster(harness: SupervisorHarness, ray: StandIn) -> None:
    await harness.share(ray=ray.address)
    (attempt,) = harness.launch(sh("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"))
    await harness.wait_for_log(attempt, "up")
    harness.say(EndAttempt(attempt, 20.0))
    end = await harness.receives(AttemptEnded, attempt)
    assert (end.outcome, end.error) == (Outcome.STOPPED, None)
    assert ray.jobs[attempt]["status"] == "STOPPED"
    assert "bye" in harness.log(attempt)


async def test_an_outage_of_the_cluster_fails_no_task_and_runs_none_twice(
    harness: SupervisorHarness, ray: StandIn
) -> None:
    ray.faults.down = True
    await harness.share(ray=ray.address)
    go = harness.own_dir / "go"
    (attempt,) = harness.launch(sh(f"echo up; until [ -e {go} ]; do sleep 0.02; done; echo done"))
    await until(lambda: ray.faults.cut > 0)
    ray.faults.down = False
    ray.faults.lost_answers = ["POST"]
    await harness.receives(AttemptStarted, attempt)
    ray.faults.down = True
    before = ray.faults.cut
    await until(lambda: ray.faults.cut > before)
    go.touch()
    await until(lambda: ray.faults.cut > before + 1)
    ray.faults.down = False
    assert (await harness.receives(AttemptEnded, attempt)).outcome is Outcome.SUCCEEDED
    assert harness.log(attempt) == "up\ndone\n"
    assert len(ray.requests) == 1


async def test_jobs_of_a_killed_supervisor_are_removed_before_new_ones_run(
    harness: SupervisorHarness, ray: StandIn
) -> None:
    ray.jobs["of-another-user"] = {"submission_id": "of-another-user", "status": "RUNNING", "metadata": None}
    await harness.start(ray=ray.address)
    (lost,) = harness.launch(sh("echo up; sleep 100", grace_seconds=0))
    await harness.wait_for_log(lost, "up")
    os.kill(harness.pid, signal.SIGKILL)
    await harness.wait_for_exit()

    await harness.start(ray=ray.address)
    assert (await harness.ends(sh("echo new"))).outcome is Outcome.SUCCEEDED
    assert ray.jobs[lost]["status"] == "STOPPED"
    assert ray.jobs["of-another-user"]["status"] == "RUNNING"


async def test_the_workers_token_is_sent_to_the_cluster(harness: SupervisorHarness, ray: StandIn) -> None:
    ray.token = "let-me-in"
    await harness.share(ray=ray.address)
    error = error_of(await harness.ends(sh("true")))
    assert (error["type"], error["class"]) == ("Start", "permanent")
    assert "401" in str(error["message"])
    await harness.share(ray=ray.address, variables={"RAY_AUTH_TOKEN": "let-me-in"})
    assert (await harness.ends(sh("true"))).outcome is Outcome.SUCCEEDED
