"""Authentication: tokens, attempt tokens, and local callers (SEC-1, SEC-2)."""

from __future__ import annotations

import hashlib
from datetime import timedelta

import pytest

from mainspring.api.auth.authentication import is_loopback
from mainspring.api.auth.principal import Role
from mainspring.api.auth.tokens import make_attempt_token, read_attempt_token
from mainspring.protocol.ids import task_id
from mainspring.protocol.rest.runs import TaskView
from mainspring.protocol.wire import Outcome, Result
from tests.api.api_harness import SECRET, ApiHarness, problem, read, running_task, submit, until

RUNS = "/api/v1/runs"


async def test_a_token_authenticates_and_only_its_hash_is_stored(harness: ApiHarness) -> None:
    token = await harness.token(Role.VIEWER, tenant="acme")

    assert (await harness.caller(token).get(RUNS)).status_code == 200
    (row,) = await harness.store.list_tokens(None)
    assert row.hash == hashlib.sha256(token.encode()).hexdigest()
    assert token.rpartition("_")[2] not in str(row)


@pytest.mark.parametrize(
    "authorization",
    [
        "Basic dXNlcjpwYXNz", "Bearer", "Bearer ", "Bearer msp_", f"Bearer msp_{'0' * 16}_{'0' * 64}",
        "Bearer {token}x", "Bearer {other_secret}", "Bearer msa_x", "Bearer \xff", "{token}",
    ],
)  # fmt: skip
async def test_an_invalid_token_is_rejected(harness: ApiHarness, authorization: str) -> None:
    token = await harness.token(Role.ADMIN)
    said = authorization.format(token=token, other_secret=token[:-1] + ("0" if token[-1] != "0" else "1"))

    answer = await harness.caller().get(RUNS, headers=[(b"authorization", said.encode("latin-1"))])

    assert problem(answer, 401)["code"] == "unauthenticated"


async def test_a_token_is_valid_until_it_expires(harness: ApiHarness) -> None:
    caller = harness.caller(await harness.token(Role.VIEWER, days=1))

    harness.clock.ahead = 86_400 - 60
    assert (await caller.get(RUNS)).status_code == 200
    harness.clock.ahead = 86_400 + 1
    assert (await caller.get(RUNS)).status_code == 401


async def test_a_revoked_token_is_rejected_after_ten_seconds(harness: ApiHarness) -> None:
    """It was used just before, so that it is cached."""
    token = await harness.token(Role.VIEWER)
    caller, admin = harness.caller(token), await harness.admin()
    await caller.get(RUNS)

    revoked = await admin.delete(f"/api/v1/tokens/{token.split('_')[1]}")
    harness.clock.ahead = 10

    assert revoked.json()["changed"] is True
    assert "revoked" in problem(await caller.get(RUNS), 401)["detail"]


async def test_the_use_of_a_token_is_recorded(harness: ApiHarness) -> None:
    token = await harness.token(Role.VIEWER)
    token_id = token.split("_")[1]

    await harness.caller(token).get(RUNS)

    async def is_noted() -> bool:
        row = await harness.store.find_token(token_id)
        return row is not None and row.last_used_at is not None

    await until(is_noted)


# on this machine


@pytest.mark.parametrize("host", ["localhost:8484", "LOCALHOST", "127.0.0.1:8484", "[::1]:8484", "127.9.9.9"])
async def test_local_callers_need_no_token(local_harness: ApiHarness, host: str) -> None:
    caller = local_harness.caller(host=host, origin=f"http://{host}")

    run = await submit(caller)

    assert (run.tenant, run.submitted_by) == ("default", "local")


@pytest.mark.parametrize(
    ("address", "headers"),
    [
        ("10.0.0.7", {}),
        ("", {}),
        ("127.0.0.1", {"host": "mainspring.evil.example"}),
        ("127.0.0.1", {"host": "localhost.evil.example:8484"}),
        ("127.0.0.1", {"host": "10.0.0.5:8484"}),
        ("127.0.0.1", {"origin": "http://evil.example"}),
        ("127.0.0.1", {"origin": "null"}),
        ("127.0.0.1", {"origin": "http://localhost:9999"}),
        ("127.0.0.1", {"x-forwarded-for": "10.0.0.7"}),
        ("127.0.0.1", {"forwarded": "for=10.0.0.7"}),
        ("127.0.0.1", {"authorization": "Bearer msp_wrong"}),
    ],
)
async def test_remote_callers_are_not_local(local_harness: ApiHarness, address: str, headers: dict[str, str]) -> None:
    caller = local_harness.caller(address=address, **headers)

    for answer in (await caller.get(RUNS), await caller.post("/api/v1/jobs", json={})):
        assert problem(answer, 401)["code"] == "unauthenticated"


async def test_a_token_is_valid_from_any_address(local_harness: ApiHarness) -> None:
    token = await local_harness.token(Role.VIEWER)
    caller = local_harness.caller(
        token, address="10.0.0.7", host="mainspring.example", origin="http://elsewhere.example"
    )

    assert (await caller.get(RUNS)).status_code == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost"])
def test_loopback_addresses_are_recognized(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize("address", ["", "::", "10.0.0.1", "::ffff:10.0.0.1", "localhost.example", "127.1"])
def test_other_addresses_are_not_loopback(address: str) -> None:
    assert not is_loopback(address)


# attempts


async def test_a_running_attempt_sees_its_own_task_only(harness: ApiHarness) -> None:
    admin = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, admin, leader)
        foreign_id = task_id((await submit(admin)).id, 0)

        async def is_there() -> bool:
            return await harness.store.find_task(foreign_id) is not None

        await until(is_there)
        assert task.attempt_id is not None
        token = make_attempt_token(SECRET, task.attempt_id, await harness.store.time() + timedelta(hours=1))
        attempt = harness.caller(token)

        own = read(await attempt.get(f"/api/v1/tasks/{task.id}"), TaskView)
        foreign = await attempt.get(f"/api/v1/tasks/{foreign_id}")
        lists = await attempt.get("/api/v1/tasks")
        action = await attempt.post(f"/api/v1/tasks/{task.id}/cancel")
        await hand.finish(task.attempt_id)
        afterwards = await attempt.get(f"/api/v1/tasks/{task.id}")

    assert own.id == task.id
    problem(foreign, 404)
    problem(lists, 403)
    problem(action, 403)
    problem(afterwards, 401)


async def test_the_token_of_a_superseded_attempt_is_rejected(harness: ApiHarness) -> None:
    """The task is retried: the token of its first attempt is not valid for the second."""
    operator = await harness.admin("acme")
    async with harness.led() as leader:
        hand, task = await running_task(harness, operator, leader)
        assert task.attempt_id is not None
        later = await harness.store.time() + timedelta(hours=1)
        first = harness.caller(make_attempt_token(SECRET, task.attempt_id, later))
        path = f"/api/v1/tasks/{task.id}/checkpoint"
        assert (await first.put(path, json={"at": 1})).is_success
        killed = await operator.post(f"/api/v1/tasks/{task.id}/kill", json={"grace_seconds": 0, "again": True})
        assert killed.is_success, killed.text
        hand.send(Result(task.attempt_id, Outcome.STOPPED))
        now = await hand.next_task()
        second = harness.caller(make_attempt_token(SECRET, now.attempt, later))

        async def is_running() -> bool:
            found = await harness.store.find_task(task.id)
            return found is not None and found.attempt_id == now.attempt and found.started_at is not None

        await until(is_running)
        assert now.task == task.id
        problem(await first.put(path, json={"at": 2}), 401)
        problem(await first.get(f"/api/v1/tasks/{task.id}"), 401)
        assert read(await second.get(f"/api/v1/tasks/{task.id}"), TaskView).attempt_id == now.attempt
        assert (await second.get(path)).json()["document"] == {"at": 1}


async def test_the_token_of_an_attempt_can_not_be_forged(harness: ApiHarness) -> None:
    now = await harness.store.time()
    attempt = "att_018f3c2e9b07-5be0d1c27f3a9946"
    token = make_attempt_token(SECRET, attempt, now + timedelta(seconds=60))
    longer = token.replace(token.split(".")[1], str(int(token.split(".")[1]) + 1))

    assert read_attempt_token(SECRET, token, now) == attempt
    assert read_attempt_token(SECRET, token, now + timedelta(seconds=61)) is None
    assert read_attempt_token(SECRET, longer, now) is None
    assert read_attempt_token("another secret", token, now) is None
    assert read_attempt_token(SECRET, token.replace("9946", "9947"), now) is None
    problem(await harness.caller(token).get("/api/v1/tasks/none"), 401)
