"""Who has a line of which shape at one priority, and who of them may have more (PLC-4).

1. `trying` is `all` without those who are passed over: who is next costs nothing for tenants at their quotas. To look
   through 10,000 of these in every turn would take 2 ms.
2. Nobody is left out who is not passed over, and whoever gets another line is passed over no more.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.core.placement.task_shapes import Shape

Owners = dict[Shape, dict[str, None]]
"""Tenants by shape. No shape is there without one."""


class LineOwners:
    """The owners of the lines of one priority."""

    def __init__(self) -> None:
        self.all: Owners = {}
        self.trying: Owners = {}
        self._sated: dict[str, tuple[Shape, ...]] = {}
        """Tenants that are passed over, and the shapes of their lines by then."""

    def join(self, tenant: str, shape: Shape) -> None:
        """A tenant has a line of this shape now."""
        self.let_try(tenant)
        self.all.setdefault(shape, {})[tenant] = None
        self.trying.setdefault(shape, {})[tenant] = None

    def leave(self, tenant: str, shape: Shape) -> None:
        """A tenant has no line of this shape any more."""
        _take_out(self.all, tenant, shape)
        _take_out(self.trying, tenant, shape)

    def pass_over(self, tenant: str, shapes: Iterable[Shape]) -> None:
        """A tenant, which has lines of these shapes, may have no more for now."""
        self._sated[tenant] = tuple(shapes)
        for shape in self._sated[tenant]:
            _take_out(self.trying, tenant, shape)

    def let_try(self, tenant: str) -> None:
        """A tenant may have more than before."""
        for shape in self._sated.pop(tenant, ()):
            if tenant in self.all.get(shape, ()):
                self.trying.setdefault(shape, {})[tenant] = None

    def let_all_try(self, tenants: Iterable[str] | None = None) -> None:
        """These tenants, or all, may have more than before."""
        if self._sated:
            for tenant in list(self._sated if tenants is None else tenants):
                self.let_try(tenant)


def _take_out(owners: Owners, tenant: str, shape: Shape) -> None:
    tenants = owners.get(shape)
    if tenants is not None and tenant in tenants:
        del tenants[tenant]
        if not tenants:
            del owners[shape]
