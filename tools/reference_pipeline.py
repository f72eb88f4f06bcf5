"""Generate the page of pipeline files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mainspring.definitions.pipeline_schema import pipeline_schema
from tools.markdown import code, table

_BEGINNING = """\
# Pipeline files

A directory with a `pipeline.yaml` is a pipeline. `mainspring validate` checks files, `mainspring plan` shows when they
run, and `mainspring schema pipeline` prints this page as a JSON Schema for editors. The [guide](../guides/folder.md)
has examples.

All fields are optional, except one of `tasks` and `map`. An unknown field is an error. Durations are written `30s`,
`10m`, `1h30m`; sizes `512Mi`, `2G`. `defaults` takes task fields that apply to all tasks. Fields of the strict form,
which programs send ([routes](routes.md)), are also accepted, and not listed here.
"""
_STRICT = "strict form"
_REPEATED = "defaults"


def pipeline_page() -> str:
    """Return the text of the page."""
    schema = pipeline_schema()
    lines = [_BEGINNING]
    for heading, fields in _sections(schema):
        rows = [
            [code(name), _kind(field, schema), description]
            for name, field in fields
            if _STRICT not in (description := str(field.get("description", "")))
        ]
        lines += [f"## {heading}", "", *table(["Field", "Value", "Description"], rows)]
    return "\n".join(lines)


def _sections(schema: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, Mapping[str, Any]]]]]:
    """Yield the file itself, then each field that has nested fields, recursively."""
    waiting: list[tuple[str, Mapping[str, Any]]] = [("The file", schema)]
    told: set[int] = set()
    while waiting:
        heading, whole = waiting.pop(0)
        properties: Mapping[str, Any] = whole["properties"]
        yield heading, list(properties.items())
        for name, field in properties.items():
            if name == _REPEATED:
                continue
            for inside in _objects(field, schema):
                if id(inside) not in told:
                    told.add(id(inside))
                    waiting.append((code(f"{_path(heading)}{name}"), inside))


def _path(heading: str) -> str:
    return "" if heading == "The file" else f"{heading.strip('`')}."


def _objects(field: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the object types of a value, or of its list items."""
    field = _followed(field, schema)
    if "properties" in field:
        yield field
    for inside in (*field.get("anyOf", ()), *field.get("oneOf", ())):
        yield from _objects(inside, schema)
    if isinstance(field.get("items"), Mapping):
        yield from _objects(field["items"], schema)


def _followed(field: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in field:
        return field
    found: Mapping[str, Any] = schema["$defs"][field["$ref"].rpartition("/")[2]]
    return found


def _kind(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Describe the type of a value briefly."""
    field = _followed(field, schema)
    if "enum" in field:
        return ", ".join(code(str(value)) for value in field["enum"])
    if "examples" in field:
        return f"such as {code(str(field['examples'][0]))}"
    kinds = field.get("type", [])
    found = [kinds] if isinstance(kinds, str) else list(kinds)
    for inside in (*field.get("anyOf", ()), *field.get("oneOf", ())):
        found += [kind for kind in _kind(inside, schema).split(" or ") if kind]
    names = {"string": "text", "object": "mapping", "array": "list", "integer": "whole number"}
    unique = dict.fromkeys(names.get(kind, kind) for kind in found)
    if "text" in unique:
        unique.pop("number", None)
        unique.pop("boolean", None)
    return " or ".join(unique)
