"""JSON Schema of pipeline files, for completion, help and validation in editors.

It is generated from the tables by which files are read (`definitions/files/job_fields.py`,
`definitions/files/map_reduce_fields.py`, `schedule_file.py`, `definitions/files/pipeline_fields.py`), so it has the
same fields. Descriptions are in `pipeline_descriptions.py`; the forms of values that can't be derived are here. The
server's rules are not included: use `mainspring validate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from mainspring.core.lifecycle.failure_policy import FailureClass
from mainspring.core.model.run import FailurePolicy
from mainspring.definitions.files import executor_fields, job_fields, map_reduce_fields, pipeline_fields
from mainspring.definitions.files.field_values import (
    Field,
    Inner,
    Inside,
    ListOf,
    OneOf,
    as_bytes,
    as_count,
    as_directory,
    as_expression,
    as_flag,
    as_number,
    as_path_inside,
    as_seconds,
    as_text,
    as_texts,
    as_words,
)
from mainspring.definitions.files.sources import Node, plain
from mainspring.definitions.pipeline_descriptions import DESCRIPTIONS, STRICT_SECONDS

Schema: TypeAlias = "dict[str, object]"
Reader: TypeAlias = "Callable[[Node], object]"

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_EXAMPLE: Schema = {
    "name": "etl",
    "schedule": {"cron": "30 5 * * 1-5", "timezone": "Europe/Paris"},
    "tasks": [{"id": "extract", "run": "python extract.py"}, {"id": "load", "needs": ["extract"], "run": "./load.sh"}],
}
_TEXT: Schema = {"type": ["string", "number", "boolean"]}
_LENGTH: Schema = {"type": ["string", "number"], "examples": ["30s", "10m", "1h30m"]}
_SIZE: Schema = {"type": ["string", "integer"], "examples": ["512Mi", "2G"]}
_COUNT: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_MAPPING: Schema = {"type": "object"}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_ANYTHING: Schema = {}
_BY_READER: dict[Reader, Schema] = {
    as_text: _TEXT,
    pipeline_fields.as_title: _TEXT,
    as_texts: _TEXTS,
    as_seconds: _LENGTH,
    as_flag: {"type": "boolean"},
    as_number: _NUMBER,
    as_count: _COUNT,
    as_bytes: _SIZE,
    as_directory: {"type": "string", "pattern": r"^(?!(.*/)?\.\.(/|$))"},
    as_path_inside: {"type": "string", "pattern": r"^(?!/)(?!(.*/)?\.\.(/|$))"},
    as_expression: {"type": ["string", "array"]},
    as_words: {"type": ["string", "array"], "items": _TEXT},
}


def pipeline_schema() -> Schema:
    """Return the schema of a `pipeline.yaml`."""
    fields = {**_readers(job_fields.JOB_FIELDS), **_readers(pipeline_fields.PIPELINE_FIELDS)}
    fields |= dict.fromkeys(pipeline_fields.SCHEDULE_KEYS, as_text)
    tasks = _readers(job_fields.TASK_FIELDS)
    fields |= {key: tasks[key] for key in sorted(job_fields.MAP_FIELDS)}
    return {
        "$schema": DIALECT,
        "title": "Mainspring pipeline",
        "description": "A job, its triggers and its notifications.",
        **_object("pipeline", fields),
        "oneOf": [{"required": ["tasks"]}, {"required": ["map", "input"]}],
        "not": {"required": ["schedule", "on"]},
        "examples": [_EXAMPLE],
        "$defs": {name: make() for name, make in _SHARED.items()},
    }


def schema_text() -> str:
    """Return the schema as the text of a file."""
    return msgspec.json.format(msgspec.json.encode(pipeline_schema()), indent=2).decode() + "\n"


def _readers(fields: Mapping[str, Field]) -> dict[str, Reader]:
    """Return the user-facing fields with their readers. Names with a dot are internal."""
    return {key: field.convert for key, field in fields.items() if "." not in key}


def _inner(fields: Mapping[str, Inner]) -> dict[str, Reader]:
    return {key: read for key, (_, read) in fields.items()}


def _object(what: str, fields: Mapping[str, Reader], required: Iterable[str] = ()) -> Schema:
    """Return the schema of a mapping with exactly these fields."""
    properties = {key: _property(what, key, read) for key, read in fields.items()}
    schema: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def _property(what: str, key: str, read: Reader) -> Schema:
    form = _FORMS[what, key]() if (what, key) in _FORMS else _form(key, read)
    texts = DESCRIPTIONS[what]
    description = STRICT_SECONDS if key.endswith("_seconds") and key not in texts else texts[key]
    return {**form, "description": description}


def _form(what: str, read: Reader) -> Schema:
    """Return the schema of a reader's input."""
    match read:
        case OneOf():
            return {"enum": list(read.words)}
        case ListOf():
            item = _form(what, read.item)
            return {"anyOf": [item, {"type": "array", "items": item}]}
        case Inside():
            return _object(what, _inner(read.fields))
        case _ if read is plain and what.endswith("_seconds"):
            return _NUMBER
        case _:
            return _BY_READER[read]


def _either(*forms: Schema) -> Schema:
    return {"anyOf": list(forms)}


def _text_or(what: str, fields: Mapping[str, Reader], required: str) -> Callable[[], Schema]:
    """Return the schema of a mapping with a required field, which a string stands for."""
    return lambda: _either({"type": "string"}, _object(what, fields, [required]))


def _list_or_one(form: Schema, most: int | None = None) -> Schema:
    several: Schema = {"type": "array", "items": form, "minItems": 1}
    return _either(form, several if most is None else {**several, "maxItems": most})


def _shared(name: str) -> Callable[[], Schema]:
    """Reference a shared definition by name."""
    return _fixed({"$ref": f"#/$defs/{name}"})


def _task() -> Schema:
    named = [{"required": ["id"]}, {"required": ["name"]}]
    return {**_object("task", _readers(job_fields.TASK_FIELDS)), "anyOf": named}


def _defaults() -> Schema:
    fields = _readers(job_fields.TASK_FIELDS)
    return _object("task", {key: fields[key] for key in fields if key not in job_fields.OWN_FIELDS})


def _block() -> Schema:
    fields = _readers(pipeline_fields.BLOCK_FIELDS)
    chosen = {key: read for key, read in fields.items() if key not in pipeline_fields.FROM_PIPELINE}
    chosen |= dict.fromkeys((*pipeline_fields.BESIDE_BLOCK, "manual"), as_text)
    return _object("schedule", chosen)


def _event() -> Schema:
    shared = _block()["properties"]
    assert isinstance(shared, dict)
    left_out = {"cron", "timezone", "every", "anchor", "at", "event", "manual", *pipeline_fields.BESIDE_BLOCK}
    properties = {key: form for key, form in shared.items() if key not in left_out}
    named = {"type": {**_TEXT, "description": DESCRIPTIONS["schedule"]["event"]}}
    whole: Schema = {"type": "object", "additionalProperties": False, "properties": {**named, **properties}}
    return _either({"type": "string"}, {**whole, "required": ["type"]})


def _on() -> Schema:
    return _object("on", dict.fromkeys(pipeline_fields.ON_KEYS, as_text))


def _needs() -> Schema:
    return _list_or_one(_either({"type": "string"}, _object("edge", {"task": as_text, "when": as_text}, ["task"])))


def _retry() -> Schema:
    return _object("retry", {**_inner(job_fields.RETRY), "delay": as_seconds})


def _notify() -> Schema:
    return _list_or_one(_object("notify", _inner(pipeline_fields.NOTIFY)))


def _reduce() -> Schema:
    return _either(_form("reduce", map_reduce_fields.REDUCTION), _form("type", map_reduce_fields.REDUCE["type"][1]))


def _resources() -> Schema:
    return _object("resources", dict.fromkeys(job_fields.RESOURCES, as_text))


def _param() -> Schema:
    declared = {**_object("param", _inner(pipeline_fields.PARAM)), "type": "object"}
    return {"type": "object", "additionalProperties": _either(declared, {"not": {"type": "object"}})}


def _fixed(schema: Schema) -> Callable[[], Schema]:
    return lambda: schema


_RETRIES: Schema = {"type": "integer", "minimum": 0, "maximum": 4}
_TRIES: Schema = {"type": "integer", "minimum": 1, "maximum": pipeline_fields.MAX_ATTEMPTS}
_URL: Schema = {"type": "string", "examples": ["${env:HOOK}"]}
_PRIORITY: Schema = {"enum": ["P0", "P1", "P2", "p0", "p1", "p2"]}
_EXPECTED: dict[str, Reader] = {
    "cron": as_text, "timezone": as_text, "buffer": as_seconds, "buffer_seconds": as_number,
}  # fmt: skip
_AFTER: dict[str, Reader] = {"job": as_text, "within": as_seconds, "within_seconds": as_number}
_SHARED: dict[str, Callable[[], Schema]] = {
    "schedule": _block,
    "notify": _notify,
    "retry": _retry,
    "resources": _resources,
    "input": lambda: _form("input", map_reduce_fields.as_input),
    "map": lambda: _form("map", map_reduce_fields.as_map),
    "reduce": _reduce,
    "invoker": lambda: _form("invoker", map_reduce_fields.as_invoker),
}
_FORMS: dict[tuple[str, str], Callable[[], Schema]] = {
    **{(what, key): _shared(key) for what in ("pipeline", "task") for key in ("input", "map", "reduce", "invoker")},
    ("pipeline", "on_failure"): _fixed({"enum": list(FailurePolicy)}),
    ("pipeline", "retry"): _shared("retry"),
    ("pipeline", "tasks"): lambda: {"type": "array", "items": _task(), "minItems": 1},
    ("pipeline", "defaults"): _defaults,
    ("pipeline", "params"): _param,
    ("pipeline", "tenant"): _fixed(_TEXT),
    ("pipeline", "notify"): _shared("notify"),
    ("pipeline", "schedule"): _shared("schedule"),
    ("pipeline", "on"): _on,
    ("pipeline", "priority"): _fixed(_PRIORITY),
    ("task", "needs"): _needs,
    ("task", "args"): _fixed(_MAPPING),
    ("task", "values"): _fixed(_MAPPING),
    ("task", "work"): _fixed(_MAPPING),
    ("task", "http"): _text_or("http", _inner(executor_fields.HTTP), "url"),
    ("task", "container"): _text_or("container", _inner(executor_fields.CONTAINER), "image"),
    ("task", "kubernetes"): lambda: _object("kubernetes", _inner(executor_fields.KUBERNETES), ["image"]),
    ("task", "ray"): lambda: _object("ray", _inner(executor_fields.RAY), ["run"]),
    ("ray", "runtime_env"): _fixed(_MAPPING),
    ("task", "resources"): _shared("resources"),
    ("task", "retries"): _fixed(_RETRIES),
    ("task", "max_attempts"): _fixed(_TRIES),
    ("task", "retry"): _shared("retry"),
    ("task", "on_skip"): _fixed({"enum": ["skip", "run"]}),
    ("task", "if"): _fixed(_TEXT),
    ("task", "when"): _fixed(_TEXT),
    ("retry", "classes"): lambda: {
        "type": "object",
        "propertyNames": {"enum": list(FailureClass)},
        "additionalProperties": _object("backoff", _inner(job_fields.BACKOFF)),
    },
    ("retry", "rules"): lambda: _list_or_one(_object("rule", _inner(job_fields.RULE), required=["failure"])),
    ("rule", "failure"): _fixed({"enum": list(FailureClass)}),
    ("map", "retries"): _fixed({"type": "integer", "minimum": 0, "maximum": 9}),
    ("http", "json"): _fixed(_ANYTHING),
    ("input", "items"): _fixed({"type": "array", "items": _MAPPING}),
    ("schedule", "every"): _fixed(_LENGTH),
    ("schedule", "jitter"): _fixed(_LENGTH),
    ("schedule", "expected"): _text_or("expected", _EXPECTED, "cron"),
    ("schedule", "max_delay_seconds"): _fixed({"type": ["number", "null"]}),
    ("schedule", "jitter_seconds"): _fixed({"type": ["integer", "null"]}),
    ("schedule", "after"): _text_or("after", _AFTER, "job"),
    ("schedule", "condition"): lambda: _either(
        {"type": "string"}, _object("condition", _inner(pipeline_fields.CONDITION))
    ),
    ("schedule", "max_failures"): _fixed({"anyOf": [_COUNT, {"const": "never"}]}),
    ("schedule", "max_consecutive_failures"): _fixed({"type": ["integer", "null"]}),
    ("schedule", "window"): lambda: _object("window", _inner(pipeline_fields.WINDOW)),
    ("schedule", "retryPolicy"): lambda: _object("retryPolicy", _inner(pipeline_fields.RETRY_POLICY)),
    ("schedule", "notify"): _shared("notify"),
    ("schedule", "manual"): _fixed({"const": True}),
    ("window", "maxDelayMinutes"): _fixed(_NUMBER),
    ("retryPolicy", "maxRetries"): _fixed({"type": "integer", "minimum": 0, "maximum": pipeline_fields.MAX_ATTEMPTS}),
    ("retryPolicy", "retryDelayMs"): _fixed(_NUMBER),
    ("on", "schedule"): lambda: _list_or_one(_shared("schedule")(), most=1),
    ("on", "every"): _fixed(_LENGTH),
    ("on", "event"): _event,
    ("on", "manual"): _fixed({"type": "boolean"}),
    ("concurrency", "max"): _fixed({"type": "integer", "minimum": 1}),
    ("sla", "warn_at"): _fixed({"type": ["string", "integer"], "examples": ["80%"]}),
    ("notify", "on"): _fixed(_list_or_one({"enum": list(pipeline_fields.NOTIFY_EVENTS)})),
    **{("notify", key): _fixed(_URL) for key in ("url", "on_failure", "on_success", "on_complete")},
    ("param", "default"): _fixed(_ANYTHING),
}
"""Schemas of values that can't be derived from their reader, by section and field name."""
