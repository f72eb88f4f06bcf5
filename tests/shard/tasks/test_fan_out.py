"""Fan-out: a task for each item of a list, and tasks that wait for all of them (DAG-2)."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.core.model.alerts import OUTBOX_KIND, Alert, AlertKind
from mainspring.core.model.job import JobSpec, OnSkip
from mainspring.core.model.run import FailurePolicy, RunState
from mainspring.core.model.task import RetryState, TaskState
from mainspring.protocol.wire import Assign, Assignment, Outcome
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from tests.shard.jobs import job, task
from tests.shard.world import World

S = TaskState


def fan_out(**fields: object) -> JobSpec:
    """`list` returns a list, `fetch` runs for each item, `report` waits for all."""
    return job(
        task("list"),
        task("fetch", "list", for_each="outputs.list.files", max_attempts=1),
        task("report", "fetch"),
        **fields,  # type: ignore[arg-type]
    )


def given_fan_out(world: World, items: list[object], *, cores: int = 8, **fields: object) -> None:
    """A run whose list is known."""
    world.register("w1", cores=cores)
    world.submit(fan_out(**fields))
    world.start("list")
    world.succeed("list", output=msgspec.json.encode({"files": items}).decode())


def assignment(world: World, name: str) -> Assignment:
    """The latest assignment of a task."""
    row = world.task(name)
    sent = [one for message in world.said_to("w1", Assign) for one in message.group]  # type: ignore[union-attr]
    return [one for one in sent if one.task == row.id][-1]


def test_each_item_gets_a_task_with_its_item_and_index(world: World) -> None:
    given_fan_out(world, ["a.csv", {"x": 1}, 3])
    rows = world.members("fetch")
    assert [row.state for row in rows] == [S.ASSIGNED] * 3
    assert [row.id for row in rows] == ["task_0001.1", "task_0001.1.1.1", "task_0001.1.1.2"]
    assert [row.origin.label for row in rows if row.origin] == ["a.csv", "1", "3"]
    told = [assignment(world, f"fetch[{number}]") for number in range(3)]
    assert [one.item for one in told] == ['"a.csv"', '{"x":1}', "3"]
    assert [(one.partition, one.total) for one in told] == [(0, 3), (1, 3), (2, 3)]
    assert world.run().task_count == 5


def test_a_fan_in_waits_for_all_members_and_gets_outputs_in_order(world: World) -> None:
    given_fan_out(world, ["a", "b", "c"])
    for number in (2, 0):
        world.succeed(f"fetch[{number}]", output=f'"{number}"')
        assert world.task("report").state is S.PENDING
    world.succeed("fetch[1]")
    assert world.task("report").state is S.ASSIGNED
    assert assignment(world, "report").inputs == {"fetch": '["0",null,"2"]'}
    world.succeed("report")
    assert world.run().state is RunState.SUCCEEDED


def test_an_empty_list_skips_the_task_and_its_descendants(world: World) -> None:
    given_fan_out(world, [])
    assert world.states() == {"list": S.SUCCEEDED, "fetch": S.SKIPPED, "report": S.SKIPPED}
    assert "list is empty" in world.task("fetch").because


def test_a_task_that_runs_after_skips_runs_after_an_empty_list(world: World) -> None:
    world.register("w1")
    world.submit(
        job(task("fetch", for_each="params.files"), task("report", "fetch", on_skip=OnSkip.RUN)), params='{"files":[]}'
    )
    assert world.states() == {"fetch": S.SKIPPED, "report": S.ASSIGNED}


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ('{"files": {"a": 1}}', "evaluates to {\"a\": 1}, not a list"),
        ('{"files": "abc"}', "not a list"),
        ('{"files": -1}', "the number of tasks must be from 0 to"),
        ('{"files": 250001}', "the number of tasks must be from 0 to"),
        ('{"other": []}', "`list` has no `files`"),
        ("[1]", "`list` is not an object"),
        (None, "`list` is not an object"),
    ],
)  # fmt: skip
def test_a_value_that_is_not_a_list_fails_the_task(world: World, output: str | None, why: str) -> None:
    world.register("w1")
    world.submit(fan_out())
    world.succeed("list", output=output)
    row = world.task("fetch")
    assert row.state is S.FAILED
    assert why in row.because
    assert why in msgspec.json.decode(row.error or "{}")["message"]
    assert world.run().state is RunState.FAILED


def test_a_number_gives_that_many_items(world: World) -> None:
    world.register("w1", cores=4)
    world.submit(job(task("part", for_each="params.parts", label="part {{ partition }}")), params='{"parts": 3}')
    assert [row.origin.label for row in world.members("part") if row.origin] == ["part 0", "part 1", "part 2"]


def test_labels_tell_tasks_apart(world: World) -> None:
    given_fan_out(world, ["a", "a", "a#1", None, "x" * 200])
    assert [row.origin.label for row in world.members("fetch") if row.origin] == ["a", "a#1", "a#1#2", "3", "4"]


def test_a_failure_of_one_under_fail_fast_ends_the_others(world: World) -> None:
    given_fan_out(world, ["a", "b", "c"], cores=2)
    world.start("fetch[0]")
    world.fail("fetch[0]")
    world.stop("fetch[1]")
    assert [row.state for row in world.members("fetch")] == [S.FAILED, S.CANCELLED, S.CANCELLED]
    assert world.task("report").state is S.CANCELLED
    assert world.run().state is RunState.FAILED


def test_under_skip_failed_the_fan_in_gets_the_failed_members(world: World) -> None:
    given_fan_out(world, ["a", "b"], on_failure=FailurePolicy.SKIP_FAILED)
    world.succeed("fetch[0]", output="1")
    world.fail("fetch[1]")
    told = assignment(world, "report")
    assert (told.inputs, told.failed_upstreams) == ({"fetch": "[1,null]"}, ("fetch[b]",))
    world.succeed("report")
    assert world.run().state is RunState.PARTIAL


def test_a_condition_on_a_fan_out_sees_the_list(world: World) -> None:
    world.register("w1", cores=4)
    world.submit(
        job(task("fetch", for_each="params.n"), task("report", "fetch", when={"fetch": "output|sum > 2"})),
        params='{"n": 2}',
    )
    world.succeed("fetch[0]", output="1")
    world.succeed("fetch[1]", output="1")
    assert world.task("report").state is S.SKIPPED


def test_a_fan_out_over_a_fan_out(world: World) -> None:
    world.register("w1", cores=8)
    world.submit(
        job(task("a", for_each="params.n"), task("b", "a", for_each="outputs.a"), task("c", "b")), params='{"n": 2}'
    )
    world.succeed("a[0]", output='"x"')
    world.succeed("a[1]", output='"y"')
    assert [assignment(world, f"b[{number}]").item for number in (0, 1)] == ['"x"', '"y"']
    for number in (0, 1):
        world.succeed(f"b[{number}]")
    world.succeed("c")
    assert world.run().state is RunState.SUCCEEDED


@pytest.mark.parametrize("turns", [1, 2, 3, 5])
def test_a_new_leader_creates_exactly_the_remaining_members(world: World, turns: int) -> None:
    world.register("w1", cores=2)
    world.submit(fan_out())
    with world.rows_per_turn(8):
        world.turn(world.result("list", Outcome.SUCCEEDED, output='{"files": 40}'))
        for _ in range(turns):
            world.turn()
        world.new_leader()
        world.settle()
    world.reconnect("w1")
    world.settle()
    assert len(world.members("fetch")) == 40
    for number in range(40):
        world.settle()
        assert world.task("report").state is S.PENDING
        world.succeed(f"fetch[{number}]", output=f"{number}")
    assert assignment(world, "report").inputs == {"fetch": msgspec.json.encode(list(range(40))).decode()}


def test_one_of_many_is_retried_alone(world: World) -> None:
    given_fan_out(world, ["a", "b"], on_failure=FailurePolicy.FAIL_AFTER_ALL)
    world.succeed("fetch[0]", output="0")
    world.fail("fetch[1]")
    assert world.run().state is RunState.FAILED
    assert world.reply(happened.ReopenTask, task="fetch[1]") is ActionStatus.DONE
    assert world.task("fetch[0]").state is S.SUCCEEDED
    assert assignment(world, "fetch[1]").item == '"b"'
    world.succeed("fetch[1]", output="1")
    assert assignment(world, "report").inputs == {"fetch": "[0,1]"}
    world.succeed("report")
    assert world.run().state is RunState.SUCCEEDED


def test_the_first_of_many_is_retried_alone(world: World) -> None:
    given_fan_out(world, ["a", "b"], on_failure=FailurePolicy.FAIL_AFTER_ALL)
    world.succeed("fetch[1]", output="1")
    world.fail("fetch[0]")
    assert world.reply(happened.ReopenTask, task="fetch") is ActionStatus.DONE
    assert (world.task("fetch[0]").generation, len(world.members("fetch"))) == (2, 2)
    world.new_leader()
    world.reconnect("w1")
    world.succeed("fetch[0]", output="0")
    world.succeed("report")
    assert world.run().state is RunState.SUCCEEDED


def test_a_retry_of_the_list_source_rebuilds_the_fan_out(world: World) -> None:
    given_fan_out(world, ["a", "b", "c"], cores=3)
    world.succeed("fetch[0]")
    world.start("fetch[1]")
    old = [row.id for row in world.members("fetch")[1:]]
    assert world.reply(happened.ReopenTask, task="list") is ActionStatus.DONE
    assert world.task("task_0001.1").state is S.PENDING
    assert world.reply(happened.ReopenTask, task=old[0]) is ActionStatus.REFUSED
    world.stop(*old)
    assert [world.task(one).state for one in old] == [S.CANCELLED] * 2
    world.succeed("list", output='{"files": ["x"]}')
    world.succeed("fetch[0]", output="1")
    assert assignment(world, "report").inputs == {"fetch": "[1]"}
    world.succeed("report")
    assert world.run().state is RunState.SUCCEEDED
    assert [world.task(one).origin.replaced for one in old] == [True] * 2  # type: ignore[union-attr]


def test_a_running_first_member_is_stopped_before_the_list_is_rebuilt(world: World) -> None:
    given_fan_out(world, ["a", "b"], cores=3)
    world.start("fetch[0]")
    world.action(happened.ReopenTask, task="list")
    world.succeed("list", output='{"files": ["x", "y"]}')
    head, old = world.task("task_0001.1"), world.task("task_0001.1.1.1")
    assert (head.state, head.stop is not None) == (S.RUNNING, True)
    world.stop(head.id, old.id)
    assert [row.id for row in world.members("fetch")] == ["task_0001.1", "task_0001.1.2.1"]
    for number in (0, 1):
        world.succeed(f"fetch[{number}]")
    world.succeed("report")
    assert world.run().state is RunState.SUCCEEDED


def test_a_failed_list_is_rebuilt_with_its_source(world: World) -> None:
    world.register("w1", cores=3)
    world.submit(fan_out())
    world.succeed("list", output="{}")
    assert world.run().state is RunState.FAILED
    assert world.reply(happened.ReopenTask, task="list") is ActionStatus.DONE
    world.succeed("list", output='{"files": 1}')
    world.succeed("fetch[0]")
    world.succeed("report")
    assert world.run().state is RunState.SUCCEEDED


def test_cancelling_a_run_that_fans_out_leaves_nothing_open(world: World) -> None:
    world.register("w1", cores=2)
    world.submit(fan_out())
    with world.rows_per_turn(4):
        world.turn(world.result("list", Outcome.SUCCEEDED, output='{"files": 30}'))
        world.turn(world.asked(happened.CancelRun))
        world.settle()
    world.stop(*[row.id for row in world.members("fetch") if row.worker_id is not None])
    assert world.run().state is RunState.CANCELLED
    assert len(world.members("fetch")) == 30


def test_inputs_that_are_too_large_fail_the_task(world: World) -> None:
    given_fan_out(world, list(range(9)), cores=9)
    for number in range(9):
        world.succeed(f"fetch[{number}]", output=f'"{"x" * 1_000_000}"')
    row = world.task("report")
    assert row.state is S.FAILED
    assert "9000028 characters" in row.because


def test_fan_out_past_the_limit_pauses_the_run_and_alerts_until_resumed(world: World) -> None:
    given_fan_out(world, ["a", "b", "c"], max_fan_out=2)
    row = world.task("fetch")
    assert (row.state, world.run().state) == (S.PENDING, RunState.PAUSED)
    assert row.trail == RetryState(fan_out_limit=(3, 2))
    assert [(alert.details["items"], alert.details["allowed"]) for alert in limit_alerts(world)] == [(3, 2)]
    world.new_leader()
    world.reconnect("w1")
    world.advance(5, heard=["w1"])
    assert world.task("fetch").state is S.PENDING
    assert world.reply(happened.ResumeRun) is ActionStatus.DONE
    assert [row.state for row in world.members("fetch")] == [S.ASSIGNED] * 3
    assert [alert.resolved for alert in limit_alerts(world)] == [False, True]


def test_a_list_of_ten_thousand_and_one_is_one_too_long(world: World) -> None:
    world.submit(job(task("fetch", for_each="params.n")), params='{"n": 10001}')
    assert world.run().state is RunState.PAUSED
    assert world.task("fetch").trail == RetryState(fan_out_limit=(10_001, 10_000))


def test_a_list_past_the_limit_can_be_cancelled(world: World) -> None:
    given_fan_out(world, ["a", "b", "c"], max_fan_out=2)
    assert world.reply(happened.CancelRun) is ActionStatus.DONE
    assert world.run().state is RunState.CANCELLED
    assert [alert.resolved for alert in limit_alerts(world)] == [False, True]


def test_resume_does_not_allow_a_fan_out_whose_limit_was_not_reported(world: World) -> None:
    """The list arrives while the run is paused for another reason."""
    world.register("w1", cores=4)
    world.submit(fan_out(max_fan_out=2))
    world.start("list")
    world.action(happened.PauseRun)
    world.succeed("list", output='{"files": 3}')
    world.action(happened.ResumeRun)
    assert (world.task("fetch").state, world.run().state) == (S.PENDING, RunState.PAUSED)
    world.action(happened.ResumeRun)
    assert len(world.members("fetch")) == 3


def test_a_fan_out_beyond_the_tasks_per_run_limit_fails(world: World) -> None:
    world.register("w1")
    spec = job(task("list"), task("fetch", for_each="params.n"), max_fan_out=250_000)
    world.submit(spec, params='{"n": 250000}')
    assert world.task("fetch").state is S.FAILED
    assert "limit of 250000 tasks" in world.task("fetch").because


def limit_alerts(world: World) -> list[Alert]:
    """Alerts about fan-out limits."""
    told = [msgspec.json.decode(row.payload, type=Alert) for row in world.ledger.outbox if row.kind == OUTBOX_KIND]
    return [alert for alert in told if alert.kind is AlertKind.FAN_OUT_LIMIT]


def test_nested_fan_outs_are_rebuilt_with_their_list(world: World) -> None:
    world.register("w1", cores=8)
    world.submit(
        job(
            task("list"), task("a", "list", for_each="outputs.list"), task("b", "list", "a", for_each="outputs.a"),
            task("c", "b"),
        )
    )  # fmt: skip
    world.succeed("list", output="2")
    world.succeed("a[0]", "a[1]")
    world.succeed("b[0]")
    world.start("b[1]")
    old = world.task("b[1]").id
    world.action(happened.ReopenTask, task="list")
    assert [world.task(f"task_0001.{position}").state for position in (1, 2)] == [S.PENDING, S.PENDING]
    world.stop(old)
    world.succeed("list", output="1")
    world.succeed("a[0]")
    world.succeed("b[0]")
    world.succeed("c")
    assert world.run().state is RunState.SUCCEEDED


def test_a_rejected_report_of_a_replaced_task_blocks_nothing(world: World) -> None:
    given_fan_out(world, ["a", "b"])
    world.start("fetch[1]")
    old = world.task("fetch[1]").id
    world.action(happened.ReopenTask, task="list")
    world.reject(world.result(old, Outcome.STOPPED), "bad")
    assert world.task(old).state is S.CANCELLED
