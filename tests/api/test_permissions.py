"""Who may do what: every route and every role (SEC-2)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mainspring.api.app import endpoints
from mainspring.api.routing import Endpoint
from mainspring.api.services import EVERY_TENANT, Principal, Role
from tests.api.office import Office, problem

PUBLIC = {"get_health", "get_readiness"}
READS = {
    "get_server", "get_metrics", "get_openapi", "list_jobs", "get_job", "list_runs", "get_run", "list_tasks_of_run",
    "list_tasks", "get_task", "list_attempts", "list_transitions", "get_checkpoint", "list_workers", "get_worker",
    "follow_events", "get_task_log", "list_schedules", "get_schedule", "list_upcoming", "list_fires", "list_changes",
    "list_backfills", "list_received_events", "list_dead_letters", "list_alerts", "list_breakers", "list_durations",
}  # fmt: skip
CREATES = {
    "create_job", "create_run", "create_runs", "create_schedule", "put_schedule", "trigger_schedule",
    "backfill_schedule", "receive_events",
}  # fmt: skip
ACTS = {
    "cancel_run", "pause_run", "resume_run", "cancel_task", "retry_task", "clear_task", "cordon_worker",
    "uncordon_worker", "drain_worker", "evict_worker", "retry_run", "rerun_run", "extend_task", "retry_dead_letter",
    "pause_schedule", "resume_schedule", "delete_schedule",
}  # fmt: skip
ADMINISTERS = {"create_token", "list_tokens", "revoke_token"}

MAY: dict[Role, set[str]] = {
    Role.VIEWER: READS,
    Role.SUBMITTER: READS | CREATES,
    Role.OPERATOR: READS | CREATES | ACTS,
    Role.APPROVER: READS,
    Role.ADMIN: READS | CREATES | ACTS | ADMINISTERS,
    Role.WORKER: set(),
    Role.ATTEMPT: {"get_task", "get_checkpoint"},
}
QUICK = {"follow_events": "?after=nowhere"}
"""What a route is asked for, so that its answer has an end."""


class Claimed:
    """Takes everybody for what they say they are."""

    async def of(self, headers: Mapping[str, str], client: str) -> Principal:
        """Whoever has this role, and sees every tenant."""
        role = Role(headers["x-role"])
        return Principal(name=role, tenant=EVERY_TENANT, roles=frozenset({role}))


def test_every_route_is_in_the_table() -> None:
    assert {endpoint.operation for endpoint in endpoints()} == PUBLIC | READS | CREATES | ACTS | ADMINISTERS
    assert set(MAY) == set(Role)


def test_only_health_is_public() -> None:
    assert {endpoint.operation for endpoint in endpoints() if endpoint.role is None} == PUBLIC


@pytest.mark.parametrize("role", Role)
async def test_a_role_may_do_this_and_nothing_else(office: Office, role: Role) -> None:
    office.services.identities = Claimed()
    caller = office.caller(**{"x-role": role})
    allowed, refused = set(), set()
    for endpoint in endpoints():
        if endpoint.role is None:
            continue
        answer = await caller.request(endpoint.method, _path(endpoint))
        if answer.status_code == 403:
            assert problem(answer, 403)["code"] == "forbidden"
            refused.add(endpoint.operation)
        else:
            assert answer.status_code < 500, answer.text
            allowed.add(endpoint.operation)

    assert allowed == MAY[role]
    assert refused == (READS | CREATES | ACTS | ADMINISTERS) - MAY[role]


async def test_nobody_may_do_anything_without_a_token(office: Office) -> None:
    caller = office.caller()

    for endpoint in endpoints():
        answer = await caller.request(endpoint.method, _path(endpoint))
        if endpoint.role is not None:
            assert problem(answer, 401)["code"] == "unauthenticated"
            assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_who_asks_is_known_before_a_body_is_read(office: Office) -> None:
    """The body would be refused, were it read."""
    answer = await office.caller().post("/api/v1/runs", content=b"x" * 5_000_000)

    problem(answer, 401)


async def test_what_concerns_every_tenant_is_not_for_the_administrator_of_one(office: Office) -> None:
    caller = await office.admin("acme")

    answers = [
        await caller.get("/metrics"),
        *[await caller.post(f"/api/v1/workers/w1/{act}") for act in ("cordon", "uncordon", "drain", "evict")],
    ]

    assert [problem(answer, 403)["code"] for answer in answers] == ["forbidden"] * 5


def _path(endpoint: Endpoint) -> str:
    path = endpoint.path
    for parameter in endpoint.parameters:
        if parameter.source == "path":
            path = path.replace(f"{{{parameter.name}}}", "none")
    return path + QUICK.get(endpoint.operation, "")
