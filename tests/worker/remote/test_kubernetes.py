"""Tasks on Kubernetes (WRK-3), against a fake API: see `tests/worker/remote/kubernetes.py`."""

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
    Prolong,
)
from tests.worker.remote.kubernetes import StandIn
from tests.worker.supervisor.harness import DEADLINE_SECONDS, SupervisorHarness

pytestmark = pytest.mark.processes


async def start(harness: SupervisorHarness, cluster: StandIn, **settings: object) -> None:
    """Start a supervisor with this cluster."""
    await harness.start(code="", variables=variables_of(cluster), kubernetes="here", **settings)


async def share(harness: SupervisorHarness, cluster: StandIn) -> None:
    """Connect to this module's shared supervisor, which has this cluster."""
    await harness.share(variables=variables_of(cluster), kubernetes="here")


def variables_of(cluster: StandIn) -> dict[str, str]:
    """Variables of the worker: a kubeconfig, and a secret."""
    return {"KUBECONFIG": str(cluster.kubeconfig()), "DB_PASSWORD": "hunter2-hunter2"}


def sh(script: str, **more: object) -> dict[str, object]:
    """A task that runs a script in a pod."""
    beside = {key: value for key, value in more.items() if key in {"env", "secrets", "grace_seconds", "directory"}}
    inside = {key: value for key, value in more.items() if key not in beside}
    return {"kubernetes": {"image": "tools:1", "run": ["sh", "-c", script], **inside}, **beside}


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition on the cluster."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not holds():  # noqa: ASYNC110 - the cluster is observed from outside
            await asyncio.sleep(0.01)  # tidy: sleeps because the cluster has no events


def error_of(end: AttemptEnded) -> dict[str, object]:
    assert end.outcome is Outcome.FAILED
    found: dict[str, object] = json.loads(end.error or "")
    return found


async def test_a_task_runs_as_a_job_that_is_removed_afterwards(harness: SupervisorHarness, cluster: StandIn) -> None:
    await share(harness, cluster)
    script = """
        echo "day $0, try $MAINSPRING_ATTEMPT of $MAINSPRING_TASK_NAME"
        echo '::mainspring-progress:: 40 loading'
        echo '::mainspring-checkpoint:: {"page": 3}'
        echo '::mainspring-output:: {"rows": 3}'
    """
    work = sh(script, env={"LEVEL": "{{ params.level }}"})
    work["kubernetes"]["run"].append("{{ params.day }}")  # type: ignore[index]
    end = await harness.ends(work, params='{"day": "monday; rm", "level": "$(HOME)"}', timeout_seconds=60.0)

    assert (end.outcome, end.output) == (Outcome.SUCCEEDED, '{"rows":3}')
    assert harness.log(end.attempt) == "day monday; rm, try 1 of load\n"
    assert end.log_bytes == len(harness.log(end.attempt))
    assert [word for word in harness.received if isinstance(word, ProgressReported | CheckpointSaved)] == [
        ProgressReported(end.attempt, 40.0, "loading"), CheckpointSaved(end.attempt, '{"page":3}')
    ]  # fmt: skip
    await until(lambda: not cluster.jobs and not cluster.pods and not cluster.secrets)


async def test_a_job_has_no_retries_limited_resources_and_no_privileges(
    harness: SupervisorHarness, cluster: StandIn
) -> None:
    await share(harness, cluster)
    order = harness.order(sh("true", grace_seconds=7), "lease", timeout_seconds=60.0, memory_bytes=2**30)
    harness.say(Launch((type(order)(order.assignment, "lease", Offer(500, 2**20, 1, 2**31)),)))
    await harness.receives(AttemptEnded, order.assignment.attempt)

    job = next(one for one in cluster.history if one["kind"] == "Job")
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (0, 120, 600)
    assert (pod["restartPolicy"], pod["terminationGracePeriodSeconds"]) == ("Never", 7)
    assert (pod["automountServiceAccountToken"], pod.get("serviceAccountName")) == (False, None)
    [container] = pod["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": str(2**30), "nvidia.com/gpu": "1", "ephemeral-storage": str(2**31)},
        "limits": {"memory": str(2**30), "nvidia.com/gpu": "1", "ephemeral-storage": str(2**31)},
    }, "the memory of this attempt, not of the first one"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


async def test_secrets_reach_the_task_but_no_spec_and_no_log(harness: SupervisorHarness, cluster: StandIn) -> None:
    await share(harness, cluster)
    script = 'echo $PASSWORD; cat $MAINSPRING_TOKEN_FILE; grep -o \'"day": "[a-z]*"\' $MAINSPRING_CONTEXT'
    work = sh(script, secrets={"PASSWORD": "env:DB_PASSWORD"}, env={"COPY": "$(PASSWORD)", "PRICE": "$$5"})
    end = await harness.ends(work, params='{"day": "monday"}', token="token-of-the-attempt\n")

    assert harness.log(end.attempt) == '••••\ntoken-of-the-attempt\n"day": "monday"\n'
    [secret] = [one for one in cluster.history if one["kind"] == "Secret"]
    [owner] = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], secret["immutable"]) == ("Job", secret["metadata"]["name"], True)
    others = json.dumps([one for one in cluster.history if one["kind"] != "Secret"])
    assert "hunter2" not in others
    assert "token-of-the-attempt" not in others
    assert '"$$(PASSWORD)"' in others
    assert '"$$$$5"' in others, "no variable expansion"


async def test_a_failed_container_is_reported_with_its_last_lines(harness: SupervisorHarness, cluster: StandIn) -> None:
    await share(harness, cluster)
    error = error_of(await harness.ends(sh("echo one; echo two >&2; exit 3")))
    assert (error["type"], error["exit_code"], error["last_lines"]) == ("Exit", 3, "one\ntwo\n")


async def test_an_oom_killed_container_is_a_resource_failure(harness: SupervisorHarness, cluster: StandIn) -> None:
    await share(harness, cluster)
    (attempt,) = harness.launch(sh("echo up; sleep 100"))
    await harness.wait_for_log(attempt, "up")
    cluster.container().run_out_of_memory()
    error = error_of(await harness.receives(AttemptEnded, attempt))
    assert (error["type"], error["class"]) == ("OutOfMemory", "resource")


async def test_a_container_that_cannot_start_fails_the_attempt(harness: SupervisorHarness, cluster: StandIn) -> None:
    await start(harness, cluster, container_start_seconds=0.3)
    expected = {
        "nobody/has-this:1": ("transient", "not found"),
        "NoSuch:1": ("permanent", "InvalidImageName"),
        "python:3": ("permanent", "runAsNonRoot"),
    }
    attempts = {image: harness.launch(sh("true", image=image))[0] for image in expected}
    for image, (error_class, says) in expected.items():
        error = error_of(await harness.receives(AttemptEnded, attempts[image]))
        assert (error["type"], error["class"]) == ("Start", error_class)
        assert says in str(error["message"])
    await until(lambda: not cluster.jobs and not cluster.pods)


async def test_a_root_image_runs_as_the_configured_user(harness: SupervisorHarness, cluster: StandIn) -> None:
    await share(harness, cluster)
    assert (await harness.ends(sh("true", image="python:3", user=1000))).outcome is Outcome.SUCCEEDED


async def test_disruptions_of_a_pod_are_infrastructure_failures(harness: SupervisorHarness, cluster: StandIn) -> None:
    await share(harness, cluster)
    for happens, kind in (
        (cluster.evict_pod, "Evicted"),
        (cluster.delete_job, "Deleted"),
        (cluster.delete_pod, "Deleted"),
    ):
        (attempt,) = harness.launch(sh("echo up; sleep 100"))
        await harness.wait_for_log(attempt, "up")
        happens()
        error = error_of(await harness.receives(AttemptEnded, attempt))
        assert (error["type"], error["class"]) == (kind, "infrastructure")
        await until(lambda: not cluster.jobs and not cluster.pods)


async def test_the_cluster_ends_a_job_at_its_deadline(harness: SupervisorHarness, cluster: StandIn) -> None:
    """A long outage of the server does not leave it running forever."""
    await share(harness, cluster)
    (attempt,) = harness.launch(sh("echo up; sleep 100"), timeout_seconds=1.0)
    await harness.wait_for_log(attempt, "up")
    [job] = cluster.jobs.values()
    job["spec"]["activeDeadlineSeconds"] = 0
    error = error_of(await harness.receives(AttemptEnded, attempt))
    assert (error["type"], error["class"]) == ("TIMEOUT", "timeout")


async def test_an_extension_moves_the_deadline_of_the_job(harness: SupervisorHarness, cluster: StandIn) -> None:
    await share(harness, cluster)
    (attempt,) = harness.launch(sh("echo up; sleep 100"), timeout_seconds=60.0)
    await harness.wait_for_log(attempt, "up")
    harness.say(Prolong(attempt, 1_000.0))
    [job] = cluster.jobs.values()
    await until(lambda: job["spec"]["activeDeadlineSeconds"] > 1_000)
    harness.say(EndAttempt(attempt, 0.0))
    await harness.receives(AttemptEnded, attempt)


async def test_a_stopped_task_is_terminated_and_then_killed(harness: SupervisorHarness, cluster: StandIn) -> None:
    await share(harness, cluster)
    for trap, grace_seconds, says in (("echo bye; exit 0", 20.0, "up\nbye\n"), ("", 0.0, "up\n")):
        (attempt,) = harness.launch(sh(f"trap '{trap}' TERM; echo up; while :; do sleep 0.05; done", grace_seconds=20))
        await harness.wait_for_log(attempt, "up")
        harness.say(EndAttempt(attempt, grace_seconds))
        end = await harness.receives(AttemptEnded, attempt)
        assert (end.outcome, end.error) == (Outcome.STOPPED, None)
        assert harness.log(attempt) == says
        await until(lambda: not cluster.jobs and not cluster.pods and not cluster.secrets)


async def test_an_outage_of_the_cluster_fails_no_task(harness: SupervisorHarness, cluster: StandIn) -> None:
    await share(harness, cluster)
    cluster.faults.down = True
    go = harness.own_dir / "go"
    (attempt,) = harness.launch(sh(f"echo up; until [ -e {go} ]; do sleep 0.02; done; echo done"))
    await until(lambda: cluster.faults.cut > 0)
    cluster.faults.down = False
    await harness.receives(AttemptStarted, attempt)
    cluster.faults.down = True
    before = cluster.faults.cut
    await until(lambda: cluster.faults.cut > before)
    go.touch()
    await until(lambda: cluster.faults.cut > before + 1)
    cluster.faults.down = False
    assert (await harness.receives(AttemptEnded, attempt)).outcome is Outcome.SUCCEEDED
    assert harness.log(attempt) == "up\ndone\n"


async def test_a_job_whose_response_was_lost_is_not_created_twice(harness: SupervisorHarness, cluster: StandIn) -> None:
    await share(harness, cluster)
    cluster.faults.lost_answers = ["POST", "POST"]
    end = await harness.ends(sh("echo once; echo '::mainspring-output:: rows=3'"))
    assert (end.outcome, end.output) == (Outcome.SUCCEEDED, '{"rows":"3"}')
    assert harness.log(end.attempt) == "once\n"
    assert sum(one["kind"] == "Job" for one in cluster.history) == 1


async def test_a_log_read_over_broken_connections_has_no_gaps_or_duplicates(
    harness: SupervisorHarness, cluster: StandIn
) -> None:
    await share(harness, cluster)
    cluster.cut_logs_after = [3, 3, 7]
    end = await harness.ends(sh("for n in 1 2 3 4 5 6 7 8 9; do echo line $n; sleep 0.02; done; printf end"))
    assert harness.log(end.attempt) == "".join(f"line {n}\n" for n in range(1, 10)) + "end"


async def test_jobs_of_a_killed_supervisor_are_removed_before_new_ones_run(
    harness: SupervisorHarness, cluster: StandIn
) -> None:
    await start(harness, cluster)
    (lost,) = harness.launch(sh("echo up; trap '' TERM; sleep 100", grace_seconds=0.2))
    await harness.wait_for_log(lost, "up")
    os.kill(harness.pid, signal.SIGKILL)
    await harness.wait_for_exit()
    [old] = cluster.pods

    await start(harness, cluster)
    assert (await harness.ends(sh("echo new"))).outcome is Outcome.SUCCEEDED
    assert old not in cluster.pods
    made = [one["metadata"]["name"] for one in cluster.history if one["kind"] == "Job"]
    assert len(made) == len(set(made)) == 2


async def test_only_allowed_namespaces_are_used(harness: SupervisorHarness, cluster: StandIn) -> None:
    await start(harness, cluster, kubernetes_namespaces=("other", "gone"))
    assert (await harness.ends(sh("true"))).outcome is Outcome.SUCCEEDED
    assert cluster.history[0]["metadata"]["namespace"] == "other"
    for namespace in ("etl", "gone"):
        error = error_of(await harness.ends(sh("true", namespace=namespace)))
        assert (error["type"], error["class"]) == ("Start", "permanent")
        assert f"namespace {namespace}" in str(error["message"])


async def test_forbidden_requests_fail_and_exceeded_quotas_are_retried(
    harness: SupervisorHarness, cluster: StandIn
) -> None:
    await share(harness, cluster)
    cluster.forbidden["POST secrets"] = "secrets is forbidden"
    error = error_of(await harness.ends(sh("true")))
    assert "secrets is forbidden" in str(error["message"])
    await until(lambda: not cluster.jobs and not cluster.pods)

    cluster.forbidden = {"POST jobs": "exceeded quota: count/jobs.batch"}
    (attempt,) = harness.launch(sh("true"))
    await until(lambda: cluster.faults.asked.count("POST /apis/batch/v1/namespaces/etl/jobs") > 2)
    cluster.forbidden.clear()
    assert (await harness.receives(AttemptEnded, attempt)).outcome is Outcome.SUCCEEDED


async def test_a_pending_pod_reports_its_reason_and_can_be_stopped(
    harness: SupervisorHarness, cluster: StandIn
) -> None:
    await share(harness, cluster)
    (attempt,) = harness.launch(sh("true", image="nobody/has-this:1"))
    moved = await harness.receives(ProgressReported, attempt)
    assert moved.note.startswith(("ErrImagePull: nobody/has-this:1", "ImagePullBackOff: nobody/has-this:1"))
    harness.say(EndAttempt(attempt, 5.0))
    assert (await harness.receives(AttemptEnded, attempt)).outcome is Outcome.STOPPED
    await until(lambda: not cluster.jobs and not cluster.pods)


async def test_a_worker_without_a_cluster_fails_the_task(harness: SupervisorHarness) -> None:
    await harness.start()
    for work in (sh("true"), {"ray": {"run": ["true"]}}):
        error = error_of(await harness.ends(work))
        assert (error["type"], error["class"]) == ("Start", "permanent")
