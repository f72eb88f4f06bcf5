"""The JSON Schema of pipeline files has every field, and accepts every valid file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it comes without stubs
import msgspec
import pytest

from mainspring.definitions.files import job_fields, map_reduce_fields, pipeline_fields
from mainspring.definitions.files.field_values import Field, Inner
from mainspring.definitions.files.sources import parse, plain
from mainspring.definitions.pipeline_descriptions import DESCRIPTIONS, STRICT_SECONDS
from mainspring.definitions.pipeline_file import read_pipeline
from mainspring.definitions.pipeline_schema import pipeline_schema, schema_text

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = [
    *sorted((HERE / "pipelines").glob("*.yaml")),
    *sorted((ROOT / "examples").rglob("*.yaml")),
    *sorted((ROOT / "src" / "mainspring" / "templates").glob("*.yaml")),
]
SCHEMA: dict[str, Any] = pipeline_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
DEFINITIONS = SCHEMA["$defs"]
TASK = SCHEMA["properties"]["tasks"]["items"]
TABLES: list[tuple[Mapping[str, Field | Inner], dict[str, Any]]] = [
    (job_fields.JOB_FIELDS, SCHEMA),
    (pipeline_fields.PIPELINE_FIELDS, SCHEMA),
    (job_fields.TASK_FIELDS, TASK),
    (job_fields.RETRY, DEFINITIONS["retry"]),
    (job_fields.BACKOFF, DEFINITIONS["retry"]["properties"]["classes"]["additionalProperties"]),
    (job_fields.RULE, DEFINITIONS["retry"]["properties"]["rules"]["anyOf"][0]),
    (map_reduce_fields.INPUT, DEFINITIONS["input"]),
    (map_reduce_fields.ITEM_FILE, DEFINITIONS["input"]["properties"]["from"]),
    (map_reduce_fields.MAP, DEFINITIONS["map"]),
    (map_reduce_fields.REDUCE, DEFINITIONS["reduce"]["anyOf"][0]),
    (map_reduce_fields.INVOKER, DEFINITIONS["invoker"]),
    (pipeline_fields.RETRY_POLICY, DEFINITIONS["schedule"]["properties"]["retryPolicy"]),
    (pipeline_fields.WINDOW, DEFINITIONS["schedule"]["properties"]["window"]),
    (pipeline_fields.CONDITION, DEFINITIONS["schedule"]["properties"]["condition"]["anyOf"][1]),
    (pipeline_fields.CONCURRENCY, SCHEMA["properties"]["concurrency"]),
    (pipeline_fields.SLA, SCHEMA["properties"]["sla"]),
    (pipeline_fields.NOTIFY, DEFINITIONS["notify"]["anyOf"][0]),
    (pipeline_fields.PARAM, SCHEMA["properties"]["params"]["additionalProperties"]["anyOf"][0]),
]


def objects(schema: object) -> Iterator[dict[str, Any]]:
    """Every object with properties in the schema."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict) and "type" in schema:
            yield schema
        schema = list(schema.values())
    for inner in schema if isinstance(schema, list) else ():
        yield from objects(inner)


def test_the_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert msgspec.json.decode(schema_text()) == SCHEMA
    for one in SCHEMA["examples"]:
        VALIDATOR.validate(one)
        read_pipeline(msgspec.json.encode(one).decode(), "example.json")


def test_every_field_of_the_tables_is_in_the_schema() -> None:
    for fields, schema in TABLES:
        assert {key for key in fields if "." not in key} <= schema["properties"].keys()
    asked = {key for key in pipeline_fields.BLOCK_FIELDS if key not in pipeline_fields.FROM_PIPELINE}
    assert asked | {*pipeline_fields.BESIDE_BLOCK, "manual"} == DEFINITIONS["schedule"]["properties"].keys()
    assert set(pipeline_fields.ON_KEYS) == SCHEMA["properties"]["on"]["properties"].keys()
    assert {*pipeline_fields.SCHEDULE_KEYS, *job_fields.MAP_FIELDS} <= SCHEMA["properties"].keys()


def test_every_field_is_described_and_no_other_is_allowed() -> None:
    found = list(objects(SCHEMA))

    assert len(found) > len(TABLES)
    for schema in found:
        assert schema["additionalProperties"] is False
        assert all(field["description"] for field in schema["properties"].values())


def test_no_description_is_obsolete() -> None:
    known = {field["description"] for schema in objects(SCHEMA) for field in schema["properties"].values()}

    assert {STRICT_SECONDS, *(text for fields in DESCRIPTIONS.values() for text in fields.values())} == known


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_valid_files_match_the_schema(file: Path) -> None:
    root, issues = parse(file.read_text())

    assert root is not None
    assert not issues
    VALIDATOR.validate(plain(root))


@pytest.mark.parametrize(
    "text",
    [
        "name: x",
        "tasks: [{id: a, run: x}]\nmap: {prompt: x}\ninput: {items: []}",
        "map: {prompt: x}",
        "tasks: [{id: a, rnu: x}]",
        "tasks: [{run: x}]",
        "schedule: {crn: '@daily'}\ntasks: [{id: a, run: x}]",
        "schedule: {cron: '@daily'}\non: {manual: true}\ntasks: [{id: a, run: x}]",
        "on: {schedule: [{every: 1h}, {every: 2h}]}\ntasks: [{id: a, run: x}]",
        "schedule: {every: 1h, retryPolicy: {maxRetries: many}}\ntasks: [{id: a, run: x}]",
        "schedule: {every: 1h, condition: {file_exists: ../a}}\ntasks: [{id: a, run: x}]",
        "priority: p7\ntasks: [{id: a, run: x}]",
        "notify: {on: [failed], url: x}\ntasks: [{id: a, run: x}]",
        "params: {a: {type: dat}}\ntasks: [{id: a, run: x}]",
        "reduce: jsn\nmap: {prompt: x}\ninput: {items: []}",
    ],
)
def test_errors_are_found_by_the_schema(text: str) -> None:
    root, _ = parse(text)

    assert root is not None
    assert not VALIDATOR.is_valid(plain(root))
