"""All client input is limited: each limit is documented, enforced, and affects no other client (SEC-6)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from mainspring.api.app import endpoints
from mainspring.api.http.routing import MAX_PARAMETER_LENGTH
from mainspring.api.routes.sharing import groups
from mainspring.api.worker_link.link import MALFORMED, MAX_FRAME_MESSAGES
from mainspring.core.fairness.capacity_bookings import MAX_BOOKINGS
from mainspring.core.model.task import TaskState
from mainspring.core.work.work import MAX_CHECKPOINT_BYTES
from mainspring.host.links import MAX_TEXT_BYTES, RESULTS_ON_CREDIT
from mainspring.host.outbox.webhooks import MAX_PER_TENANT
from mainspring.protocol import wire
from mainspring.protocol.wire import (
    Answer,
    Checkpoint,
    FromWorker,
    Heartbeat,
    Log,
    Offer,
    Outcome,
    Progress,
    Register,
    Result,
    Started,
    Verdict,
)
from tests.api.api_harness import ApiHarness, problem, submit
from tests.api.api_server import ApiServers, LinkClient
from tests.api.limits import rows, table
from tests.api.other_limits import length_of
from tests.api.permission_matrix import BODIES, NOWHERE, OWN, scene_of, ways
from tests.store.admin_builders import an_entry
from tests.store.sharing_builders import a_group

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"
ENDLESS = {"follow_events"}
"""Endless responses."""


def test_the_page_matches_the_code() -> None:
    """`python -m tests.api.limits` prints the tables."""
    text = PAGE.read_text()
    for section in dict.fromkeys(row.section for row in rows()):
        _, found, rest = text.partition(f"\n## {section}\n")
        assert found, section
        lines = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("|")]
        assert lines == table(section)


async def test_exceeding_a_limit_is_rejected_and_the_server_continues(harness: ApiHarness) -> None:
    wrong = {}
    async with scene_of(harness) as scene:
        await scene.renew()
        admin = await harness.admin()
        for row in rows():
            if row.request is None:
                continue
            method, path, more = row.request(scene.things)
            answer = await admin.request(method, path, **more)  # type: ignore[arg-type]
            said = f"{answer.status_code} `{answer.json().get('code')}`"
            if said != row.answer:
                wrong[row.what] = f"{said} {answer.text[:200]}"
        await submit(await harness.admin(OWN))
    assert not wrong


LONG_ID, LONG_NOTE = "x" * (length_of(wire.Id) + 1), "x" * (length_of(wire.Sentence) + 1)
ON_THE_LINK: dict[str, Sequence[FromWorker]] = {
    "messages": [Heartbeat()] * (MAX_FRAME_MESSAGES + 1),
    "an id": [Started(LONG_ID)],
    "a note": [Heartbeat((Progress("att_1", 1.0, LONG_NOTE),))],
    "a piece of a log": [Log("att_1", 0, b"x" * (wire.MAX_LOG_CHUNK_BYTES + 1))],
    "results without credit": [Result(f"att_{number}", Outcome.SUCCEEDED) for number in range(RESULTS_ON_CREDIT + 1)],
}
LABELS = {f"l{number}": "x" for number in range(length_of(wire.Labels) + 1)}


async def test_exceeding_a_link_limit_closes_that_link_only(tmp_path: Path) -> None:
    """Oversized frames are tested in `test_link.py`."""
    async with ApiServers(tmp_path) as api_servers:
        server = await api_servers.server()
        await server.leader()
        async with server.caller("good") as good:
            closed = {}
            for what, said in ON_THE_LINK.items():
                async with server.caller("bad") as bad:
                    await bad.say(*said)
                    closed[what] = (await bad.closed())[0]
            async with server.socket() as socket:
                caller = LinkClient(socket, "labeled")
                await caller.say(Register("labeled", "s1", Offer(1_000, 1 << 30), LABELS))
                closed["labels"] = (await caller.closed())[0]
            await api_servers.submit()
            assert await good.finish((await good.next_task()).attempt) is Verdict.APPLIED
    assert set(closed.values()) == {MALFORMED}, closed


async def test_an_oversized_result_affects_its_task_only(tmp_path: Path) -> None:
    async with ApiServers(tmp_path) as api_servers:
        server = await api_servers.server()
        await server.leader()
        async with server.caller() as worker:
            await api_servers.submit(runs=2)
            first = await worker.next_task()
            second = await worker.next_task()
            await worker.say(Checkpoint(second.attempt, f'"{"x" * MAX_CHECKPOINT_BYTES}"'))
            await worker.say(Result(first.attempt, Outcome.SUCCEEDED, f'"{"x" * MAX_TEXT_BYTES}"'))
            assert (await worker.hear(Answer)).verdict is Verdict.REJECTED
            assert await worker.finish(second.attempt) is Verdict.APPLIED
        refused, taken = [await api_servers.store.find_task(one.task) for one in (first, second)]
        assert await api_servers.store.checkpoint(second.task) is None
    assert refused is not None
    assert taken is not None
    assert (refused.state, taken.state) == (TaskState.QUARANTINED, TaskState.SUCCEEDED)


async def test_webhooks_of_a_tenant_are_limited(harness: ApiHarness) -> None:
    admin = await harness.admin(OWN)
    for number in range(MAX_PER_TENANT):
        assert (await admin.post("/api/v1/webhooks", json={"url": f"{NOWHERE}/{number}"})).is_success
    problem(await admin.post("/api/v1/webhooks", json={"url": NOWHERE}), 409)

    everybody = await harness.admin()
    path = f"/api/v1/tenants/{OWN}/quota/bookings"
    body = {"cron": "0 2 * * *", "seconds": 60, "guaranteed": {"cpu": 1.0}}
    for number in range(MAX_BOOKINGS):
        answer = await everybody.put(f"{path}/b{number}", json=body)
        assert answer.is_success, answer.text
    problem(await everybody.put(f"{path}/more", json=body), 422)


async def test_groups_of_a_tenant_are_limited(harness: ApiHarness) -> None:
    """Every leader keeps them all in memory."""
    admin = await harness.admin(OWN)
    for number in range(groups.MAX_GROUPS_PER_TENANT):
        await harness.store.put_group(a_group(tenant=OWN, name=f"g{number}"), None, an_entry(id=f"req_{number}"))

    problem(await admin.put("/api/v1/groups/more", json={"most": 1}), 409)
    assert (await admin.put("/api/v1/groups/g1", json={"most": 2})).is_success
    assert (await (await harness.admin("globex")).put("/api/v1/groups/more", json={"most": 1})).is_success


async def test_all_parameters_have_a_maximum_length(harness: ApiHarness) -> None:
    """For every route, including future ones."""
    long, unbounded = "x" * (MAX_PARAMETER_LENGTH + 1), []
    async with scene_of(harness) as scene:
        await scene.renew()
        admin = await harness.admin()
        for way in ways(harness):
            if way.endpoint is None or way.endpoint.operation in ENDLESS:
                continue
            for one in way.endpoint.parameters:
                query, body, things = way.query(with_tenant=True), way.body(), dict(scene.things)
                if one.source == "query":
                    query[one.wire_name] = long
                elif one.source == "header":
                    body["headers"] = {**msgspec.convert(body.get("headers", {}), dict[str, str]), one.wire_name: long}
                else:
                    things |= {kind: long for kind in way.kinds() if f"{kind}/{{{one.name}}}" in way.path}
                answer = await admin.request(way.method, way.url(things), params=query, **body)  # type: ignore[arg-type]
                if answer.status_code != 422:
                    unbounded.append(f"{way.name} {one.wire_name}: {answer.status_code}")
    assert not unbounded


async def test_all_texts_and_lists_in_bodies_are_limited(harness: ApiHarness) -> None:
    """Every field of every request struct: texts that are not rejected for their length are not stored."""
    unbounded = []
    async with scene_of(harness) as scene:
        await scene.renew()
        admin = await harness.admin()
        for way in ways(harness):
            endpoint = way.endpoint
            if endpoint is None or endpoint.body is None or not issubclass(endpoint.body, msgspec.Struct):
                continue
            body = msgspec.convert(BODIES.get(endpoint.operation, {}), dict[str, object])
            for field in msgspec.structs.fields(endpoint.body):
                for value in _too_long(str(field.type)):
                    answer = await admin.request(
                        way.method, way.url(scene.things), params=way.query(with_tenant=True),
                        json={**body, field.encode_name: value},
                    )  # fmt: skip
                    if answer.status_code not in {413, 422}:
                        unbounded.append(f"{endpoint.operation}.{field.encode_name}: {answer.status_code}")
    only_compared = {"act_on_runs.tenant: 200", "put_schedule.tenant: 200"}
    refused_before = {"enroll_worker.name: 403", "enroll_worker.request: 403"}
    below_its_limit = {"fail_claimed_run.error_details: 409"}  # an error may have 1 MiB, here as on the link
    assert set(unbounded) == only_compared | refused_before | below_its_limit


def _too_long(kind: str) -> list[object]:
    """Oversized values of a type."""
    text = "x" * 300_000
    found: list[object] = [text] if "str" in kind else []
    if "list" in kind or "tuple" in kind:
        found += [[f"x{number}" for number in range(50_000)], [text]]
    if "dict" in kind:
        found += [{f"k{number}": "v" for number in range(50_000)}, {text: "v"}, {"k": text}]
    if "int" in kind or "float" in kind:
        found += [10**40, 1e300]
    return found


def test_every_route_with_a_body_has_a_size_limit() -> None:
    """Routes that read the body themselves have their own limit."""
    by_itself = {one.operation for one in endpoints() if one.body is not None and one.body.__name__ == "Request"}
    assert by_itself == {"create_runs", "receive_events"}
