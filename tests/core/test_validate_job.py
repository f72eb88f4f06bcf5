"""The rules of a job, one by one (ADM-1, SEC-6)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from mainspring.core.admission.validate_job import MAX_CONDITIONS, MAX_LABELS, MAX_PLAUSIBLE, MAX_TIMEOUT_SECONDS
from mainspring.core.admission.validate_submission import Limits, check_job, decode_job
from mainspring.core.model.job import TaskSpec, compile_job
from mainspring.core.model.resources import NAMES, Resources, format_amount
from mainspring.core.text.strict_json import fault_in_text
from mainspring.protocol.errors import Fault
from tests.core.builders import a_definition, a_spec
from tests.core.submissions import LIMITS, Value, a_big_job, body_of, refusal_of
from tests.core.test_graph import any_graphs, has_cycle


@pytest.mark.parametrize(
    ("field", "value", "where", "why"),
    [
        ("name", "Has Space", "name", "is not a valid name"),
        ("name", "", "name", "is not a valid name"),
        ("name", "x" * 129, "name", "is not a valid name"),
        ("name", "naïve", "name", "is not a valid name"),
        ("name", "a/b", "name", "is not a valid name"),
        ("name", "a\n", "name", "is not a valid name"),
        ("name", None, "name", "expected `str`, got `null`"),
        ("nam", "x", "nam", "did you mean name?"),
        ("max_atempts", 3, "max_atempts", "did you mean max_attempts?"),
        ("timeout", 3, "timeout", "did you mean timeout_seconds?"),
        ("quux", 3, "quux", "is unknown; known: name, work"),
        ("max_attempts", 0, "max_attempts", "must be from 1 to 5, not 0"),
        ("max_attempts", 6, "max_attempts", "must be from 1 to 5, not 6"),
        ("max_attempts", -(2**63), "max_attempts", "must be from 1 to 5"),
        ("max_attempts", 2.0, "max_attempts", "expected `int`, got `float`"),
        ("max_attempts", True, "max_attempts", "expected `int`, got `bool`"),
        ("retry_delay_seconds", -1, "retry_delay_seconds", "must be from 0 to 604800 seconds, not -1"),
        ("retry_delay_seconds", 604_801, "retry_delay_seconds", "must be from 0 to 604800"),
        ("timeout_seconds", 0, "timeout_seconds", "must be from more than 0"),
        ("timeout_seconds", -5, "timeout_seconds", "must be from more than 0"),
        ("timeout_seconds", 1e300, "timeout_seconds", "not 1e+300"),
        ("timeout_seconds", "60", "timeout_seconds", "expected `float | null`, got `str`"),
        ("soft_timeout_seconds", 0, "soft_timeout_seconds", "must be from more than 0"),
        ("stall_seconds", -1, "stall_seconds", "must be from more than 0"),
        ("expected_seconds", 0, "expected_seconds", "must be from more than 0"),
        ("zone", "EU 1", "zone", "is not a valid name"),
        ("on_skip", "maybe", "on_skip", "must be one of skip, run"),
        ("labels", {"a b": "c"}, "labels['a b']", "is not a label"),
        ("labels", {"a": ""}, "labels.a", "is not a label"),
        ("labels", {"a": "x" * 129}, "labels.a", "is not a label"),
        ("labels", {"a": 1}, "labels", "expected `str`, got `int`"),
        ("labels", {f"k{n}": "v" for n in range(MAX_LABELS + 1)}, "labels", "has 33 entries; the maximum is 32"),
        ("resources", {"cpu_millis": -1}, "resources.cpu_millis", "is negative: -1"),
        ("resources", {"memory_bytes": 2**62}, "resources.memory_bytes", "is implausible"),
        ("resources", {"gpus": 10_001}, "resources.gpus", "is implausible"),
        ("resources", {"disk_bytes": -(2**63)}, "resources.disk_bytes", "is negative"),
        ("resources", {"cpu": 1}, "resources.cpu", "did you mean cpu_millis?"),
        ("resources", {"gpus": 0.5}, "resources.gpus", "expected `int`, got `float`"),
        ("resources", [], "resources", "must be an object, not a list"),
        ("needs", "x", "needs", "must be a list, not a string"),
        ("needs", ["x"], "needs[0]", "must be an object, not a string"),
        ("needs", [{}], "needs[0].task", "is missing"),
        ("needs", [{"task": "ghost"}], "needs[0].task", "unknown task 'ghost'"),
        ("needs", [{"task": "othr"}], "needs[0].task", "did you mean other?"),
        ("needs", [{"task": "x"}], "needs[0].task", "a task can't need itself"),
        ("needs", [{"task": "other"}, {"task": "other"}], "needs[1].task", "duplicate task other"),
        ("needs", [{"task": "other", "wen": "1"}], "needs[0].wen", "did you mean when?"),
        ("needs", [{"task": "other", "when": "output.x >"}], "needs[0].when", "can't be parsed"),
        ("needs", [{"task": "other", "when": "env.HOME == 1"}], "needs[0].when", "uses undefined env"),
        ("needs", [{"task": "other", "when": ""}], "needs[0].when", "is empty"),
        ("needs", [{"task": "other", "when": "'a' * 10"}], "needs[0].when", "times"),
        ("work", "x" * 300_000, "work", "larger than 262144 bytes"),
    ],
)  # fmt: skip
def test_each_rule_of_a_task_is_reported_with_its_path(field: str, value: Value, where: str, why: str) -> None:
    """ADM-1: one wrong thing, one fault; beside a task that is good."""
    task = {"name": "x", field: value} if field != "nam" else {"name": "x", "nam": value}
    [(path, reason)] = refusal_of(body_of({"name": "other"}, task)).items()
    assert path.startswith(f"tasks[1].{where}")
    assert why in reason


def test_a_cycle_is_reported_in_order() -> None:
    """ADM-1: `a → b → c → a`, as work would flow."""
    needs = {"x": [], "a": ["c", "x"], "b": ["a"], "c": ["b"], "after": ["c"]}
    body = body_of(*({"name": name, "needs": [{"task": one} for one in of]} for name, of in needs.items()))
    assert refusal_of(body) == {"tasks[1].needs": "cycle: a → b → c → a"}


def test_several_cycles_are_all_reported() -> None:
    """ADM-1."""
    needs = {"a": "b", "b": "a", "c": "d", "d": "c", "e": "f", "f": "e"}
    found = refusal_of(body_of(*({"name": name, "needs": [{"task": of}]} for name, of in needs.items())))
    assert sorted(found.values()) == [f"cycle: {one}" for one in ("a → b → a", "c → d → c", "e → f → e")]


@given(any_graphs())
def test_a_graph_is_accepted_exactly_if_it_can_be_ordered(needs: list[list[int]]) -> None:
    """ADM-1, I-43: what is admitted compiles, what is refused has a cycle."""
    spec = a_definition(*(a_spec(f"t{node}", *(f"t{one}" for one in of)) for node, of in enumerate(needs)))
    faults = check_job(spec, LIMITS)
    assert bool(faults) is has_cycle(needs)
    if not faults:
        compile_job("job_1", decode_job(msgspec.json.encode(spec), LIMITS))


def test_a_long_cycle_is_reported_with_its_ends() -> None:
    """ADM-1: the answer stays short."""
    [reason] = refusal_of(a_big_job(20_000, lambda number: [(number - 1) % 20_000])).values()
    assert reason.startswith("cycle: t0 → t1 → t2")
    assert "(19980 more)" in reason
    assert reason.endswith("t19999 → t0")


def test_edges_are_bounded() -> None:
    """SEC-6: a graph is more than its tasks."""
    body = a_big_job(50, lambda number: list(range(number)))
    assert "edges; the maximum is 1000" in refusal_of(body, Limits(max_edges=1_000))["tasks"]


def test_conditions_of_one_task_are_bounded() -> None:
    """SEC-6: the shard evaluates them all at one moment."""
    tasks = [{"name": f"t{n}"} for n in range(MAX_CONDITIONS + 1)]
    end = {"name": "end", "needs": [{"task": one["name"], "when": "output.ok"} for one in tasks]}
    [reason] = refusal_of(body_of(*tasks, end)).values()
    assert reason == "has 65 conditions; the maximum is 64"


@pytest.mark.parametrize("name", NAMES)
def test_resources_are_limited_by_tenant_and_pool(name: str) -> None:
    """ADM-1: within both if they are declared, else accepted."""
    task = a_spec("a", resources=msgspec.structs.replace(Resources(), **{name: 5}))
    less = msgspec.structs.replace(MAX_PLAUSIBLE, **{name: 4})
    enough = msgspec.structs.replace(MAX_PLAUSIBLE, **{name: 5})
    assert check_job(a_definition(task), Limits()) == []
    assert check_job(a_definition(task), Limits(max_resources=enough, pool_max=enough)) == []
    [by_tenant] = check_job(a_definition(task), Limits(max_resources=less))
    [by_pool] = check_job(a_definition(task), Limits(pool_max=less))
    five, four = format_amount(name, 5), format_amount(name, 4)
    assert by_tenant == Fault(where=f"tasks[0].resources.{name}", why=f"is {five}; the tenant's limit is {four}")
    assert by_pool == Fault(where=f"tasks[0].resources.{name}", why=f"is {five}; the pool's limit is {four}")


@pytest.mark.parametrize(
    ("task", "where"),
    [
        (a_spec("a\0"), "name"),
        (a_spec("a", "gh\0st"), "needs[0].task"),
        (a_spec("a", timeout_seconds=float("nan")), "timeout_seconds"),
        (a_spec("a", retry_delay_seconds=float("nan")), "retry_delay_seconds"),
        (a_spec("a", retry_delay_seconds=float("inf")), "retry_delay_seconds"),
        (a_spec("a", timeout_seconds=MAX_TIMEOUT_SECONDS * 2), "timeout_seconds"),
        (a_spec("a", expected_seconds=float("-inf")), "expected_seconds"),
        (a_spec("a", max_attempts=10**400), "max_attempts"),
        (a_spec("a", resources=Resources(10**400)), "resources.cpu_millis"),
        (a_spec("a", resources=Resources(-(10**400))), "resources.cpu_millis"),
        (a_spec("a", zone="\ud800"), "zone"),
        (a_spec("a", labels={"a": "\0"}), "labels.a"),
        (a_spec("a", work="\0"), "work"),
        (a_spec("a", work={"x": ["\0"]}), "work.x[0]"),
        (TaskSpec(name="a", work=msgspec.Raw(b'{"a":NaN}')), "work.a"),
        (TaskSpec(name="a", work=msgspec.Raw(b"\xff")), "work"),
        (TaskSpec(name="a", work=msgspec.Raw(b"")), "work"),
        (TaskSpec(name="a", work=msgspec.Raw(b'"' + b"x" * 300_000 + b'"')), "work"),
    ],
)
def test_a_job_built_by_code_is_checked_by_the_same_rules(task: TaskSpec, where: str) -> None:
    """ADM-1: no NUL, lone surrogate or NaN in any text or number, whichever way it comes."""
    [fault] = check_job(a_definition(task), LIMITS)
    assert fault.where == f"tasks[0].{where}"
    assert fault_in_text(fault.why) is None
    assert len(fault.why) < 200
