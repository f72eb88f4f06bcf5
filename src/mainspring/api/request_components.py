"""Components of one request: what several routes use together for their caller, as one argument.

    @dataclass(frozen=True, slots=True)
    class VisibleRows(RequestComponent):
        principal: Principal
        store: Store

        async def run(self, run_id: str) -> ListedRun: ..

    async def get_run(run_id: str, visible: VisibleRows) -> RunView: ..

Its fields are the caller, the request, components of the server (`api/services.py`), or others of the request; they are
bound by type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import get_type_hints


class RequestComponent:
    """Base of the components of one request, which are dataclasses."""

    __slots__ = ()


def is_request_component(kind: object) -> bool:
    """Return whether an argument of this type is created for each request."""
    return isinstance(kind, type) and issubclass(kind, RequestComponent)


def with_parts(kinds: Iterable[type]) -> Iterator[type]:
    """Yield these types, and those of all their fields."""
    for kind in kinds:
        yield kind
        if is_request_component(kind):
            yield from with_parts(_fields_of(kind).values())


def create(kind: type, find: Callable[[type], object | None]) -> object:
    """Create a component of a request; `find` returns the parts that exist."""
    found = find(kind)
    if found is None:
        return kind(**{name: create(part, find) for name, part in _fields_of(kind).items()})
    return found


@cache
def _fields_of(kind: type) -> Mapping[str, type]:
    return get_type_hints(kind)
