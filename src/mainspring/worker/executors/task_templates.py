"""Templates of a task: their values, and how arguments and variables are rendered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mainspring.core.expressions import engine as expressions
from mainspring.core.expressions.engine import Values
from mainspring.protocol.errors import ExpressionFailed
from mainspring.protocol.wire import Assignment


def template_values(assignment: Assignment) -> Values:
    """Return the values for the task's templates. Absent ones (item, window) are left out."""
    values: dict[str, Any] = {
        "params": msgspec.Raw(assignment.params.encode()),
        "outputs": msgspec.Raw(
            msgspec.json.encode({name: msgspec.Raw(text.encode()) for name, text in assignment.inputs.items()})
        ),
        "run": {"id": assignment.run},
        "task": {"id": assignment.task, "name": assignment.name, "attempt": assignment.number},
    }
    if assignment.partition is not None:
        item = msgspec.Raw((assignment.item or "null").encode())
        values |= {"item": item, "partition": assignment.partition, "total": assignment.total}
    if assignment.window:
        values["window"] = assignment.window
    return values


def rendered(where: str, template: str, values: Values) -> str:
    """Render a template. Raises ExpressionFailed, which names the field."""
    try:
        return expressions.render(template, values)
    except ExpressionFailed as error:
        raise ExpressionFailed(f"{where}: {error}") from None


def rendered_argv(where: str, argv: Sequence[str], values: Values) -> list[str]:
    """Render the arguments of a command. Raises ExpressionFailed."""
    return [rendered(f"{where}[{number}]", arg, values) for number, arg in enumerate(argv)]


def rendered_env(env: Mapping[str, str], values: Values) -> dict[str, str]:
    """Render variables. Raises ExpressionFailed."""
    return {name: rendered(f"env.{name}", text, values) for name, text in env.items()}
