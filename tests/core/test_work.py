"""Validation of the work of tasks (WRK-3, WRK-5, ADM-1)."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.core.admission.validate_submission import check_job
from mainspring.core.work.work import KINDS, faults_in
from tests.core.builders import a_definition, a_spec
from tests.core.submissions import LIMITS, Value, body_of, refusal_of


@pytest.mark.parametrize(
    "work",
    [
        {},
        {"run": ["python", "load.py", "--day", "{{ params.day }}"], "env": {"LEVEL": "{{ task.attempt }}"}},
        {"shell": "sort < in | uniq > {{ not a template }}", "directory": "/tmp"},
        {"python": "etl.load:run.now", "args": {"day": "{{ params.day }}", "n": [1]}, "grace_seconds": 0},
        {"handler": "load-2.x", "secrets": {"A": "env:B", "C": "file:/run/c", "D": "command:pass show d"}},
    ],
)
def test_each_kind_of_work_is_accepted(work: object) -> None:
    """WRK-3."""
    assert check_job(a_definition(a_spec("a", work=work)), LIMITS) == []


@pytest.mark.parametrize(
    ("work", "where", "why"),
    [
        (7, "", "Expected `object`"),
        ({"cmd": "x"}, "", f"exactly one of {', '.join(KINDS)}; it has none"),
        ({"run": ["x"], "shell": "y"}, "", "it has run and shell"),
        ({"run": ["x", 1]}, ".run[1]", "Expected `str`, got `int`"),
        ({"run": []}, ".run", "must begin with a program"),
        ({"run": ["x", "{{ oops"]}, ".run[1]", "is not closed"),
        ({"run": ["x", "ok", "{{ secrets.x }}"]}, ".run[2]", "secrets"),
        ({"shell": " "}, ".shell", "is empty"),
        ({"shell": "x", "evn": {}}, "", "evn"),
        ({"python": "etl.load"}, ".python", "package.module:function"),
        ({"handler": "a b"}, ".handler", "1 to 100 letters"),
        ({"shell": "x", "env": {"MAINSPRING_X": "1"}}, ".env.MAINSPRING_X", "MAINSPRING_"),
        ({"shell": "x", "env": {"A": "{{ 1 +"}}, ".env.A", "not closed"),
        ({"shell": "x", "secrets": {"A": "hunter2"}}, ".secrets.A", "env:NAME"),
        ({"shell": "x", "grace_seconds": 1e9}, ".grace_seconds", "from 0 to 3600"),
    ],
)
def test_a_fault_is_reported_with_its_path(work: Value, where: str, why: str) -> None:
    """ADM-1: in the fourth task, as in any; whichever way the job comes."""
    good: list[dict[str, Value]] = [{"name": f"t{number}"} for number in range(3)]

    [(found, reason)] = refusal_of(body_of(*good, {"name": "bad", "work": work})).items()
    [fault] = check_job(a_definition(a_spec("bad", work=work)), LIMITS)

    assert found == f"tasks[3].work{where}"
    assert why in reason
    assert (fault.where, fault.why) == (f"tasks[0].work{where}", reason)


def test_each_distinct_work_is_checked_once_and_every_bad_one_reported() -> None:
    """Tasks of one job share most of their templates: what was good is good, what was bad is named each time."""
    bad: Value = {"run": ["x", "{{ oops"]}
    tasks: list[dict[str, Value]] = [{"name": f"t{number}", "work": bad} for number in range(3)]

    assert list(refusal_of(body_of(*tasks))) == [f"tasks[{number}].work.run[1]" for number in range(3)]


def test_cached_templates_are_not_checked_again() -> None:
    """Their faults are reused."""
    text = msgspec.json.encode({"run": ["x", "{{ params.day }}"]})

    assert list(faults_in(text, "work")) == []
    [fault] = faults_in(text, "work", {"x": None, "{{ params.day }}": "is known to be bad"})
    assert fault.why == "is known to be bad"
