"""`@job`: a body becomes a definition."""

from __future__ import annotations

import dataclasses
from datetime import date
from typing import Any, TypedDict

import pytest

from mainspring import Retry, job, task
from mainspring.protocol.errors import Refused


@task
def fetch(city: str, unit: str = "C") -> Any:
    """One city."""
    return {"city": city, "unit": unit}


@task(retries=Retry(3, backoff="2s..60s"), timeout="10m", soft_timeout="5m", stall="1m", cpu=2, gpus=1, zone="eu")
async def report(rows: list[dict[str, Any]]) -> str:
    """All of them."""
    return str(len(rows))


@task(name="Ask.Around")
def check(**questions: object) -> Any:
    """Anything."""
    return questions


def _tasks(of: Any) -> dict[str, Any]:
    return {one["name"]: one for one in of.definition()["tasks"]}


def _values(of: Any, name: str) -> Any:
    return _tasks(of)[name]["work"]["values"]


def test_calls_become_tasks_with_dependencies() -> None:
    @job
    def chain() -> object:
        return report([fetch("Oslo"), fetch("Rome", unit="F")])

    tasks = _tasks(chain)
    assert list(tasks) == ["fetch", "fetch-2", "report"]
    assert tasks["fetch"] == {"name": "fetch", "work": {"handler": "fetch", "values": {"city": "Oslo"}}}
    assert tasks["report"]["needs"] == [{"task": "fetch"}, {"task": "fetch-2"}]
    assert _values(chain, "report") == {"rows": [{"$": "outputs.fetch"}, {"$": "outputs['fetch-2']"}]}


def test_decorator_options_are_in_the_definition() -> None:
    @job(
        on_failure="skip_failed", timeout="1h", labels={"team": "ml"}, max_retries=7, max_fan_out=9,
        finish_within="45m", escalate=False,
    )  # fmt: skip
    def all_of_it() -> object:
        """What it is for.

        And more.
        """
        return report([])

    said = _tasks(all_of_it)["report"]
    assert (said["max_attempts"], said["retry_delay_seconds"], said["retry"]) == (4, 2.0, {"cap_seconds": 60.0})
    assert (said["timeout_seconds"], said["soft_timeout_seconds"], said["stall_seconds"]) == (600.0, 300.0, 60.0)
    assert said["resources"] == {"cpu_millis": 2000, "memory_bytes": 256 * 1024 * 1024, "gpus": 1}
    assert said["zone"] == "eu"
    whole = {key: value for key, value in all_of_it.definition().items() if key != "tasks"}
    assert whole == {
        "name": "all_of_it", "on_failure": "skip_failed", "timeout_seconds": 3600.0, "max_retries": 7,
        "max_fan_out": 9, "labels": {"team": "ml"}, "description": "What it is for.", "finish_within_seconds": 2700.0,
        "escalate": False,
    }  # fmt: skip


def test_parts_of_outputs_and_parameters_are_paths() -> None:
    @job
    def parts(day: str, options: dict[str, Any] = {"deep": [1, 2]}) -> None:  # noqa: B006 - as users write it
        seen = check(day=day)
        check(a=seen["rows"][0], b=options["deep"][1], c={"x": [seen.first.name]}, d=options["other"], e=seen["x y"])

    assert _values(parts, "ask.around") == {"day": {"$": "params.day"}}
    assert _values(parts, "ask.around-2") == {
        "a": {"$": "outputs['ask.around'].rows[0]"},
        "b": {"$": "params.options.deep[1]", "default": 2},
        "c": {"x": [{"$": "outputs['ask.around'].first.name"}]},
        "d": {"$": "params.options.other"},
        "e": {"$": "outputs['ask.around']['x y']"},
    }


class Place(TypedDict):
    """Somewhere."""

    name: str


@dataclasses.dataclass
class Span:
    """Some days."""

    start: date
    place: Any


def test_constants_are_kept_exactly() -> None:
    @job
    def constants() -> None:
        first = fetch("a")
        check(text="{{ params.x }}", mark={"$": 1, "$$": 2}, span=Span(date(2026, 1, 2), first), pair=(1, None))

    assert _values(constants, "ask.around") == {
        "text": "{{ params.x }}",
        "mark": {"$$": 1, "$$$": 2},
        "span": {"start": "2026-01-02", "place": {"$": "outputs.fetch"}},
        "pair": [1, None],
    }


def test_map_is_a_fan_out_over_a_parameter_a_list_or_an_output() -> None:
    @job
    def wide(cities: list[str], towns: list[str] = ["Oslo"]) -> object:  # noqa: B006 - as users write it
        first = fetch.map(cities)
        fetch.map(towns)
        fetch.labeled("{{ item.x }}").map(({"x": 1}, {"x": 2}), unit="F")
        fetch.map(first)
        return report(first)

    tasks = _tasks(wide)
    assert [tasks[name]["for_each"] for name in ("fetch", "fetch-2", "fetch-3", "fetch-4")] == [
        "params.cities", 'params.towns|default(["Oslo"])', '[{"x":1},{"x":2}]', "outputs.fetch",
    ]  # fmt: skip
    assert _values(wide, "fetch-3") == {"city": {"$": "item"}, "unit": "F"}
    assert tasks["fetch-3"]["label"] == "{{ item.x }}"
    assert tasks["fetch-4"]["needs"] == [{"task": "fetch"}]
    assert _values(wide, "report") == {"rows": {"$": "outputs.fetch", "default": []}}


def test_conditions_belong_to_edges() -> None:
    @job
    def careful(mode: str = "full", most: int | None = None) -> None:
        one, two = fetch("a"), fetch("b")
        check.named("simple").if_(one.ok)(x=1)
        check.named("both").if_((one["rows"] > 3) & (two.name != "it's") & (mode == "full"))(x=one)
        check.named("either").if_((one.a == one.b) | ~(one.c <= 1.5))(x=1)
        check.named("params").if_(mode == "full").if_(most == None)(x=1)  # noqa: E711 - a condition in the making
        report.named("last").after(one, two).even_if_skipped()([])

    tasks = _tasks(careful)
    assert tasks["simple"]["needs"] == [{"task": "fetch", "when": "output.ok"}]
    assert tasks["both"]["needs"] == [
        {"task": "fetch", "when": '(output.rows > 3) and ((params.mode|default("full")) == "full")'},
        {"task": "fetch-2", "when": 'output.name != "it\'s"'},
    ]
    assert tasks["either"]["needs"] == [{"task": "fetch", "when": "(output.a == output.b) or (not (output.c <= 1.5))"}]
    assert tasks["start"] == {"name": "start"}
    assert tasks["params"]["needs"] == [
        {
            "task": "start",
            "when": '((params.mode|default("full")) == "full") and ((params.most|default(none)) == none)',
        }
    ]
    assert (tasks["last"]["needs"], tasks["last"]["on_skip"]) == ([{"task": "fetch"}, {"task": "fetch-2"}], "run")


def test_outside_of_a_job_a_task_stays_a_function() -> None:
    assert fetch("Oslo") == fetch.fn("Oslo") == {"city": "Oslo", "unit": "C"}
    assert fetch.map(["Oslo"], unit="F") == [{"city": "Oslo", "unit": "F"}]
    assert fetch.named("other")("Rome")["city"] == "Rome"


def test_the_body_is_called_once_and_lazily() -> None:
    calls = []

    @job
    def counted() -> object:
        calls.append(1)
        return fetch("a")

    assert not calls
    counted.definition(), counted.plan(), counted.definition()
    assert len(calls) == 1


class Money(TypedDict):
    """An amount."""

    amount: float
    currency: str


def test_parameters_are_converted_and_all_faults_are_reported() -> None:
    @job
    def typed(day: date, prices: list[Money], span: Span | None = None, count: int = 3) -> object:
        return check(day=day, prices=prices, span=span, count=count)

    price: Money = {"amount": 1.5, "currency": "EUR"}
    assert typed.bind((date(2026, 1, 2),), {"prices": [price]}) == {
        "day": "2026-01-02", "prices": [price], "span": None, "count": 3,
    }  # fmt: skip
    with pytest.raises(Refused) as refused:
        typed.bind((), {"prices": [{"amount": "x", "currency": "EUR"}], "pricse": 4, "count": "5"})
    assert {fault.where for fault in refused.value.faults} == {"pricse", "day", "prices[0].amount", "count"}
    assert "did you mean prices?" in str(refused.value)
    with pytest.raises(Refused, match="day is given twice"):
        typed.bind((date(2026, 1, 2),), {"day": date(2026, 1, 2), "prices": []})


def test_placement_and_group_options() -> None:
    """PLC-3, PLC-12: options of the decorators are fields of the definition."""

    @task
    def first() -> int:
        return 1

    @task(prefer={"disk": "ssd"}, prefer_zone="z1", affinity=["first"], anti_affinity=["second"], groups=["gpu"])
    def second(one: int) -> int:
        return one

    @job(pool="eu", groups=["nightly"])
    def placed() -> int:
        return second(first())

    definition = placed.definition()
    assert (definition["pool"], definition["groups"]) == ("eu", ["nightly"])
    said = next(one for one in definition["tasks"] if one["name"] == "second")
    assert {name: said[name] for name in ("prefer", "prefer_zone", "affinity", "anti_affinity", "groups")} == {
        "prefer": {"disk": "ssd"}, "prefer_zone": "z1", "affinity": ["first"], "anti_affinity": ["second"],
        "groups": ["gpu"],
    }  # fmt: skip


def test_a_string_is_not_a_list_of_names() -> None:
    """It would be split into letters."""
    with pytest.raises(Refused, match="a list of names, not 'first'"):
        task(name="second", affinity="first")(lambda: None)
