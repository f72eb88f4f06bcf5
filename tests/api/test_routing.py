"""Routes: what their arguments are bound to, and what they must have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import ALL_TENANTS, Principal, Role
from mainspring.api.http.routing import Router
from mainspring.api.request_components import RequestComponent, create, with_parts
from mainspring.api.services import ServerInfo

PRINCIPAL = Principal(name="ann", tenant=ALL_TENANTS, roles=frozenset({Role.ADMIN}))
SERVER = ServerInfo(name="here", address="", version="")


@dataclass(frozen=True, slots=True)
class Caller(RequestComponent):
    """Has the caller."""

    principal: Principal


@dataclass(frozen=True, slots=True)
class Editor(RequestComponent):
    """Has a component of the request, one of the server, and the auditor."""

    caller: Caller
    server: ServerInfo
    audit: Auditor


async def reads(caller: Caller) -> None:
    """Read."""


async def changes(editor: Editor) -> None:
    """Change."""


def test_a_component_of_a_request_is_created_with_its_parts() -> None:
    audit = Auditor(PRINCIPAL, request_id="req_1", source="", action="change")
    parts = {Principal: PRINCIPAL, ServerInfo: SERVER, Auditor: audit}

    assert create(Editor, parts.get) == Editor(Caller(PRINCIPAL), SERVER, audit)
    assert set(with_parts([Editor])) == {Editor, Caller, Principal, ServerInfo, Auditor}


def test_an_auditor_may_be_a_part_of_a_component() -> None:
    router = Router()
    router.post("/change", operation="change", role=Role.ADMIN)(changes)

    (endpoint,) = router.routes
    assert (endpoint.audited, endpoint.injected) == (True, {"editor": Editor})


@pytest.mark.parametrize(
    ("method", "role", "call"), [("post", Role.ADMIN, reads), ("get", None, reads)], ids=["no auditor", "public"]
)
def test_a_route_without_a_required_argument_is_rejected(
    method: str, role: Role | None, call: Callable[..., Awaitable[None]]
) -> None:
    with pytest.raises(TypeError):
        getattr(Router(), method)("/change", operation="change", role=role)(call)
