"""Pipeline files, and the resulting job and schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.core.admission.validate_submission import Limits, decode_job
from mainspring.core.model.task import Priority
from mainspring.core.schedules.schedule_spec import Condition, Missed, Overlap, ScheduleSpec
from mainspring.core.schedules.triggers import CronTrigger, EventTrigger, IntervalTrigger, ManualTrigger
from mainspring.core.work.work import MapReduce, read_work
from mainspring.definitions.job_file import read_definition
from mainspring.definitions.pipeline_file import Notice, Param, Pipeline, SharedGroup, locate_faults, read_pipeline
from mainspring.protocol.errors import Fault, InvalidFile

FILES = Path(__file__).parent / "pipelines"
TASKS = "tasks:\n  - {id: only, run: echo}\n"
MAP = "input: {items: [{a: 1}]}\nmap: {prompt: '{{ a }}'}\n"


def read(text: str, **options: Any) -> Pipeline:
    """Parse a file's text, with the local time zone Europe/Berlin."""
    return read_pipeline(text, "pipeline.yaml", **{"local_zone": "Europe/Berlin", **options})


def example(name: str, **options: Any) -> Pipeline:
    """Read a file of this directory."""
    return read((FILES / f"{name}.yaml").read_text(), **options)


def job(pipeline: Pipeline) -> Any:
    """The job as JSON."""
    decode_job(pipeline.job, Limits())
    return msgspec.json.decode(pipeline.job)


def only(pipeline: Pipeline) -> ScheduleSpec:
    """Its only schedule."""
    assert len(pipeline.schedules) == 1
    return pipeline.schedules[0]


def test_the_documented_format_is_a_map_with_a_schedule() -> None:
    pipeline = example("daily-bug-report", id="reports.daily", directory="/srv/reports/daily")
    spec = job(pipeline)
    work = read_work(msgspec.json.encode(spec["tasks"][0]["work"]))

    assert (pipeline.id, pipeline.title) == ("reports.daily", "Daily Bug Report")
    assert spec["name"] == "reports.daily"
    assert spec["description"] == "Generate daily bug triage report"
    assert spec["retry"] == {"linear": True}
    assert [task["name"] for task in spec["tasks"]] == ["map"]
    assert (spec["tasks"][0]["max_attempts"], spec["tasks"][0]["retry_delay_seconds"]) == (3, 60)
    assert isinstance(work, MapReduce)
    assert work.input.source is not None
    assert (work.input.source.type, work.input.source.path) == ("csv", "bugs.csv")
    assert (work.map.prompt, work.map.output) == ("Analyze bug: {{title}}", ("severity", "category"))
    assert work.reduce.type == "json"
    assert work.directory == "/srv/reports/daily"
    assert only(pipeline) == ScheduleSpec(
        name="reports.daily", job="reports.daily",
        trigger=CronTrigger(cron="0 9 * * 1-5", timezone="America/New_York"), enabled=True, missed=Missed.RUN,
        max_delay_seconds=1_800, max_catch_up_windows=1, overlap=Overlap.SKIP, max_active=1,
        params=only(pipeline).params,
    )  # fmt: skip
    assert pipeline.warnings == ()


@pytest.mark.parametrize(
    ("name", "cron", "zone", "missed", "tries", "delay"),
    [
        ("daily-report", "0 9 * * *", "America/New_York", "run", 3, 60),
        ("weekly-sync", "0 0 * * 0", "Europe/Berlin", "run", 5, 300),
        ("queue-monitor", "*/15 9-17 * * 1-5", "America/Los_Angeles", "skip", 3, 60),
    ],
)
def test_the_documented_examples(name: str, cron: str, zone: str, missed: str, tries: int, delay: int) -> None:
    pipeline = example(name)
    task = job(pipeline)["tasks"][0]

    assert only(pipeline).trigger == CronTrigger(cron=cron, timezone=zone)
    assert only(pipeline).missed == missed
    assert (task["max_attempts"], task["retry_delay_seconds"]) == (tries, delay)
    assert "directory" not in task["work"]


def test_items_may_be_inline() -> None:
    work = job(example("queue-monitor"))["tasks"][0]["work"]

    assert work["input"] == {"items": [{"queue": "high-priority"}, {"queue": "standard"}]}


def test_a_pipeline_may_wait_for_another_for_a_file_and_notify() -> None:
    after = only(example("after")).after

    assert after is not None
    assert (after.job, after.within_seconds) == ("data-fetch", None)
    assert only(example("condition", directory="/srv/x")).condition == Condition(file_exists="/srv/x/input/data.csv")
    assert only(example("condition")).condition == Condition(file_exists="input/data.csv")
    assert example("notify").notices == (
        Notice(url="https://hooks.slack.com/...", events=("run.failed", "run.timed_out")),
    )


def test_the_other_format_is_read_and_unsupported_fields_are_reported() -> None:
    pipeline = example("etl", directory="/srv/etl")
    extract, transform, publish = job(pipeline)["tasks"]
    by_clock, by_event = pipeline.schedules

    assert (pipeline.id, pipeline.title, pipeline.tenant, pipeline.priority) == ("etl", "etl", "finance", "P1")
    assert extract["work"] == {
        "run": ["python", "extract.py", "--day", "{{ params.day }}"], "directory": "/srv/etl",
    }  # fmt: skip
    assert (extract["max_attempts"], extract["timeout_seconds"]) == (3, 600)
    assert transform["for_each"] == "outputs.extract.files"
    assert publish["when"] is None
    assert "retry" not in job(pipeline)
    assert job(pipeline)["finish_within_seconds"] == 2_700
    assert by_clock.trigger == CronTrigger(cron="30 5 * * 1-5", timezone="Europe/Paris")
    assert (by_event.name, by_event.trigger) == ("etl-event", EventTrigger(type="orders.ready"))
    for schedule in pipeline.schedules:
        assert (schedule.job, schedule.overlap, schedule.max_active) == ("etl", Overlap.QUEUE, 1)
        assert schedule.computed == {"day": "{{ scheduled_for | yesterday }}"}
        assert bytes(schedule.params) == b"{}"
    assert pipeline.params == {"day": Param(type="date", default="{{ scheduled_for | yesterday }}")}
    assert pipeline.notices == (Notice(url="${env:HOOK}", events=("run.failed", "run.timed_out")),)
    assert [f"{fault.where} {fault.why}" for fault in pipeline.warnings] == [
        "pipeline.yaml:14:28 `warn_at` is not enforced yet",
        "pipeline.yaml:29:25 `late` is not supported yet: no notification is sent",
        "pipeline.yaml:29:31 `recovered` is not supported yet: no notification is sent",
    ]


@pytest.mark.parametrize("text", ["finish_within: 45m", "finish_within_seconds: 2700", "sla: {finish_within: 45m}"])
def test_a_deadline_is_set_for_the_job_or_in_sla(text: str) -> None:
    pipeline = read_pipeline(f"{text}\nescalate: false\ntasks:\n  - {{id: a, run: b}}\n", "pipeline.yaml")
    assert (job(pipeline)["finish_within_seconds"], job(pipeline)["escalate"]) == (2_700, False)
    assert pipeline.warnings == ()


def test_a_deadline_can_not_be_set_twice() -> None:
    text = "finish_within: 1h\nsla: {finish_within: 45m}\ntasks:\n  - {id: a, run: b}\n"
    with pytest.raises(InvalidFile, match="2:7: `finish_within` is set twice"):
        read_pipeline(text, "pipeline.yaml")


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("schedule: {cron: '@daily'}", CronTrigger(cron="@daily", timezone="Europe/Berlin")),
        ("schedule: {every: 15m}", IntervalTrigger(every_seconds=900)),
        ("on: {every: 15m}", IntervalTrigger(every_seconds=900)),
        ("on: {schedule: {cron: '0 5 * * *'}}", CronTrigger(cron="0 5 * * *", timezone="Europe/Berlin")),
        ("on: {schedule: [{every: 30s, enabled: false}]}", IntervalTrigger(every_seconds=30)),
        ("on: {event: a.b}", EventTrigger(type="a.b")),
        ("on: {event: {type: a.b, filter: event.data.x > 1}}", EventTrigger(type="a.b", filter="event.data.x > 1")),
        ("schedule: {event: a.b}", EventTrigger(type="a.b")),
        ("schedule: {manual: true}", ManualTrigger()),
    ],
)
def test_each_kind_of_trigger(text: str, trigger: object) -> None:
    assert only(read(f"name: x\n{text}\n{TASKS}")).trigger == trigger


def test_an_expected_event_uses_the_machines_time_zone() -> None:
    trigger = only(read(f"on: {{event: {{type: a, expected: {{cron: 0 5 * * *, buffer: 10m}}}}}}\n{TASKS}")).trigger

    assert isinstance(trigger, EventTrigger)
    assert trigger.expected is not None
    assert (trigger.expected.timezone, trigger.expected.buffer_seconds) == ("Europe/Berlin", 600)


@pytest.mark.parametrize("text", ["", "on: {manual: true}\n"])
def test_without_a_schedule_it_runs_on_request(text: str) -> None:
    assert read(f"name: x\n{text}{TASKS}").schedules == ()


def test_manual_starts_can_not_be_disabled() -> None:
    pipeline = read(f"on: {{every: 1h, manual: false}}\n{TASKS}")

    assert [fault.where for fault in pipeline.warnings] == ["pipeline.yaml:1:17"]


@pytest.mark.parametrize(
    ("file", "text", "options", "id"),
    [
        ("p.yaml", "name: Daily Bug-Report!\n", {}, "daily-bug-report"),
        ("p.yaml", "name: ÄÖ\n", {}, "ao"),
        ("p.yaml", "name: 日本\n", {}, "p"),
        ("p.yaml", "", {}, "p"),
        ("Nightly Load/pipeline.yaml", "", {}, "nightly-load"),
        ("pipeline.yaml", "", {"directory": "/srv/nightly"}, "nightly"),
        ("pipeline.yaml", "name: hello\n", {"directory": "/srv/nightly"}, "nightly"),
        ("p.yaml", "name: hello\n", {"directory": "/srv/nightly"}, "hello"),
        ("pipeline.yaml", "", {}, "pipeline"),
        ("p.yaml", "name: title\n", {"id": "a.b"}, "a.b"),
    ],
)
def test_the_job_is_named_after_the_pipeline(file: str, text: str, options: dict[str, str], id: str) -> None:
    pipeline = read_pipeline(text + TASKS, file, local_zone="UTC", **options)

    assert (pipeline.id, job(pipeline)["name"]) == (id, id)


def test_tasks_run_in_the_directory_or_below_it() -> None:
    text = """
tasks:
  - {id: here, run: a}
  - {id: below, run: a, directory: data}
  - {id: elsewhere, run: a, directory: /opt}
  - {id: strict, work: {shell: a}}
  - {id: nothing}
"""
    tasks = job(read(text, directory="/srv/x"))["tasks"]

    assert [task.get("work", {}).get("directory") for task in tasks] == [
        "/srv/x", "/srv/x/data", "/opt", "/srv/x", None,
    ]  # fmt: skip


def test_the_retry_policy_applies_to_tasks_without_own_values() -> None:
    text = """
schedule: {every: 1h, retryPolicy: {maxRetries: 2}}
retry: {cap: 5m}
tasks:
  - {id: silent, run: a}
  - {id: own, run: a, retries: 0}
"""
    spec = job(read(text))

    assert spec["retry"] == {"cap_seconds": 300, "linear": True}
    assert [(task["max_attempts"], task["retry_delay_seconds"]) for task in spec["tasks"]] == [(2, 60), (1, 60)]


def test_defaults_override_the_retry_policy() -> None:
    text = f"schedule: {{every: 1h, retryPolicy: {{retryDelayMs: 500}}}}\ndefaults: {{retries: 0}}\n{TASKS}"
    task = job(read(text))["tasks"][0]

    assert (task["max_attempts"], task["retry_delay_seconds"]) == (1, 0.5)


@pytest.mark.parametrize(("said", "tries"), [(0, 1), (1, 1), (2, 2), (5, 5)])
def test_max_retries_counts_the_first_attempt(said: int, tries: int) -> None:
    spec = job(read(f"schedule: {{every: 1h, retryPolicy: {{maxRetries: {said}}}}}\n{MAP}"))

    assert spec["tasks"][0]["max_attempts"] == tries


def test_a_constant_default_is_a_parameter_of_the_schedule() -> None:
    text = f"""
on: {{every: 1h}}
params:
  region: eu
  rows: {{type: integer, default: 5}}
  ratio: 0.5
  dry: {{type: boolean, default: false}}
  day: {{type: date, default: 2026-11-15}}
  code: {{default: 007}}
  tags: {{type: json, default: [a, b]}}
  free: {{type: text}}
{TASKS}"""
    pipeline = read(text)
    params = {
        "region": "eu", "rows": 5, "ratio": 0.5, "dry": False, "day": "2026-11-15", "code": "007", "tags": ["a", "b"],
    }  # fmt: skip

    assert msgspec.json.decode(only(pipeline).params) == params == pipeline.constants
    assert only(pipeline).computed == {}


def test_concurrency_and_priority_apply_to_the_schedule() -> None:
    text = "on: {every: 1h}\nname: A b\npriority: p0\nconcurrency: {group: A b, max: 3, when_busy: cancel_running}\n"
    schedule = only(read(text + TASKS))

    assert (schedule.max_active, schedule.overlap, schedule.priority) == (3, Overlap.CANCEL_RUNNING, Priority.P0)


@pytest.mark.parametrize(
    ("notify", "events"),
    [
        ("{on: success, url: 'http://127.0.0.1/x'}", [("run.succeeded",)]),
        ("{on: [failure, success], url: 'http://127.0.0.1/x'}", [("run.failed", "run.timed_out", "run.succeeded")]),
        ("{on_failure: 'http://a', on_success: 'http://b'}", [("run.failed", "run.timed_out"), ("run.succeeded",)]),
        ("[{on: [partial], url: 'http://a'}, {on_success: 'http://b'}]", [("run.partial",), ("run.succeeded",)]),
        ("{on: [late], url: 'http://a'}", []),
    ],
)
def test_notifications(notify: str, events: list[tuple[str, ...]]) -> None:
    above = read(f"notify: {notify}\n{TASKS}")
    inside = read(f"schedule: {{every: 1h, notify: {notify}}}\n{TASKS}")

    assert [notice.events for notice in above.notices] == events
    assert above.notices == inside.notices


@pytest.mark.parametrize(
    ("said", "when"),
    [
        ("success()", None),
        ("'{{ success() }}'", None),
        ("params.mode == 'full'", "params.mode == 'full'"),
        ("'{{ outputs.first.rows > 0 }}'", "outputs.first.rows > 0"),
        ("false", "false"),
    ],
)
def test_a_task_may_have_an_if(said: str, when: str | None) -> None:
    text = f"tasks:\n  - {{id: first, run: a}}\n  - id: second\n    needs: first\n    run: b\n    if: {said}\n"

    assert job(read(text))["tasks"][1]["when"] == when


def test_a_task_may_be_a_map_beside_others() -> None:
    text = """
tasks:
  - id: sort
    map: {prompt: "{{ a }}", retries: 1, timeout: 1m, retry_delay: 5s}
    input: {items: [{a: 1}], limit: 1}
    reduce: csv
    invoker: {command: cat -n}
  - {id: next, needs: sort, run: a}
"""
    assert job(read(text))["tasks"][0]["work"] == {
        "map": {"prompt": "{{ a }}", "attempts": 2, "timeout_seconds": 60, "retry_delay_seconds": 5},
        "input": {"items": [{"a": 1}], "limit": 1},
        "reduce": {"type": "csv"},
        "invoker": {"command": ["cat", "-n"]},
    }


def test_a_pipeline_file_is_accepted_as_a_job_file() -> None:
    definition = read_definition(f"name: A b\nschedule: {{every: 1h}}\nparams: {{n: 5}}\n{TASKS}", "p.yaml")

    assert (definition.name, definition.params) == ("a-b", {"n": 5})
    assert msgspec.json.decode(definition.body)["name"] == "a-b"


def test_a_job_file_without_pipeline_fields_is_strict() -> None:
    with pytest.raises(InvalidFile, match="is not a valid name"):
        read_definition(f"name: A b\n{TASKS}", "job.yaml")


def test_faults_of_the_server_are_mapped_to_lines() -> None:
    pipeline = example("etl")
    error = locate_faults(
        pipeline,
        [
            Fault(where="/schedules/0/definition/trigger/cron", why="is too often"),
            Fault(where="/job/tasks/1/resources", why="is more than any worker has"),
            Fault(where="job.tasks[0].work", why="is forbidden"),
            Fault(where="/schedules/1/definition/trigger", why="is unknown"),
        ],
    )

    assert [f"{fault.where} {fault.why}" for fault in error.faults] == [
        "pipeline.yaml:5:3 `trigger` is unknown",
        "pipeline.yaml:6:7 `cron` is too often",
        "pipeline.yaml:17:5 `work` is forbidden",
        "pipeline.yaml:24:5 `resources` is more than any worker has",
    ]


def test_a_group_of_several_pipelines_counts_the_runs_of_each() -> None:
    """The group belongs to the job, with its limit if the file sets one; it does not limit the schedule."""
    text = "name: p\non: {every: 1h}\n"
    pipeline = read(f"{text}concurrency: {{group: etl, max: 2, when_busy: queue}}\n{TASKS}")

    assert msgspec.json.decode(pipeline.job)["groups"] == ["etl"]
    assert pipeline.group == SharedGroup(name="etl", most=2)
    assert only(pipeline).max_active == only(read(text + TASKS)).max_active


def test_placement_and_groups_of_tasks() -> None:
    """PLC-3, PLC-12: fields of the file are fields of the job."""
    text = (
        "name: p\npool: eu\ngroups: [nightly]\ntasks:\n- {id: a, run: 'true'}\n"
        "- {id: b, needs: a, run: 'true', prefer: {disk: ssd}, prefer_zone: z1, affinity: [a], anti_affinity: [b],"
        " groups: [gpu]}\n"
    )
    job = msgspec.json.decode(read_pipeline(text, "p.yaml").job)
    assert (job["pool"], job["groups"]) == ("eu", ["nightly"])
    said = {name: job["tasks"][1][name] for name in ("prefer", "prefer_zone", "affinity", "anti_affinity", "groups")}
    assert said == {
        "prefer": {"disk": "ssd"},
        "prefer_zone": "z1",
        "affinity": ["a"],
        "anti_affinity": ["b"],
        "groups": ["gpu"],
    }
