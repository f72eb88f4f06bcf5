"""The job definition in the OpenAPI document: `core/model/job.py`, with the work of a task as an object.

The model keeps it as opaque JSON, which has no schema. docs/reference/cli.md lists its kinds.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mainspring.core.model.job import JobSpec, TaskSpec


def _shown(struct: type[msgspec.Struct], instead: Mapping[str, object]) -> type[msgspec.Struct]:
    """Return a struct with the same fields, some with another type; optional replaced fields default to empty."""
    fields: list[tuple[str, object] | tuple[str, object, object]] = []
    for field in msgspec.structs.fields(struct):
        kind = instead.get(field.name, field.type)
        if field.required:
            fields.append((field.name, kind))
        elif field.name in instead:
            fields.append((field.name, kind, msgspec.field(default_factory=dict)))
        elif field.default is not msgspec.NODEFAULT:
            fields.append((field.name, kind, field.default))
        else:
            fields.append((field.name, kind, msgspec.field(default_factory=field.default_factory)))
    return msgspec.defstruct(
        struct.__name__, fields, kw_only=True, forbid_unknown_fields=True, namespace={"__doc__": struct.__doc__}
    )


TaskDefinition = _shown(TaskSpec, {"work": dict[str, msgspec.Raw]})
JobDefinition = _shown(JobSpec, {"tasks": tuple[TaskDefinition, ...]})  # type: ignore[valid-type]  # made just now
