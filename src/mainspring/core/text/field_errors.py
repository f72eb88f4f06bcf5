"""Report every fault in an object that could not be decoded as a struct.

msgspec stops at the first fault, so each field is decoded separately. Slow, and only used after a failure.
"""

from __future__ import annotations

from enum import Enum
from functools import cache

import msgspec

from mainspring.core.admission.validate_job import Faults
from mainspring.core.model.job import Edge, TaskSpec
from mainspring.core.model.resources import Resources
from mainspring.core.text.strict_json import InvalidValue, Read, path_to, split_error
from mainspring.core.text.suggestions import did_you_mean

_KINDS = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "a list", dict: "an object"}


def name_faults(value: Read, kind: type[msgspec.Struct], where: str, faults: Faults) -> dict[str, Read]:
    """Add each fault of an object of this type; return the valid fields.

    Invalid values were reported before.
    """
    if not isinstance(value, dict):
        if not isinstance(value, InvalidValue):
            faults.add(where, f"must be an object, not {_kind(value)}")
        return {}
    good: dict[str, Read] = {}
    fields = _fields(kind)
    for key in value:
        if key not in fields:
            hint = did_you_mean(key, fields) or f"; known: {', '.join(fields)}"
            faults.add(path_to(where, key), f"is unknown{hint}")
    for name, field in fields.items():
        before = faults.total()
        path = path_to(where, name)
        if name not in value:
            if field.required:
                faults.add(path, "is missing")
        elif field.type is Resources:
            name_faults(value[name], Resources, path, faults)
        elif kind is TaskSpec and name == "needs":
            _name_faults_of_edges(value[name], path, faults)
        elif field.type is not msgspec.Raw and not isinstance(value[name], InvalidValue):
            _name_fault_of_field(value[name], field, path, faults)
        if name in value and faults.total() == before and not isinstance(value[name], InvalidValue):
            good[name] = value[name]
    return good


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """Return the fields of a struct. Cached: reflection takes as long as all other work on a small job."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _name_faults_of_edges(value: Read, where: str, faults: Faults) -> None:
    if not isinstance(value, list):
        faults.add(where, f"must be a list, not {_kind(value)}")
        return
    for index, edge in enumerate(value):
        name_faults(edge, Edge, path_to(where, index), faults)


def _name_fault_of_field(value: Read, field: msgspec.structs.FieldInfo, where: str, faults: Faults) -> None:
    try:
        msgspec.convert(value, field.type)
    except UnicodeEncodeError:
        return  # A lone surrogate: reported as a fault of the text.
    except msgspec.ValidationError as error:
        if isinstance(field.type, type) and issubclass(field.type, Enum):
            faults.add(where, f"must be one of {', '.join(str(member.value) for member in field.type)}")
            return
        why, inside = split_error(error)
        faults.add(where + inside, why[:1].lower() + why[1:])


def _kind(value: Read) -> str:
    return "null" if value is None else _KINDS.get(type(value), "this type")
