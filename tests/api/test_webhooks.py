"""Webhooks: real deliveries to a real server, with signatures and history."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import httpx2
import msgspec
import pytest

from mainspring.api.auth.principal import Role
from mainspring.app.build import run_virtual_worker
from mainspring.core.model.webhook_events import CloudEvent
from mainspring.host.outbox import delivery
from mainspring.protocol.rest.admin import DeliveryView, WebhookView
from mainspring.protocol.rest.runs import Page
from mainspring.protocol.wire import Offer, Outcome, Result
from mainspring.secret_references import resolve_url_reference
from mainspring.simulation.virtual_worker import VirtualWorker
from tests.api.api_harness import ApiHarness, problem, read, submit, until
from tests.host.host_harness import ScriptedWorker
from tests.notify.servers import Request, http_server

HOOKS = "/api/v1/webhooks"


@pytest.fixture(autouse=True)
def _outbox_is_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll the outbox without delay."""
    monkeypatch.setattr(delivery, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(delivery, "INITIAL_BACKOFF", timedelta(milliseconds=100))


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ApiHarness]:
    harness = ApiHarness(tmp_path)
    yield harness
    await harness.close()


@asynccontextmanager
async def working(harness: ApiHarness) -> AsyncIterator[None]:
    """Run a leader and a worker."""
    async with harness.led():
        playing = asyncio.create_task(
            run_virtual_worker(harness.engine, VirtualWorker("w1", Offer(4_000, 8 << 30), harness.clock))
        )
        yield
        playing.cancel()


async def make(caller: httpx2.AsyncClient, url: str, **fields: object) -> WebhookView:
    """Create a webhook; return it with its secret."""
    view: WebhookView = read(await caller.post(HOOKS, json={"url": url, **fields}), WebhookView)
    return view


async def deliveries(caller: httpx2.AsyncClient, hook: WebhookView) -> list[DeliveryView]:
    """Return the deliveries, latest first."""
    page: Page[DeliveryView] = read(await caller.get(f"{HOOKS}/{hook.id}/deliveries"), Page[DeliveryView])
    return page.items


def is_signed(request: Request, secret: str) -> bool:
    """Verify a signature by the Standard Webhooks specification, independently of our code."""
    signed = b".".join(
        [request.headers["webhook-id"].encode(), request.headers["webhook-timestamp"].encode(), request.body]
    )
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return request.headers["webhook-signature"] == f"v1,{expected}"


async def test_the_end_of_a_run_is_delivered_and_signed(harness: ApiHarness) -> None:
    """As a CloudEvent, with its delivery status."""
    async with http_server() as server, working(harness), await harness.admin() as caller:
        hook = await make(caller, f"http://127.0.0.1:{server.port}/hook", events=["run.succeeded"], job="noop")
        run = await submit(caller)
        request = await server.next()

        async def is_noted() -> bool:
            return [one.state for one in await deliveries(caller, hook)] == ["delivered"]

        await until(is_noted)
        (sent,) = await deliveries(caller, hook)

    assert hook.secret is not None
    assert is_signed(request, hook.secret)
    event = msgspec.json.decode(request.body, type=CloudEvent)
    assert (event.type, event.subject) == ("dev.mainspring.run.succeeded.v1", run.id)
    assert event.source == "/tenants/default"
    assert event.text == f"noop succeeded ({run.id})"
    assert request.headers["content-type"] == "application/cloudevents+json"
    assert request.headers["webhook-id"] == event.id == sent.id
    assert (sent.status, sent.tries, sent.fault) == (204, 1, "")


async def test_a_failure_has_a_text_summary(harness: ApiHarness) -> None:
    """With the task's message, for receivers that only show text."""
    async with http_server() as server, harness.led() as leader, await harness.admin() as caller:
        await make(caller, f"http://127.0.0.1:{server.port}/")
        hand = await ScriptedWorker("w1", leader, "s1").welcome()
        run = await submit(caller, {"name": "etl", "tasks": [{"name": "only", "max_attempts": 1}]})
        task = await hand.next_task()
        hand.send(Result(task.attempt, Outcome.FAILED))
        request = await server.next()

    assert msgspec.json.decode(request.body)["text"] == f"etl failed: the only attempt failed ({run.id})"


async def test_only_subscribed_events_are_delivered(harness: ApiHarness) -> None:
    """No other results, other jobs, earlier submissions, or while disabled."""
    async with http_server() as server, working(harness), await harness.admin() as caller:
        url = f"http://127.0.0.1:{server.port}/"
        failures = await make(caller, url, events=["run.failed"])
        others = await make(caller, url, job="another")
        off = await make(caller, url, enabled=False)
        every = await make(caller, url)
        await submit(caller)
        await server.next()

        for hook in (failures, others, off):
            assert await deliveries(caller, hook) == []
        assert len(await deliveries(caller, every)) == 1
    assert len(server.got) == 1


async def test_a_failed_delivery_is_retried_and_can_be_resent(harness: ApiHarness) -> None:
    """With the same id."""
    async with http_server() as server, working(harness), await harness.admin() as caller:
        server.status = "503 Later"
        hook = await make(caller, f"http://127.0.0.1:{server.port}/")
        await submit(caller)
        await server.next()

        async def is_noted() -> bool:
            return any(one.status == 503 for one in await deliveries(caller, hook))

        await until(is_noted)
        (waiting,) = await deliveries(caller, hook)
        server.status = "200 OK"

        async def has_arrived() -> bool:
            return [one.state for one in await deliveries(caller, hook)] == ["delivered"]

        await until(has_arrived)
        before = len(server.got)
        assert (await caller.post(f"{HOOKS}/{hook.id}/deliveries/{waiting.id}/resend")).is_success

        async def is_sent_again() -> bool:
            return len(server.got) > before

        await until(is_sent_again)

    assert waiting.state == "waiting"
    assert waiting.status == 503
    assert {request.headers["webhook-id"] for request in server.got} == {waiting.id}


async def test_a_test_message_arrives(harness: ApiHarness) -> None:
    """And identifies itself."""
    async with http_server() as server, working(harness), await harness.admin() as caller:
        hook = await make(caller, f"http://127.0.0.1:{server.port}/")
        answer = await caller.post(f"{HOOKS}/{hook.id}/test")
        request = await server.next()
    assert answer.status_code == 202
    assert msgspec.json.decode(request.body, type=CloudEvent).type == "dev.mainspring.webhook.test.v1"


async def test_the_secret_is_shown_once_and_not_stored(harness: ApiHarness) -> None:
    """Neither lists, audit log nor rows contain it."""
    async with await harness.admin() as caller:
        hook = await make(caller, "https://example.org/")
        seen = [
            (await caller.get(HOOKS)).text,
            (await caller.get(f"{HOOKS}/{hook.id}")).text,
            (await caller.get("/api/v1/audit")).text,
            str(await harness.store.find_webhook(hook.id)),
        ]
    assert hook.secret is not None
    assert all(hook.secret not in text and "whsec_" not in text for text in seen)
    assert "create_webhook" in seen[2]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"url": "ftp://example.org"}, "/url"),
        ({"url": "https://me:secret@example.org"}, "/url"),
        ({"url": "https://"}, "/url"),
        ({"url": "https://example.org:99999999/"}, "/url"),
        ({"url": "${env:PATH}"}, "/url"),
        ({"url": "${file:/etc/hostname}"}, "/url"),
        ({"url": "https://example.org/", "events": ["run.exploded"]}, "/events/0"),
        ({"url": "https://example.org/", "job": "no such name"}, "/job"),
        ({"url": "https://example.org/", "note": "x" * 2_000}, "/note"),
    ],
)
async def test_an_invalid_webhook_is_rejected(harness: ApiHarness, fields: dict[str, object], pointer: str) -> None:
    """With the location of the fault."""
    async with await harness.admin() as caller:
        body = problem(await caller.post(HOOKS, json=fields), 422)
    assert [error["pointer"] for error in body["errors"]] == [pointer]


async def test_a_webhook_is_changed_by_version_and_deleted(harness: ApiHarness) -> None:
    """An old version is rejected."""
    async with await harness.admin() as caller:
        hook = await make(caller, "https://example.org/")
        path = f"{HOOKS}/{hook.id}"
        changed = await caller.put(path, json={"url": "https://example.org/2"}, headers={"If-Match": '"1"'})
        late = await caller.put(path, json={"url": "https://example.org/3"}, headers={"If-Match": '"1"'})
        gone = await caller.delete(path)
        missing = await caller.get(path)
    assert changed.headers["etag"] == '"2"'
    problem(late, 412)
    assert gone.is_success
    problem(missing, 404)


async def test_webhooks_of_other_tenants_are_hidden(harness: ApiHarness) -> None:
    """Another tenant's webhook is not found."""
    acme, globex = await harness.admin("acme"), await harness.admin("globex")
    async with acme, globex:
        hook = await make(acme, "https://example.org/")
        assert read(await globex.get(HOOKS), Page[WebhookView]).items == []
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/test"), ("GET", "/deliveries")):
            problem(await globex.request(method, f"{HOOKS}/{hook.id}{path}"), 404)
        operator = harness.caller(await harness.token(Role.OPERATOR, tenant="acme"))
        async with operator:
            problem(await operator.post(HOOKS, json={"url": "https://example.org/"}), 403)


@asynccontextmanager
async def own_harness(directory: Path, variables: dict[str, str]) -> AsyncIterator[ApiHarness]:
    """A server with URL references to these variables, or to files."""
    harness = ApiHarness(directory, resolve_url=partial(resolve_url_reference, environment=variables))
    yield harness
    await harness.close()


@pytest.mark.parametrize("source", ["env", "file"])
async def test_a_url_may_be_a_reference_if_the_server_allows_it(tmp_path: Path, source: str) -> None:
    """It is resolved on delivery, and never shown."""
    async with http_server() as server:
        address = f"http://127.0.0.1:{server.port}/the-secret-part"
        file = tmp_path / "address"
        file.write_text(f"{address}\n")
        url = "${env:CHAT}" if source == "env" else f"${{file:{file}}}"
        async with (
            own_harness(tmp_path, {"CHAT": address}) as harness,
            working(harness),
            await harness.admin() as caller,
        ):
            hook = await make(caller, url)
            await submit(caller)
            request = await server.next()

            async def is_noted() -> bool:
                return [one.state for one in await deliveries(caller, hook)] == ["delivered"]

            await until(is_noted)
            seen = [
                (await caller.get(HOOKS)).text,
                (await caller.get("/api/v1/audit")).text,
                (await caller.get(f"{HOOKS}/{hook.id}/deliveries")).text,
                str(await harness.store.find_webhook(hook.id)),
            ]
    assert request.line.startswith("POST /the-secret-part ")
    assert hook.url == url
    assert not any("the-secret-part" in text for text in seen)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("", "CHAT"),
        ("ftp://hush", "must begin with https://"),
        ("hush", "must begin with https://"),
        ("http://hush:hush@127.0.0.1/", "not contain a user or password"),
        ("http://[hush", "must begin with https://"),
    ],
)
async def test_an_invalid_referenced_url_is_reported_without_its_value(tmp_path: Path, value: str, fault: str) -> None:
    async with own_harness(tmp_path, {"CHAT": value}) as harness, harness.led(), await harness.admin() as caller:
        hook = await make(caller, "${env:CHAT}")
        assert (await caller.post(f"{HOOKS}/{hook.id}/test")).is_success

        async def is_given_up() -> bool:
            return [one.state for one in await deliveries(caller, hook)] == ["failed"]

        await until(is_given_up)
        (sent,) = await deliveries(caller, hook)
    assert fault in sent.fault
    assert "hush" not in sent.fault
