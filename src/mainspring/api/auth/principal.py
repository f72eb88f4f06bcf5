"""The authenticated caller of a request, and the roles that it may have (SEC-2)."""

from __future__ import annotations

from enum import StrEnum

import msgspec

ALL_TENANTS = "*"
DEFAULT_TENANT = "default"
"""Tenant of new work if a caller who sees all tenants names none."""


class Role(StrEnum):
    """Role of a caller (SEC-2). `api/auth/permissions.py` maps routes to roles."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"
    WORKER = "worker"
    ATTEMPT = "attempt"
    """A task attempt, authenticated by the token of the attempt (WRK-6)."""
    JOIN = "join"
    """A machine that enrolls as a worker with a join token (SEC-3)."""


TOKEN_ROLES = frozenset(Role) - {Role.ATTEMPT, Role.JOIN}
"""Roles that stored tokens may have. The others come from the credential itself."""


class WorkerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A worker identified by its certificate (SEC-3)."""

    name: str
    pools: tuple[str, ...]
    """Pools that it may serve."""
    key: str


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The authenticated caller."""

    name: str
    """Name in the audit log: `token:etl-bot`, `local`, `attempt:att_..`."""
    tenant: str
    """Tenant whose work it may see; ALL_TENANTS for all."""
    roles: frozenset[Role]
    attempt: str | None = None
    """The attempt, if the caller is one."""
    worker: WorkerIdentity | None = None
    """The worker, if the caller is identified by a worker certificate."""
    join_token: str | None = None
    """Id of the join token, if the caller presented one."""

    def sees(self, tenant: str) -> bool:
        """Return whether the caller may see work of this tenant."""
        return self.tenant in {ALL_TENANTS, tenant}

    def sees_all_tenants(self) -> bool:
        """Return whether the caller may see the work of all tenants."""
        return self.tenant == ALL_TENANTS
