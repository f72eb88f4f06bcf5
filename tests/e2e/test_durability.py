"""Servers and workers are killed, suspended and restarted while tasks run; no task is lost or runs twice at once.

Each task writes lines to one file: at its start, with its process and whether an older process of the same task is
still running, and at its end. Assertions use this file, not the server's state.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.e2e.cluster import Json, ServerCluster, ended, in_state, submit, tasks_of, until, workers_of

_TASK = r"""
for pid in $(awk -v task="$MAINSPRING_TASK_ID" '$1 == "start" && $2 == task { print $4 }' "$DIARY"); do
    kill -0 "$pid" 2>/dev/null && echo "beside $MAINSPRING_TASK_ID $MAINSPRING_ATTEMPT_ID $pid" >> "$DIARY"
done
echo "start $MAINSPRING_TASK_ID $MAINSPRING_ATTEMPT_ID $$" >> "$DIARY"
while [ ! -e "$GATE" ]; do sleep 0.2; done
echo "end $MAINSPRING_TASK_ID $MAINSPRING_ATTEMPT_ID $$" >> "$DIARY"
"""


class Line(NamedTuple):
    """One line of the log."""

    word: str
    task: str
    attempt: str
    pid: int


class TaskLog:
    """The log written by the tasks, and the gate at which they wait."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.path = folder / "diary"
        self.path.touch()
        self._gate = folder / "gate"

    def open_gate(self) -> None:
        """Let the tasks end."""
        self._gate.touch()

    def lines(self, word: str) -> list[Line]:
        """The lines of this kind."""
        words = (line.split() for line in self.path.read_text().splitlines())
        return [Line(one[0], one[1], one[2], int(one[3])) for one in words if one[0] == word]

    def job(self, tasks: int, **more: object) -> Json:
        """A job whose tasks write to the log and wait at the gate."""
        work = {"shell": _TASK, "env": {"DIARY": str(self.path), "GATE": str(self._gate)}}
        resources = {"cpu_millis": 10, "memory_bytes": 1_000_000}
        names = [f"t{number}" for number in range(tasks)]
        each = {"work": work, "resources": resources, "retry_delay_seconds": 0, **more}
        return {"name": self.path.parent.name, "tasks": [{"name": name, **each} for name in names]}


@pytest.fixture
def task_log(tmp_path: Path) -> TaskLog:
    return TaskLog(tmp_path)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    """A cluster on SQLite."""
    with ServerCluster(tmp_path) as one:
        yield one


@pytest.fixture
def postgres_cluster(tmp_path: Path, postgres_url: str) -> Iterator[ServerCluster]:
    """A cluster on PostgreSQL."""
    with ServerCluster(tmp_path, postgres_url) as one:
        yield one


@pytest.mark.parametrize("many", [50, pytest.param(200, marks=pytest.mark.soak)])
def test_tasks_outlive_their_server_and_their_results_wait_for_the_next_one(
    cluster: ServerCluster, task_log: TaskLog, many: int
) -> None:
    """WRK-10, LIV-6: kill -9 the server while many tasks run."""
    first = cluster.server()
    cluster.worker(first, name="w", cpu=8)
    with first.client() as client:
        run = submit(client, task_log.job(many))
        in_state(client, run.id, "RUNNING", many)
    first.kill()
    task_log.open_gate()
    until(lambda: len(task_log.lines("end")) == many, "all tasks end while there is no server")

    second = cluster.server(port=int(first.address.rpartition(":")[2]))
    with second.client() as client:
        assert ended(client, run.id).state == "SUCCEEDED"
        assert {task.attempt for task in tasks_of(client, run.id)} == {1}
    assert len(task_log.lines("start")) == len(task_log.lines("end")) == many


def test_an_agent_that_comes_back_in_time_finds_its_tasks_running(cluster: ServerCluster, task_log: TaskLog) -> None:
    """WRK-10: kill -9 the agent and restart it: it adopts the running tasks, and nothing runs twice."""
    server = cluster.server()
    killed = cluster.worker(server, name="phoenix")
    with server.client() as client:
        run = submit(client, task_log.job(20))
        in_state(client, run.id, "RUNNING", 20)
        killed.kill()
        cluster.worker(server, name="phoenix")
        task_log.open_gate()
        assert ended(client, run.id).state == "SUCCEEDED"
        assert {task.attempt for task in tasks_of(client, run.id)} == {1}
    assert len(task_log.lines("start")) == len(task_log.lines("end")) == 20


def test_tasks_of_a_killed_or_suspended_agent_run_elsewhere_and_never_twice_at_once(
    cluster: ServerCluster, tmp_path: Path
) -> None:
    """WRK-10, LIV-1, LIV-5: both are detected by the same timeout, so one test waits for it.

    kill -9 one agent: its supervisor ends the tasks. SIGSTOP another agent and its supervisor until its tasks were
    rescheduled, then resume them: it is notified, and stops the tasks that it lost.
    """
    of_killed, of_sleeper = TaskLog(tmp_path / "killed"), TaskLog(tmp_path / "sleeper")
    server = cluster.server()
    doomed = cluster.worker(server, name="doomed", extra=("--label", "first=yes"), wait=False)
    sleeper = cluster.worker(server, name="sleeper", extra=("--label", "second=yes"))
    with server.client() as client:
        run = submit(client, of_killed.job(20, labels={"first": "yes"}))
        other = submit(client, of_sleeper.job(10, labels={"second": "yes"}))
        in_state(client, run.id, "RUNNING", 20)
        in_state(client, other.id, "RUNNING", 10)
        old = [line.pid for line in of_sleeper.lines("start")]
        cluster.worker(server, name="heir", extra=("--label", "first=yes", "--label", "second=yes"))
        supervisor = cluster.supervisors("sleeper")[0]
        supervisor.suspend()
        sleeper.signal(signal.SIGSTOP)
        doomed.kill()

        until(lambda: len(of_killed.lines("start")) == 40, "all tasks of the killed one start again")
        assert not of_killed.lines("beside")
        assert not cluster.supervisors("doomed")
        until(lambda: len(of_sleeper.lines("start")) == 20, "all tasks of the sleeper start again")
        assert all(psutil.pid_exists(pid) for pid in old), "the sleeper's tasks should not have been touched yet"
        supervisor.resume()
        sleeper.signal(signal.SIGCONT)
        until(lambda: not any(psutil.pid_exists(pid) for pid in old), "the sleeper stops what is not its own")

        of_killed.open_gate()
        of_sleeper.open_gate()
        for one in (run, other):
            assert ended(client, one.id).state == "SUCCEEDED"
            assert workers_of(client, one.id) == {"heir"}
        status = {worker.id: worker.status for worker in client.workers()}
        assert (status["sleeper"], status["heir"]) == ("ready", "ready")
    for task_log in (of_killed, of_sleeper):
        assert Counter(line.task for line in task_log.lines("end")).most_common(1)[0][1] == 1


def test_work_goes_on_when_the_leading_server_is_killed(postgres_cluster: ServerCluster, task_log: TaskLog) -> None:
    """HA-2, LIV-6: two servers on one PostgreSQL; the worker finds the leader, before and after."""
    first, second = postgres_cluster.servers(2)
    postgres_cluster.worker(first, second, name="w", cpu=8)
    with second.client() as client:
        run = submit(client, task_log.job(50))
        in_state(client, run.id, "RUNNING", 50)
        with first.client() as other:
            leader = first if other.server().leads else second
        survivor = second if leader is first else first
    leader.kill()
    task_log.open_gate()
    with survivor.client() as client:
        assert ended(client, run.id).state == "SUCCEEDED"
        assert {task.attempt for task in tasks_of(client, run.id)} == {1}
        assert ended(client, submit(client, {"name": "after", "tasks": [{"name": "a"}]}).id).state == "SUCCEEDED"
    assert len(task_log.lines("start")) == len(task_log.lines("end")) == 50


def test_any_server_accepts_an_action_on_a_run_that_another_leads(
    postgres_cluster: ServerCluster, task_log: TaskLog
) -> None:
    """Any server accepts any request, and forwards it to the leader if needed."""
    first, second = postgres_cluster.servers(2)
    postgres_cluster.worker(first, name="w")
    with first.client() as one, second.client() as other:
        assert sorted(one.server().leads + other.server().leads) == ["default"]
        run = submit(one, task_log.job(2))
        in_state(other, run.id, "RUNNING", 2)
        follower = other if one.server().leads else one
        follower.cancel_run(run.id)
        assert ended(follower, run.id).state == "CANCELLED"
    pids = [line.pid for line in task_log.lines("start")]
    until(lambda: not any(psutil.pid_exists(pid) for pid in pids), "the cancelled tasks are gone")


def test_a_stopping_worker_finishes_its_tasks_and_disconnects(cluster: ServerCluster, task_log: TaskLog) -> None:
    """WRK-9: SIGTERM drains: running tasks finish, new ones go elsewhere."""
    server = cluster.server()
    leaving = cluster.worker(server, name="leaving")
    with server.client() as client:
        run = submit(client, task_log.job(5))
        in_state(client, run.id, "RUNNING", 5)
        leaving.signal(signal.SIGTERM)
        until(lambda: client.worker("leaving").status == "leaving", "the server knows that it leaves")
        late = submit(client, {"name": "late", "tasks": [{"name": "a"}]})
        task_log.open_gate()
        assert leaving.ended() == 0
        assert ended(client, run.id).state == "SUCCEEDED"
        assert client.worker("leaving").status == "gone"
        assert client.run(late.id).state != "SUCCEEDED"
        cluster.worker(server, name="next")
        assert ended(client, late.id).state == "SUCCEEDED"
    assert not cluster.supervisors("leaving")
