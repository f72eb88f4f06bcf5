"""Errors of pipeline files: all of them, with position and hint."""

from __future__ import annotations

import pytest

from mainspring.definitions.pipeline_file import read_pipeline
from mainspring.protocol.errors import InvalidFile

TASKS = "tasks:\n  - {id: only, run: echo}\n"
MAP = "map: {prompt: '{{ a }}'}\ninput: {items: [{a: 1}]}\n"
LENGTH = "must be a duration such as 90s, 10m or 1h30m, or a number of seconds"
AN_INPUT = "such as `input: {from: {type: csv, path: bugs.csv}}`, or `input: {items: [..]}`"
FIELDS = "it needs 5 (minute, hour, day of month, month, day of week), or 6 with the second first"
NOT_OFFERED = (
    "is not supported: a task runs when its upstream tasks succeeded, "
    "use `on_failure: skip_failed` of the job, and `notify` for notifications"
)
INSIDE = "use a relative path such as data/input.csv"


def issues(text: str) -> list[str]:
    """The errors of a file, without the quoted lines."""
    with pytest.raises(InvalidFile) as caught:
        read_pipeline(text, "p.yaml", local_zone="UTC")
    return [f"{fault.where.removeprefix('p.yaml:')} {fault.why}" for fault in caught.value.faults]


def test_all_errors_of_a_file_are_reported_at_once() -> None:
    found = issues("""\
name: "Daily"
shedule: {}
schedule:
  cron: "0 25 * * *"
  timezone: Europe/Pariss
  enabled: maybe
  retryPolicy: {maxRetrys: 3, retryDelay: 5}
  missedExecution: "sometimes"
  window: {maxDelayMinutes: soon}
  after: a b
  condition: {file_exists: ../x}
  notify: {on_failur: x, on_success: nope}
input: {from: {type: xml, path: /etc/passwd}, item: []}
map: {promt: hi, concurrency: many}
reduce: {type: jsn}
invoker: {comand: x}
""")

    assert found == [
        "2:1 unknown field `shedule`, did you mean `schedule`?",
        "4:3 hour: 25 is not from 0 to 23",
        "5:3 'Europe/Pariss' is not an IANA time zone, did you mean Europe/Paris?",
        "6:12 `enabled` must be true or false",
        "7:17 unknown field `maxRetrys` of `retryPolicy`, did you mean `maxRetries`?",
        "7:31 unknown field `retryDelay` of `retryPolicy`, did you mean `retryDelayMs`?",
        "8:20 `missedExecution` must be one of run, skip",
        "9:29 `maxDelayMinutes` must be a number",
        "10:3 'a b' is not a valid name: use 1 to 128 of a to z, 0 to 9, dot, hyphen and underscore",
        f"11:28 `file_exists` must be inside of the file's directory, {INSIDE}",
        "12:12 unknown field `on_failur` of `notify`, did you mean `on_failure`?",
        "12:38 `on_success` must be a URL that begins with http:// or https://, or a reference: ${env:HOOK}",
        "13:22 `type` must be one of csv, json",
        f"13:33 `path` must be inside of the file's directory, {INSIDE}",
        "13:47 unknown field `item` of `input`, did you mean `items`?",
        "14:7 unknown field `promt` of `map`, did you mean `prompt`?",
        "14:31 `concurrency` must be an integer",
        "15:16 `type` must be one of json, table, csv, list, prompt, did you mean `json`?",
        "16:11 unknown field `comand` of `invoker`, did you mean `command`?",
    ]


def test_an_error_is_shown_with_its_lines_and_a_mark() -> None:
    with pytest.raises(InvalidFile) as caught:
        read_pipeline(f"name: x\nschedule:\n  crn: '@daily'\n  every: 1h\n{TASKS}", "p.yaml")

    assert str(caught.value) == (
        "p.yaml:3:3: unknown field `crn` of `schedule`\n"
        "\n"
        "    1 | name: x\n"
        "    2 | schedule:\n"
        "    3 |   crn: '@daily'\n"
        "      |   ^^^ did you mean `cron`?"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("- a\n", ["1:1 a pipeline file is a mapping with `name`, when it runs, and `tasks` or `map`"]),
        ("schedule: {every: 1h}\n", ["1:1 a pipeline needs `tasks`, or `map` with `input`"]),
        (TASKS + "map: {prompt: x}\n",
         ["3:1 `map` and `tasks` can't be combined, make it a task: `- {id: .., map: .., input: ..}`"]),
        (TASKS + "reduce: json\n", ["3:1 `reduce` and `tasks` can't be combined, it belongs to `map`"]),
        ("map: {prompt: x}\n",
         [f"1:1 `map` needs an `input`, {AN_INPUT}"]),
        ("map: {prompt: '{% for x in y %}'}\ninput: {items: [{a: 1}]}\n",
         ["1:7 statements ({% ... %}) are not available, only {{ expressions }}"]),
        ("map: {prompt: x}\ninput: {items: [1]}\n",
         ["2:17 an item must be a mapping of names to values, such as {queue: standard}"]),
        ("map: {prompt: x, retries: 10}\ninput: {items: 5}\n",
         ["1:27 `retries` must be from 0 to 9", "2:16 `items` must be a list of mappings"]),
        ("name: [a]\n" + TASKS, ["1:7 `name` must be a string"]),
        ("tenant: {a: b}\n" + TASKS, ["1:9 `tenant` must be a string"]),
        ("tasks: []\n", ["1:1 `tasks` has 0 entries; a job needs 1 to 250000"]),
        ("tasks: [{id: a, rn: x}, {id: b, needs: c, run: x}]\n",
         ["1:17 unknown field `rn`, did you mean `run`?", "1:33 unknown task 'c'"]),
    ],
)  # fmt: skip
def test_errors_of_the_whole_file(text: str, found: list[str]) -> None:
    assert issues(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("schedule: {every: 1h}\non: {manual: true}\n",
         ["2:1 `schedule` and `on` can't be combined, keep one of them"]),
        ("on: daily\n", ["1:1 `on` must be a mapping with schedule, every, event, manual"]),
        ("schedule: daily\n",
         ['1:11 `schedule` must be a mapping such as {cron: "0 9 * * *", timezone: Europe/Paris}']),
        ("schedule: {timezone: UTC}\n", ["1:1 a schedule needs a trigger: cron, every, at, event, manual"]),
        ("schedule: {cron: '@dayly'}\n", ["1:12 '@dayly' is not known, did you mean @daily?"]),
        ("schedule: {cron: '* * *'}\n",
         [f"1:12 `cron` has 3 fields; {FIELDS}"]),
        ("schedule: {cron: '0 0 30 2 *'}\n", ["1:12 cron expression never matches (no such date)"]),
        ("schedule: {every: 1h, timezone: UTC}\n", ["1:23 `timezone` requires `cron`, not `every`"]),
        ("schedule: {every: 1h, job: x}\n",
         ["1:23 unknown field `job` of `schedule`"]),
        ("schedule: {every: 1h, after: p}\nname: p\n", ["1:23 a job can't depend on itself"]),
        ("schedule: {every: 1h, condition: now}\n",
         ["1:23 `expression` uses undefined now; available: params and window"]),
        ("schedule: {every: 1h, condition: {}}\n",
         ["1:23 `condition` must have an expression, or file_exists, or both"]),
        ("schedule: {every: 1h, condition: {file_exists: /etc/passwd}}\n",
         [f"1:48 `file_exists` must be inside of the file's directory, {INSIDE}"]),
        ("schedule: {every: 1h, retryPolicy: {maxRetries: 6, retryDelayMs: 0}}\n",
         ["1:49 `maxRetries` must be from 0 to 5", "1:66 `retryDelayMs` must be from 1 to 604800000 milliseconds"]),
        ("schedule: {every: 1h, retryPolicy: 3}\n",
         ["1:36 `retryPolicy` must be a mapping with maxRetries, retryDelayMs"]),
        ("schedule: {every: 1h, window: {maxDelayMinutes: -1}}\n",
         ["1:49 `maxDelayMinutes` must be more than 0 and at most 527040 minutes"]),
        ("schedule: {every: 1h, overlap: skip}\nconcurrency: {when_busy: queue}\n",
         ["1:23 `overlap` and `concurrency.when_busy` set the same value"]),
        ("on: {schedule: [{every: 1h}, {every: 2h}]}\n",
         ["1:30 a file has one schedule, move the second one to another file"]),
        ("on: {schedule: []}\n", ["1:6 a file has one schedule, move the second one to another file"]),
        ("on: {every: 1h, schedule: {every: 2h}}\n",
         ["1:6 `every` and `schedule` can't be combined"]),
        ("on: {evry: 1h, manual: maybe}\n",
         ["1:6 unknown field `evry` of `on`, did you mean `every`?", "1:24 `manual` must be true or false"]),
        ("on: {event: {tpe: x}}\n", ["1:6 `event` needs a `type`"]),
        ("on: {event: {type: x, event: y}}\n", ["1:23 unknown field `event` of `event`, known: type"]),
        ("on: {event: {type: x, filter: a > 1}}\n", ["1:23 `filter` uses undefined a; available: event"]),
    ],
)  # fmt: skip
def test_errors_of_triggers(text: str, found: list[str]) -> None:
    assert issues(text + TASKS) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("params: [a]\n", ["1:9 `params` must be a mapping of names to {type: .., default: ..}"]),
        ("params: {a b: 1, c: {typ: text}, d: {type: dat}}\n",
         ["1:10 `a b` is not a valid parameter name, use letters, digits and underscores",
          "1:22 unknown field `typ` of `c`, did you mean `type`?",
          "1:44 `type` must be one of text, integer, number, boolean, date, json, did you mean `date`?"]),
        ("params: {a: {type: integer, default: x}, b: {type: integer, default: true}}\n",
         ["1:38 `default` must be an integer", "1:70 `default` must be an integer"]),
        ("params: {a: {type: date, default: soon}}\n", ["1:35 `default` must be a date such as 2026-11-15"]),
        ("params: {a: {default: [1]}, b: {type: boolean, default: 1}}\n",
         ["1:23 `default` must be a string", "1:57 `default` must be true or false"]),
        ("params: {a: '{{ now }}', b: '{% if x %}'}\n",
         ["1:13 `default` can't be computed: in {{ now }}: uses undefined now; available: scheduled_for",
          "1:29 `default` can't be computed: statements ({% ... %}) are not available, only {{ expressions }}"]),
        ("params: {a: {type: integer, default: '{{ scheduled_for }}'}}\n",
         ["1:38 a template evaluates to a string, not integer"]),
        ("params: {a: {required: true}}\nschedule: {every: 1h}\n",
         ["1:10 `a` is required but has no default for scheduled runs, add a `default`"]),
        ("tenant: A b\n", ["1:9 `tenant` must be 1 to 128 of a to z, 0 to 9, dot, hyphen and underscore"]),
        ("priority: p7\n", ["1:11 `priority` must be one of P0, P1, P2"]),
        ("concurrency: {group: other, max: 0, when_busy: wait}\n",
         ["1:34 `max` must be from 1 to 1000", "1:48 `when_busy` must be one of queue, skip, cancel_running"]),
        ("name: p\nconcurrency: {group: other, when_busy: skip}\n",
         [("2:40 `when_busy` must be queue for a group, remove `group: other` to limit "
           "only the runs of this pipeline")]),
        ("name: p\nconcurrency: {group: Some others}\n",
         ["2:1 'Some others' is not a valid name: use 1 to 128 of a to z, 0 to 9, dot, hyphen and underscore"]),
        ("sla: {finish_within: x, warn_at: 800%, finish: 1h}\n",
         [f"1:22 `finish_within` {LENGTH}", "1:34 `warn_at` must be from 1% to 100%",
          "1:40 unknown field `finish` of `sla`, did you mean `finish_within`?"]),
        ("notify: {on: [failed], url: ftp://x}\n",
         ["1:15 unknown event `failed`, did you mean `failure`?",
          "1:29 `url` must be a URL that begins with http:// or https://, or a reference: ${env:HOOK}"]),
        ("notify: {on: [failure]}\n", ["1:9 `notify` needs a `url`"]),
        ("notify: {url: 'http://a'}\n", ["1:9 `notify` needs an `on`, such as [failure]"]),
        ("notify: me\n", ["1:9 `notify` must be a mapping with on, url, on_failure, on_success, on_complete"]),
    ],
)  # fmt: skip
def test_errors_of_other_fields(text: str, found: list[str]) -> None:
    assert issues(text + TASKS) == found


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("always()", f"`always()` {NOT_OFFERED}"),
        ("'{{ failure() }}'", f"`failure()` {NOT_OFFERED}"),
        ("success() and params.x",
         "`success()` is the default: a task runs when its upstream tasks succeeded, remove it"),
        ("[a]", "`if` must be an expression over `outputs` and `params`"),
    ],
)  # fmt: skip
def test_an_unsupported_condition_is_explained(said: str, why: str) -> None:
    assert issues(f"tasks:\n  - id: a\n    run: x\n    if: {said}\n") == [f"4:9 {why}"]


def test_other_errors_of_a_schedule_are_reported_beside_one_in_its_trigger() -> None:
    assert issues(f"schedule: {{cron: [a], catch_up: 1000}}\n{TASKS}") == [
        "1:18 `cron` must be a string",
        "1:23 `catch_up` must be from 0 to 100, not 1000",
    ]


def test_an_error_shared_by_two_schedules_is_reported_once() -> None:
    assert issues(f"on: {{every: 1h, event: a}}\nparams: {{a: '{{{{ scheduled_for | nonsense }}}}'}}\n{MAP}") == [
        "2:13 `default` can't be computed: in {{ scheduled_for | nonsense }}: there is no filter 'nonsense'",
    ]


def test_a_task_leaves_the_folder_only_by_an_absolute_path() -> None:
    assert issues("tasks: [{id: a, shell: ls, directory: sub/../..}]\n") == [
        "1:39 `directory` must not contain `..`, use an absolute path"
    ]


def test_a_misspelled_parameter_is_reported_where_it_is_used() -> None:
    """One that is like none of those declared may come from the caller that starts the run."""
    found = issues("""\
params: {day: {type: date, default: "2026-11-16"}}
tasks:
  - id: a
    if: params.dya == '2026-11-16'
    env: {DAY: "{{ params.dya }}", EVENT: "{{ params.event | default(none) }}"}
    run: echo {{ params.dya }} {{ params.other | default(1) }} {{ params.day }}
""")

    assert found == [f"{place} unknown parameter 'dya', did you mean day?" for place in ("4:5", "5:11", "6:5")]
    assert read_pipeline("tasks: [{id: a, run: 'echo {{ params.dya }}'}]\n", "p.yaml").params == {}
