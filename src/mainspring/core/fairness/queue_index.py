"""Index of tenants by the shapes of their queues, at one priority (PLC-4).

1. `trying` is `all` without skipped tenants, so that tenants at their quotas cost nothing. Scanning 10,000 of these
   in every turn would take 2 ms.
2. Only skipped tenants are omitted, and a tenant that gets another queue is no longer skipped.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.core.placement.task_shapes import Shape

Owners = dict[Shape, dict[str, None]]
"""Tenants by shape. No shape is there without one."""


class LineOwners:
    """The tenants of the queues of one priority."""

    def __init__(self) -> None:
        self.all: Owners = {}
        self.trying: Owners = {}
        self._sated: dict[str, tuple[Shape, ...]] = {}
        """Skipped tenants, and the shapes of their queues at that time."""

    def join(self, tenant: str, shape: Shape) -> None:
        """Add a tenant's queue of this shape."""
        self.let_try(tenant)
        self.all.setdefault(shape, {})[tenant] = None
        self.trying.setdefault(shape, {})[tenant] = None

    def leave(self, tenant: str, shape: Shape) -> None:
        """Remove a tenant's queue of this shape."""
        _take_out(self.all, tenant, shape)
        _take_out(self.trying, tenant, shape)

    def pass_over(self, tenant: str, shapes: Iterable[Shape]) -> None:
        """Skip a tenant, which has queues of these shapes, for now."""
        self._sated[tenant] = tuple(shapes)
        for shape in self._sated[tenant]:
            _take_out(self.trying, tenant, shape)

    def let_try(self, tenant: str) -> None:
        """Stop skipping a tenant: it may have more than before."""
        for shape in self._sated.pop(tenant, ()):
            if tenant in self.all.get(shape, ()):
                self.trying.setdefault(shape, {})[tenant] = None

    def let_all_try(self, tenants: Iterable[str] | None = None) -> None:
        """Stop skipping these tenants, or all."""
        if self._sated:
            for tenant in list(self._sated if tenants is None else tenants):
                self.let_try(tenant)


def _take_out(owners: Owners, tenant: str, shape: Shape) -> None:
    tenants = owners.get(shape)
    if tenants is not None and tenant in tenants:
        del tenants[tenant]
        if not tenants:
            del owners[shape]
