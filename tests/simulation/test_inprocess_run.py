"""`Job.run()` and `mainspring.testing`: the real engine in this process, without leftovers."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mainspring import Context, Retry, TaskError, current, every, job, task, testing
from mainspring.protocol.errors import Refused
from mainspring.task_context.task_context import is_inside


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Any:
    """No run leaves a thread behind."""
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before
    assert not is_inside()


@dataclasses.dataclass
class Row:
    """A line of a table."""

    city: str
    at: datetime


@task
def fetch(city: str) -> Row:
    """One city."""
    return Row(city, datetime(2026, 1, 1, tzinfo=UTC))


@task
async def report(rows: list[Row], title: str = "of") -> str:
    """Arguments and results have their declared types."""
    await asyncio.sleep(0)
    return f"{title} {', '.join(f'{row.city} {row.at:%Y}' for row in rows)}"


@job(schedule=every("1h"))
def forecast(cities: list[str] = ["Paris", "Oslo"], title: str = "{{ title }}") -> object:  # noqa: B006 - as users do
    """The default choice."""
    return {"text": report(fetch.map(cities), title), "cities": cities}


def test_a_job_runs_in_process_with_real_results() -> None:
    result = forecast.run()
    assert result.value == {"text": "{{ title }} Paris 2026, Oslo 2026", "cities": ["Paris", "Oslo"]}
    assert [one.full_name for one in result.tasks] == ["fetch[Paris]", "fetch[Oslo]", "report"]
    assert (result.state, result.ok, result.task("fetch[Oslo]").output["city"]) == ("SUCCEEDED", True, "Oslo")
    assert forecast.run(["Rome"], title="in").value["text"] == "in Rome 2026"


async def test_it_runs_inside_a_running_event_loop() -> None:
    assert forecast.run(["Rome"]).ok


def test_invalid_parameters_are_refused_before_anything_runs() -> None:
    with pytest.raises(Refused, match="cities"):
        forecast.run(cities=3)  # type: ignore[arg-type]


@task(retries=Retry(3, backoff="1h..10h"))
def flaky(context: Context | None = None) -> list[int]:
    """Succeed at the fourth attempt, and know earlier ones from the checkpoint."""
    assert context is current()
    tried = [*(context.checkpoint or []), context.attempt]
    current().save_checkpoint(tried)
    if len(tried) < 4:
        raise OSError("not yet")
    return tried


def test_retry_delays_are_skipped_and_checkpoints_survive() -> None:
    @job
    def patient() -> object:
        return flaky()

    result = testing.run(patient)
    assert result.value == [1, 2, 3, 4]
    assert result.tasks[0].attempts == 4


def test_value_raises_the_exception_of_the_task() -> None:
    class Odd(Exception):
        """An exception of the user."""

    @task(retries=0)
    def fails() -> None:
        raise Odd("no price")

    @job
    def sad() -> object:
        return fails()

    result = sad.run()
    assert (result.state, result.tasks[0].state) == ("FAILED", "FAILED")
    assert result.tasks[0].error is not None
    assert result.tasks[0].error["message"] == "no price"
    with pytest.raises(Odd):
        _ = result.value


def test_a_permanent_error_is_not_retried() -> None:
    @task(retries=4)
    def hopeless() -> None:
        raise TaskError("gone for good")

    @job
    def once_only() -> object:
        return hopeless()

    assert testing.run(once_only).tasks[0].attempts == 1


@task
def look(n: int) -> Any:
    """A value for conditions."""
    return {"many": n > 3, "rows": list(range(n))}


@task
def double(x: int, by: int = 2) -> int:
    """A little work."""
    return by * x


@task
def total(rows: list[int], alarm: int | None = None) -> list[Any]:
    """The result."""
    return [sum(rows), alarm]


@job
def graph(n: int = 5, mode: str = "full") -> object:
    """With conditions, and a fan-out over an output."""
    seen = look(n)
    rows = double.map(seen["rows"], by=3)
    alarm = double.named("alarm").if_(seen.many & (mode == "full"))(seen.rows[0])
    return total.even_if_skipped()(rows, alarm)


@pytest.mark.parametrize(
    ("n", "mode", "value"),
    [(5, "full", [30, 0]), (5, "dry", [30, None]), (2, "full", [3, None]), (0, "full", [0, None])],
)
def test_conditions_and_fan_outs_are_those_of_the_engine(n: int, mode: str, value: object) -> None:
    result = testing.run(graph, n=n, mode=mode)
    assert result.value == value
    assert (result.task("alarm").state == "SKIPPED") is (value[1] is None)  # type: ignore[index]


def test_conditions_on_parameters_are_evaluated_too() -> None:
    @job
    def choosy(mode: str = "full") -> object:
        return double.if_(mode == "full")(1)

    assert testing.run(choosy).value == 2
    assert testing.run(choosy, mode="dry").value is None


def test_a_waiting_function_times_out_in_virtual_time() -> None:
    @task(timeout="10m", retries=0)
    async def forever() -> None:
        await asyncio.Event().wait()

    @task(timeout="10m")
    async def in_time() -> str:
        await asyncio.sleep(599)  # tidy: sleeps because the user's function does, in virtual time
        return "yes"

    @job(on_failure="skip_failed")
    def limited() -> object:
        return [forever(), in_time()]

    result = testing.run(limited)
    assert (result.state, result.task("forever").state, result.task("in_time").output) == (
        "PARTIAL",
        "TIMED_OUT",
        "yes",
    )


def test_a_computing_function_times_out() -> None:
    @task(timeout=0.2, retries=0)
    def endless() -> None:
        while True:
            pass

    @job
    def stuck() -> object:
        return endless()

    assert stuck.run().tasks[0].state == "TIMED_OUT"


def test_an_argument_of_the_wrong_type_fails_the_task_permanently() -> None:
    @job
    def mistyped() -> object:
        return double(look(1)["many"])

    result = testing.run(mistyped)
    assert result.task("double").attempts == 1
    with pytest.raises(Refused, match="argument x does not match the declared type"):
        _ = result.value


def test_a_result_that_is_not_json_fails_the_task() -> None:
    @task
    def odd() -> object:
        return object()

    @job
    def unwritable() -> object:
        return odd()

    with pytest.raises(Refused, match="can't be encoded as JSON"):
        _ = testing.run(unwritable).value


def test_a_thousand_tasks_return_in_order() -> None:
    @job
    def wide() -> object:
        return total(double.map(list(range(1_000))))

    assert testing.run(wide).value == [999_000, None]


def test_a_test_context_is_provided_and_recorded() -> None:
    with testing.context(attempt=3, checkpoint=[1, 2], params={"day": "mon"}, outputs={"a": [1]}, item="x") as context:
        assert current() is context
        assert (context.params, context.outputs, context.item) == ({"day": "mon"}, {"a": [1]}, "x")
        with pytest.raises(OSError, match="not yet"):
            flaky.fn(context)
        context.progress(50, "half")
        context.extend(60)
    assert (context.checkpoints, context.progresses, context.extensions) == ([[1, 2, 3]], [(50, "half")], [60])
    with pytest.raises(Refused):
        current()


def test_a_frozen_clock_advances_explicitly() -> None:
    clock = testing.FrozenClock()
    clock.advance("1h")
    asyncio.run(clock.sleep(60))
    assert (clock.wall() - testing.START_TIME).total_seconds() == clock.monotonic() == 3_660


def test_in_a_world_schedules_fire_as_time_advances() -> None:
    @job(schedule=every("15m"), max_active=1)
    def often() -> object:
        return flaky()

    with testing.World(forecast, often) as world:
        world.advance("59m")
        assert (len(world.runs(forecast)), len(world.runs(often))) == (0, 1)
        world.advance("1m")
        assert [run.value["cities"] for run in world.runs(forecast)] == [["Paris", "Oslo"]]
        assert world.run(forecast, ["Rome"]).value["cities"] == ["Rome"]
        assert (world.now - testing.START_TIME).total_seconds() < 3_601
        world.advance("1d")
        states = [run.state for run in world.runs(often)]
        assert states[0] == "SUCCEEDED"
        with pytest.raises(Refused, match="is not part of this World"):
            world.run(graph)


def test_a_run_writes_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert forecast.run().ok
    assert not list(tmp_path.iterdir())
