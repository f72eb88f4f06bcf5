"""Parameters of a manual run: given values, and the defaults of the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING

from mainspring.core.expressions import engine as expressions
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import ExpressionFailed, Fault, refusal

if TYPE_CHECKING:
    from mainspring.definitions.pipeline_file import Param


def make_params(
    declared: Mapping[str, Param], given: Mapping[str, object], scheduled_for: datetime
) -> dict[str, object]:
    """Return all parameters of a run. Raises Refused with every fault.

    A pipeline without declared parameters accepts any.
    """
    if not declared:
        return dict(given)
    params: dict[str, object] = {}
    faults = [
        Fault(where=name, why=f"is not a parameter{did_you_mean(name, declared)}")
        for name in given
        if name not in declared
    ]
    for name, param in declared.items():
        if name in given:
            params[name] = given[name]
            if not TYPE_CHECKS[param.type](given[name]):
                faults.append(Fault(where=name, why=f"must be {TYPE_NAMES[param.type]}, not {given[name]!r}"))
        elif param.required:
            faults.append(Fault(where=name, why=f"is missing: use -p {name}=.."))
        else:
            try:
                params[name] = _default(param, scheduled_for)
            except ExpressionFailed as failed:
                faults.append(Fault(where=name, why=f"default can't be computed: {failed}"))
    if faults:
        raise refusal("the parameters have", faults)
    return params


def _default(param: Param, scheduled_for: datetime) -> object:
    if isinstance(param.default, str) and param.is_computed:
        return expressions.render(param.default, {"scheduled_for": scheduled_for.isoformat()})
    return param.default


def _is_date(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(date.fromisoformat(value))
    except ValueError:
        return False


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


TYPE_CHECKS: Mapping[str, Callable[[object], bool]] = {
    "text": lambda value: isinstance(value, str | int | float),
    "integer": _is_whole,
    "number": lambda value: isinstance(value, float) or _is_whole(value),
    "boolean": lambda value: isinstance(value, bool),
    "date": _is_date,
    "json": lambda value: True,
}
"""Parameter types, and their checks."""
TYPE_NAMES = {
    "text": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "date": "a date such as 2026-11-15",
    "json": "anything",
}
