"""Who may do what (SEC-2): every route names the role that it asks for, and this file says who has it.

    viewer ⊂ submitter ⊂ operator ⊂ admin          each also does what those before it do
    approver ⊃ viewer                               decides on what needs a decision, and runs nothing
    worker                                          the worker link, what is for workers, and nothing else
    join                                            to become a worker, and nothing else
    attempt                                         what is in OF_AN_ATTEMPT, of its own task, and nothing else

A role that is not named here may do nothing. Whose work somebody sees is another question: `Principal.sees`. What an
attempt may see is less than its tenant's work: the routes of OF_AN_ATTEMPT look that up (`routes_tasks.find_task`).
tests/api/matrix.txt has the whole table, every route and every role.
"""

from __future__ import annotations

from mainspring.api.services import DEFAULT_TENANT, EVERY_TENANT, Principal, Role
from mainspring.protocol.errors import Forbidden

R = Role

HAVE: dict[Role, frozenset[Role]] = {
    R.VIEWER: frozenset({R.VIEWER, R.SUBMITTER, R.OPERATOR, R.APPROVER, R.ADMIN}),
    R.SUBMITTER: frozenset({R.SUBMITTER, R.OPERATOR, R.ADMIN}),
    R.OPERATOR: frozenset({R.OPERATOR, R.ADMIN}),
    R.APPROVER: frozenset({R.APPROVER, R.ADMIN}),
    R.ADMIN: frozenset({R.ADMIN}),
    R.WORKER: frozenset({R.WORKER, R.ADMIN}),
    R.ATTEMPT: frozenset({R.ATTEMPT}),
    R.JOIN: frozenset({R.JOIN}),
}
"""For the role that a route asks for: those that have it."""

OF_AN_ATTEMPT = frozenset({"get_task", "get_checkpoint", "put_checkpoint", "list_run_artifacts"})
"""Operations that a task may also ask for about itself, or its run, with the token of its attempt."""


def check(principal: Principal, role: Role, operation: str) -> None:
    """Raises Forbidden if whoever asks does not have the role that an operation asks for."""
    if principal.roles & HAVE[role] or (R.ATTEMPT in principal.roles and operation in OF_AN_ATTEMPT):
        return
    raise Forbidden(f"{principal.name} may not do this: it needs the role {role}")


def check_every_tenant(principal: Principal) -> None:
    """Raises Forbidden for whoever sees the work of one tenant only: this is about the whole installation."""
    if not principal.sees_everybody():
        raise Forbidden(f"{principal.name} may not do this: it is for those who see every tenant")


def tenant_to_act_for(principal: Principal, wanted: str | None) -> str:
    """Whose work something new will be. Raises Forbidden if whoever asks may not act for that tenant."""
    own = DEFAULT_TENANT if principal.sees_everybody() else principal.tenant
    tenant = own if wanted is None else wanted
    if not principal.sees(tenant):
        raise Forbidden(f"{principal.name} may act for {principal.tenant} only")
    return tenant


def tenant_to_look_at(principal: Principal, wanted: str | None) -> str | None:
    """Whose work a list is about; None for everybody's. Raises Forbidden if whoever asks may not see that."""
    if wanted is None or wanted == EVERY_TENANT:
        return None if principal.sees_everybody() else principal.tenant
    if not principal.sees(wanted):
        raise Forbidden(f"{principal.name} may see {principal.tenant} only")
    return wanted
