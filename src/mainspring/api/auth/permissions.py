"""Permissions (SEC-2): each route names a role, and this module maps it to the roles that satisfy it.

    viewer ⊂ submitter ⊂ operator ⊂ admin          each includes those before it
    approver ⊃ viewer                               decides what needs approval, and runs nothing
    worker                                          the worker link and the routes for workers only
    join                                            enrolling as a worker only
    attempt                                         ATTEMPT_OPERATIONS on its own task only

A role that is not listed has no permissions. Visibility of tenants is separate: `Principal.sees`. An attempt sees less
than its tenant: the routes of ATTEMPT_OPERATIONS check that (`api/auth/visibility.py`). tests/api/matrix.txt lists
every route and every role.
"""

from __future__ import annotations

from mainspring.api.auth.principal import ALL_TENANTS, DEFAULT_TENANT, Principal, Role
from mainspring.protocol.errors import Forbidden

R = Role

SATISFIED_BY: dict[Role, frozenset[Role]] = {
    R.VIEWER: frozenset({R.VIEWER, R.SUBMITTER, R.OPERATOR, R.APPROVER, R.ADMIN}),
    R.SUBMITTER: frozenset({R.SUBMITTER, R.OPERATOR, R.ADMIN}),
    R.OPERATOR: frozenset({R.OPERATOR, R.ADMIN}),
    R.APPROVER: frozenset({R.APPROVER, R.ADMIN}),
    R.ADMIN: frozenset({R.ADMIN}),
    R.WORKER: frozenset({R.WORKER, R.ADMIN}),
    R.ATTEMPT: frozenset({R.ATTEMPT}),
    R.JOIN: frozenset({R.JOIN}),
}
"""Roles that satisfy the role of a route."""

ATTEMPT_OPERATIONS = frozenset({"get_task", "get_checkpoint", "put_checkpoint", "list_run_artifacts"})
"""Operations that an attempt may call for its own task or run, with its token."""


def check(principal: Principal, role: Role, operation: str) -> None:
    """Raise Forbidden if the caller lacks the role of an operation."""
    if principal.roles & SATISFIED_BY[role] or (R.ATTEMPT in principal.roles and operation in ATTEMPT_OPERATIONS):
        return
    raise Forbidden(f"{principal.name} is not permitted: role {role} required")


def check_all_tenants(principal: Principal) -> None:
    """Raise Forbidden for a caller of one tenant: the operation concerns the whole installation."""
    if not principal.sees_all_tenants():
        raise Forbidden(f"{principal.name} is not permitted: access to all tenants required")


def tenant_to_write(principal: Principal, wanted: str | None) -> str:
    """Return the tenant of new work. Raises Forbidden if the caller may not act for it."""
    own = DEFAULT_TENANT if principal.sees_all_tenants() else principal.tenant
    tenant = own if wanted is None else wanted
    if not principal.sees(tenant):
        raise Forbidden(f"{principal.name} is limited to tenant {principal.tenant}")
    return tenant


def tenant_to_read(principal: Principal, wanted: str | None) -> str | None:
    """Return the tenant to list; None for all. Raises Forbidden if the caller may not see it."""
    if wanted is None or wanted == ALL_TENANTS:
        return None if principal.sees_all_tenants() else principal.tenant
    if not principal.sees(wanted):
        raise Forbidden(f"{principal.name} is limited to tenant {principal.tenant}")
    return wanted
