"""HTTP calls and containers in job files and pipeline files: parsing, and errors with lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mainspring.core.work.work import KINDS, HttpCall, InContainer, read_work
from mainspring.definitions.job_file import read_definition
from mainspring.definitions.pipeline_file import read_pipeline
from mainspring.protocol.errors import InvalidFile

INSIDE = "move `run` into `container`"
NAMES = "available: item and outputs and params and partition and run and task and total and window"
FILE = """\
name: calls
tasks:
  - id: ping
    http: https://example.com/ping
  - id: load
    needs: ping
    http:
      url: https://example.com/{{ params.day }}
      method: POST
      headers: {Authorization: "Bearer ${TOKEN}", X-Count: 3}
      json: {rows: "{{ outputs.ping.body.rows }}", deep: [1, {a: null}]}
      expect: [409]
      timeout: 1m30s
    secrets: {TOKEN: "env:API_TOKEN"}
  - id: train
    needs: load
    container: {image: "python:3.13-slim", run: "python train.py --day {{ params.day }}", pull: always}
    network: true
    env: {MODE: full}
  - id: tool
    container: alpine:3
"""


def works_of(body: bytes) -> list[dict[str, Any]]:
    """The work of a job's tasks."""
    return [task["work"] for task in json.loads(body)["tasks"]]


def flaws_of(text: str) -> list[str]:
    """The errors of a file, with line and column."""
    with pytest.raises(InvalidFile) as caught:
        read_definition(text, "e.yaml")
    return [f"{fault.where.removeprefix('e.yaml:')} {fault.why}" for fault in caught.value.faults]


def test_a_job_file_can_have_http_calls_and_containers() -> None:
    ping, load, train, tool = works_of(read_definition(FILE, "e.yaml").body)
    assert ping == {"http": {"url": "https://example.com/ping"}}
    assert load["http"] == {
        "url": "https://example.com/{{ params.day }}",
        "method": "POST",
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-Count": "3"},
        "json": {"rows": "{{ outputs.ping.body.rows }}", "deep": [1, {"a": None}]},
        "expect": [409],
        "timeout_seconds": 90.0,
    }
    assert isinstance(read_work(json.dumps(load)), HttpCall)
    assert train["container"] == {
        "image": "python:3.13-slim", "run": ["python", "train.py", "--day", "{{ params.day }}"], "pull": "always",
    }  # fmt: skip
    assert isinstance(read_work(json.dumps(train)), InContainer)
    assert tool == {"container": {"image": "alpine:3"}}


def test_a_pipeline_can_have_them_and_they_do_not_run_in_its_directory() -> None:
    """It is on the worker's machine: a container does not see it."""
    text = FILE.replace("name: calls\n", "") + "  - {id: here, run: ls}\n"
    *works, here = works_of(read_pipeline(text, "p/pipeline.yaml", directory="/pipelines/p", local_zone="UTC").job)
    assert [work.get("directory") for work in works] == [None] * 4
    assert here["directory"] == "/pipelines/p"


def test_errors_are_reported_with_line_and_suggestion() -> None:
    assert flaws_of("""\
name: wrong
tasks:
  - {id: a, http: {url: "https://h.test/", methd: GET, json: 1}}
  - {id: b, http: {url: "https://h.test/", method: POTS}}
  - {id: c, container: {image: x, pul: never}}
  - {id: d, container: {image: x, pull: nver}}
  - {id: e, container: {image: x}, run: python x.py}
  - {id: f, http: [1]}
""") == [
        "3:44 unknown field `methd` of `http`, did you mean `method`?",
        "4:52 `method` must be one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, did you mean `POST`?",
        "5:35 unknown field `pul` of `container`, did you mean `pull`?",
        "6:41 `pull` must be one of missing, always, never, did you mean `never`?",
        f"7:5 a task needs one of {', '.join(KINDS)}; it has run and container, {INSIDE}",
        "8:19 `http` must be a mapping with url, method, headers, body, json, expect, timeout, timeout_seconds",
    ]  # fmt: skip


def test_faults_by_the_servers_rules_are_mapped_to_lines() -> None:
    assert flaws_of("""\
name: wrong
tasks:
  - id: a
    http:
      url: ftp://h.test/
      headers:
        Host: other
        X-Key: ${KEZ}
      timeout: 2h
    secrets: {KEY: "env:KEY"}
  - id: b
    container:
      image: --privileged
      run: [sh, "{{ parms.day }}"]
""") == [
        "5:7 `url` must begin with https:// or http:// and a host",
        "7:9 `Host` must be omitted: it is set by the HTTP client",
        "8:9 `X-Key` has ${KEZ}, which is not a secret of the task: declare it in secrets",
        "9:7 `timeout_seconds` must be more than 0 and at most 3600",
        "13:7 `image` is not an image name such as python:3.13-slim",
        f"14:17 in {{{{ parms.day }}}}: uses undefined parms; {NAMES}",
    ]  # fmt: skip


def test_a_misspelled_parameter_is_found_in_nested_fields() -> None:
    text = """\
params: {day: monday}
tasks:
  - {id: a, http: {url: "https://h.test/{{ params.dya }}", json: {a: ["{{ params.day }}"]}}}
  - {id: b, container: {image: x, run: [sh, "{{ params.dayy }}"]}}
"""
    with pytest.raises(InvalidFile) as caught:
        read_pipeline(text, "p.yaml", local_zone="UTC")
    assert [fault.why for fault in caught.value.faults] == [
        "unknown parameter 'dya', did you mean day?", "unknown parameter 'dayy', did you mean day?",
    ]  # fmt: skip
