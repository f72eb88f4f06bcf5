"""Inspect function signatures: the context parameter, and declared types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from mainspring.task_context.task_context import Context


def asks_for_context(parameter: inspect.Parameter) -> bool:
    """Whether a parameter takes the context."""
    return parameter.name == "context" or parameter.annotation in {Context, "Context", "mainspring.Context"}


def declared_types(function: Callable[..., object]) -> dict[str, Any]:
    """Return the types of a function's parameters; empty if an annotation can't be resolved at run time."""
    try:
        return get_type_hints(function)
    except Exception:  # noqa: BLE001 - annotations are users' code
        return {}
