"""The parameters of a run that somebody asks for by hand: what they say, and for the rest what the file says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING

from mainspring.core.expressions import engine as expressions
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import ExpressionFailed, Fault, Refused

if TYPE_CHECKING:
    from mainspring.definitions.pipeline_file import Param


def make_params(
    declared: Mapping[str, Param], given: Mapping[str, object], scheduled_for: datetime
) -> dict[str, object]:
    """All parameters of a run. Raises Refused, with every fault, if some can't be what they should be.

    A pipeline that declares none takes whatever is given.
    """
    if not declared:
        return dict(given)
    params: dict[str, object] = {}
    faults = [
        Fault(where=name, why=f"is no parameter of it{did_you_mean(name, declared)}")
        for name in given
        if name not in declared
    ]
    for name, param in declared.items():
        if name in given:
            params[name] = given[name]
            if not FITS[param.type](given[name]):
                faults.append(Fault(where=name, why=f"must be {SAID[param.type]}, not {given[name]!r}"))
        elif param.required:
            faults.append(Fault(where=name, why=f"is missing: say -p {name}=.."))
        else:
            try:
                params[name] = _default(param, scheduled_for)
            except ExpressionFailed as failed:
                faults.append(Fault(where=name, why=f"its default can't be made: {failed}"))
    if faults:
        raise Refused(f"the parameters have {len(faults)} fault{'s' if len(faults) > 1 else ''}", faults)
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


FITS: Mapping[str, Callable[[object], bool]] = {
    "text": lambda value: isinstance(value, str | int | float),
    "integer": _is_whole,
    "number": lambda value: isinstance(value, float) or _is_whole(value),
    "boolean": lambda value: isinstance(value, bool),
    "date": _is_date,
    "json": lambda value: True,
}
"""The types of parameters, and what is one of each."""
SAID = {
    "text": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "date": "a date such as 2026-11-15",
    "json": "anything",
}
