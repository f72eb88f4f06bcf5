"""What a function says of its parameters: which are for the context, and of which types the others are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from mainspring.task_context.task_context import Context


def asks_for_context(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is for the context."""
    return parameter.name == "context" or parameter.annotation in {Context, "Context", "mainspring.Context"}


def declared_types(function: Callable[..., object]) -> dict[str, Any]:
    """The types of a function's parameters; none if they name what is not there when it runs."""
    try:
        return get_type_hints(function)
    except Exception:  # noqa: BLE001 - annotations are users' code, and may raise anything
        return {}
