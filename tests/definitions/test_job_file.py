"""Job files: the short form, the strict form, and error messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.core.admission.validate_submission import Limits, decode_job
from mainspring.core.lifecycle.failure_policy import FailureClass
from mainspring.core.work.work import KINDS
from mainspring.definitions.job_file import read_definition
from mainspring.protocol.errors import Fault, InvalidFile, Refused

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def strict(text: str) -> Any:
    """The strict form of a file's text."""
    return msgspec.json.decode(read_definition(text, "job.yaml").body)


def task(fields: str) -> Any:
    """The strict form of one task, given by lines of fields."""
    lines = "".join(f"    {line}\n" for line in fields.splitlines())
    return strict(f"name: job\ntasks:\n  - id: only\n{lines}")["tasks"][0]


def issues(text: str) -> list[str]:
    """The errors of an invalid file, without the quoted lines."""
    with pytest.raises(InvalidFile) as caught:
        read_definition(text, "job.yaml")
    return [f"{fault.where.removeprefix('job.yaml:')} {fault.why}" for fault in caught.value.faults]


def test_the_user_facing_form_becomes_the_strict_form() -> None:
    job = strict("""
name: etl
description: Loads orders
labels: {team: ml, floor: 7}
timeout: 2h
on_failure: fail_after_all
tasks:
  - id: extract
    run: python extract.py
    timeout: 10m
    retries: 2
    retry_delay: 1m30s
    expected: 5m
    resources: {cpu: 0.5, memory: 512Mi, gpus: 1, disk: 2G}
    labels: {arch: arm64}
    zone: eu-1
  - name: load
    needs: [extract]
    on_skip: run
    python: etl.load:run
    args: {day: "{{ params.day }}", sizes: [1, 2]}
    env: {PORT: 8080, DEBUG: no}
    secrets: {PASSWORD: "env:DB_PASSWORD"}
    directory: /srv/etl
    grace: 5s
""")

    assert job == {
        "name": "etl",
        "description": "Loads orders",
        "labels": {"team": "ml", "floor": "7"},
        "timeout_seconds": 7200.0,
        "on_failure": "fail_after_all",
        "tasks": [
            {
                "name": "extract",
                "work": {"run": ["python", "extract.py"]},
                "timeout_seconds": 600.0,
                "max_attempts": 3,
                "retry_delay_seconds": 90.0,
                "expected_seconds": 300.0,
                "resources": {
                    "cpu_millis": 500, "memory_bytes": 512 * 2**20, "gpus": 1, "disk_bytes": 2 * 10**9,
                },
                "labels": {"arch": "arm64"},
                "zone": "eu-1",
            },
            {
                "name": "load",
                "needs": [{"task": "extract"}],
                "on_skip": "run",
                "work": {
                    "python": "etl.load:run",
                    "args": {"day": "{{ params.day }}", "sizes": [1, 2]},
                    "env": {"PORT": "8080", "DEBUG": "no"},
                    "secrets": {"PASSWORD": "env:DB_PASSWORD"},
                    "directory": "/srv/etl",
                    "grace_seconds": 5.0,
                },
            },
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("python x.py {{ params.day }}", ["python", "x.py", "{{ params.day }}"]),
        ("echo \"a {{ params.b | default('c d') }} e\"", ["echo", "a {{ params.b | default('c d') }} e"]),
        ("x --at={{ params.a }}/{{ params.b }}", ["x", "--at={{ params.a }}/{{ params.b }}"]),
        ("printf 'a | b'", ["printf", "a | b"]),
    ],
)
def test_a_command_is_split_into_arguments_and_templates_stay_whole(line: str, words: list[str]) -> None:
    assert task(msgspec.json.encode({"run": line}).decode()[1:-1].replace('"run":', "run: ", 1))["work"] == {
        "run": words
    }


def test_a_command_may_be_a_list() -> None:
    assert task("run: [sleep, 5]")["work"] == {"run": ["sleep", "5"]}


def test_needs_are_names_or_names_with_conditions() -> None:
    job = strict("""
name: job
tasks:
  - id: a
  - id: b
    needs: a
  - id: c
    needs: [a, {task: b, when: "output.rows > 0"}]
""")

    assert job["tasks"][1]["needs"] == [{"task": "a"}]
    assert job["tasks"][2]["needs"] == [{"task": "a"}, {"task": "b", "when": "output.rows > 0"}]


def test_defaults_apply_to_tasks_without_own_values() -> None:
    job = strict("""
name: job
defaults: {retries: 4, timeout: 1m}
tasks:
  - id: a
  - id: b
    retries: 0
  - id: c
    max_attempts: 2
""")

    assert [task["max_attempts"] for task in job["tasks"]] == [5, 1, 2]
    assert {task["timeout_seconds"] for task in job["tasks"]} == {60.0}


def test_retry_policies_in_the_user_facing_form() -> None:
    job = strict("""
name: job
max_retries: 20
max_fan_out: 500
retry: {delay: 30s, cap: 1h}
tasks:
  - id: a
    soft_timeout: 2m
    stall: 90s
    retry:
      delay: 10s
      factor: 3
      memory_factor: 1.5
      memory_limit: 4Gi
      classes: {rate_limited: {delay: 15m, factor: 1.5, cap: 1h, attempts: 5}}
      rules:
        - {failure: permanent, exit_codes: [3, 4], contains: "no such table"}
        - {failure: transient, types: TimeoutError, exit_codes: 5}
  - id: b
""")

    assert (job["max_retries"], job["max_fan_out"], job["retry"]) == (20, 500, {"cap_seconds": 3600.0})
    first, second = job["tasks"]
    assert (first["retry_delay_seconds"], second["retry_delay_seconds"]) == (10.0, 30.0)
    assert (first["soft_timeout_seconds"], first["stall_seconds"]) == (120.0, 90.0)
    assert first["retry"] == {
        "factor": 3,
        "memory_factor": 1.5,
        "memory_limit_bytes": 4 * 2**30,
        "classes": {"rate_limited": {"base_seconds": 900.0, "factor": 1.5, "cap_seconds": 3600.0, "max_attempts": 5}},
        "rules": [
            {"failure": "permanent", "exit_codes": [3, 4], "contains": "no such table"},
            {"failure": "transient", "types": ["TimeoutError"], "exit_codes": [5]},
        ],
    }
    assert "retry" not in second


def test_for_each_is_a_fan_out() -> None:
    job = strict("""
name: job
tasks:
  - id: cities
    grows: true
    run: list-cities
  - id: fetch
    needs: cities
    for_each: "{{ outputs.cities.names }}"
    label: "{{ item }}"
    run: fetch {{ item }} {{ partition }}/{{ total }} {{ window }}
  - id: each
    for_each: [Oslo, 3]
    run: fetch {{ item }}
""")

    assert job["tasks"][0]["grows"] is True
    assert [task["for_each"] for task in job["tasks"][1:]] == ["outputs.cities.names", '["Oslo",3]']
    assert job["tasks"][1]["label"] == "{{ item }}"


def test_errors_inside_of_retry_are_shown_in_place() -> None:
    found = issues("""name: job
retry: {memory_limt: 1Gi}
tasks:
  - id: a
    retry: {delay: soon}
  - id: b
    retry:
      classes:
        rate_limitd: {delay: 15m}
  - id: c
    retry:
      classes: {timeout: {delay: often}}
  - id: d
    retry:
      rules: [{failure: never, exit_codes: many}]
  - id: e
    retry_delay: 1s
    retry: {delay: 2s, cap: 1h, cap_seconds: 5}
  - id: f
    soft_timout: 5m
    grows: maybe
""")

    assert found == [
        "2:9 unknown field `memory_limt` of `retry`, did you mean `memory_limit`?",
        "5:20 `retry.delay` must be a duration such as 90s, 10m or 1h30m, or a number of seconds",
        "9:9 unknown failure class `rate_limitd`, did you mean `rate_limited`?",
        "12:34 `delay` must be a duration such as 90s, 10m or 1h30m, or a number of seconds",
        f"15:25 unknown failure class `never`, known: {', '.join(FailureClass)}",
        "15:44 `exit_codes` must be an integer",
        "18:13 `retry.delay` and `retry_delay` set the same value",
        "18:33 `cap_seconds` sets the same value as another field of `retry`",
        "20:5 unknown field `soft_timout`, did you mean `soft_timeout`?",
        "21:12 `grows` must be true or false",
    ]


def test_the_strict_form_is_accepted_unchanged() -> None:
    text = '{"name":"job","tasks":[{"name":"a","work":{"run":["true"]}},{"name":"b","needs":[{"task":"a"}]}]}'

    assert read_definition(text, "job.json").body == text.encode()
    assert strict(f"# a comment\n{text}") == msgspec.json.decode(text)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_valid(path: Path) -> None:
    decode_job(read_definition(path.read_text(), path.name).body, Limits())


def test_an_error_is_shown_with_its_lines_and_a_suggestion() -> None:
    with pytest.raises(InvalidFile) as caught:
        read_definition("name: etl\ntasks:\n  - id: load\n    run: python load.py\n    retires: 3\n", "etl.yaml")

    assert str(caught.value) == (
        "etl.yaml:5:5: unknown field `retires`\n"
        "\n"
        "    3 |   - id: load\n"
        "    4 |     run: python load.py\n"
        "    5 |     retires: 3\n"
        "      |     ^^^^^^^ did you mean `retries`?"
    )


def test_all_errors_are_reported_at_once() -> None:
    found = issues("""name: etl
tasks:
  - id: a
    timeout: soon
    retries: 9
  - id: b
    needs: [a, bb]
    resources: {cpus: 1}
  - id: c
    needs: [aa]
""")

    assert found == [
        "4:14 `timeout` must be a duration such as 90s, 10m or 1h30m, or a number of seconds",
        "5:14 `retries` must be from 0 to 4",
        "8:17 unknown resource `cpus`, did you mean `cpu`?",
        "10:13 unknown task 'aa', did you mean a?",
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("run: a | b", "`|` has no effect without a shell"),
        ("run: echo 'a", "can't be split into arguments"),
        ("run: true\nshell: 'true'", f"a task needs one of {', '.join(KINDS)}; it has run and shell"),
        ("env: {A: b}", f"a task needs one of {', '.join(KINDS)}; it has none of them"),
        ("run: echo a {{ b", "a {{ is not closed: '{{'"),
        ("run: true\nwork: {}", "`work` and `run` set the same value"),
        ("name: twice", "`name` and `id` set the same value"),
        ("python: load", "must be package.module:function"),
        ("run: echo {{ parms.day }}", "parms"),
        ("env: {A-B: 1}\nrun: x", "is not a variable name"),
        ("needs: [only]", "a task can't need itself"),
        ("labels: [a]", "`labels` must be a mapping"),
        ("resources: {memory: lots}", "must be a size such as 512Mi"),
        ("resources: {cpu: -1}", "must be a number of cores"),
        ("resources: {gpus: half}", "must be an integer"),
        ("retry: 3", "use `retries` for the number of retries"),
        ("retry: [{}]", "must be a mapping with factor, cap"),
        ("retry: {classes: 3}", "must be a mapping of failure classes"),
        ("retry: {rules: {failure: permanent, exit_code: 3}}", "did you mean `exit_codes`?"),
        ("retry: {factor: twice}", "`factor` must be a number"),
        ("for_each: {a: 1}\nrun: x", "must be a string"),
    ],
)
def test_errors_of_a_task(fields: str, said: str) -> None:
    lines = "".join(f"    {line}\n" for line in fields.splitlines())

    assert said in " ".join(issues(f"name: job\ntasks:\n  - id: only\n{lines}"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("- a", "a job file must be a mapping with `name` and `tasks`"),
        ("name: a", "`tasks` is missing"),
        ("tasks: [{id: a}]", "`name` is missing"),
        ("name: a\ntasks: {a: {}}", "`tasks` must be a list"),
        ("name: a\ntasks: [a]", "a task must be a mapping"),
        ("name: A B\ntasks: [{id: a}]", "is not a valid name"),
        ("name: a\ndefaults: {run: x}\ntasks: [{id: a}]", "`run` can't be a default"),
        ("name: a\nshedule: x\ntasks: [{id: a}]", "unknown field `shedule`"),
        ("name: a\ntasks: [{id: a, needs: [b]}, {id: b, needs: [a]}]", "cycle: a → b → a"),
        ('{"name": "a", "tasks": [{"nme": "a"}]}', "did you mean `name`?"),
    ],
)
def test_errors_of_a_job(text: str, said: str) -> None:
    assert said in " ".join(issues(text))


def test_a_task_with_a_misspelled_name_is_not_missing_downstream() -> None:
    assert issues("name: a\ntasks:\n  - nmae: x\n  - {id: b, needs: [x]}\n") == [
        "3:5 unknown field `nmae`, did you mean `name`?"
    ]


def test_faults_of_the_server_are_mapped_to_lines() -> None:
    definition = read_definition("name: a\ntasks:\n  - id: a\n  - id: b\n    needs: [a]\n    retries: 1\n", "a.yaml")

    blamed = definition.locate_faults(
        Refused(
            "the job has 2 faults",
            [Fault(where="/tasks/1/max_attempts", why="must be 1 here"), Fault(where="/tasks/1/needs/0", why="is odd")],
        ),
    )

    assert [fault.where for fault in blamed.faults] == ["a.yaml:5:13", "a.yaml:6:5"]
    assert "    6 |     retries: 1\n" in str(blamed)
