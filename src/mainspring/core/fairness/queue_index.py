"""Index of tenants by the shapes of their queues, at one priority (PLC-4).

1. `trying` is `all` without skipped tenants, so that tenants at their quotas cost nothing. Scanning 10,000 of these
   in every turn would take 2 ms.
2. Only skipped tenants are omitted, and a tenant that gets another queue is no longer skipped.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.core.placement.task_shapes import Shape

TenantsByShape = dict[Shape, dict[str, None]]
"""Tenants by shape. No shape is there without one."""


class QueueIndex:
    """The tenants of the queues of one priority."""

    def __init__(self) -> None:
        self.all: TenantsByShape = {}
        self.trying: TenantsByShape = {}
        self._skipped: dict[str, tuple[Shape, ...]] = {}
        """Skipped tenants, and the shapes of their queues at that time."""

    def join(self, tenant: str, shape: Shape) -> None:
        """Add a tenant's queue of this shape."""
        self.retry_tenant(tenant)
        self.all.setdefault(shape, {})[tenant] = None
        self.trying.setdefault(shape, {})[tenant] = None

    def leave(self, tenant: str, shape: Shape) -> None:
        """Remove a tenant's queue of this shape."""
        _take_out(self.all, tenant, shape)
        _take_out(self.trying, tenant, shape)

    def skip(self, tenant: str, shapes: Iterable[Shape]) -> None:
        """Skip a tenant, which has queues of these shapes, for now."""
        self._skipped[tenant] = tuple(shapes)
        for shape in self._skipped[tenant]:
            _take_out(self.trying, tenant, shape)

    def retry_tenant(self, tenant: str) -> None:
        """Stop skipping a tenant: it may have more than before."""
        for shape in self._skipped.pop(tenant, ()):
            if tenant in self.all.get(shape, ()):
                self.trying.setdefault(shape, {})[tenant] = None

    def retry_tenants(self, tenants: Iterable[str] | None = None) -> None:
        """Stop skipping these tenants, or all."""
        if self._skipped:
            for tenant in list(self._skipped if tenants is None else tenants):
                self.retry_tenant(tenant)


def _take_out(index: TenantsByShape, tenant: str, shape: Shape) -> None:
    tenants = index.get(shape)
    if tenants is not None and tenant in tenants:
        del tenants[tenant]
        if not tenants:
            del index[shape]
