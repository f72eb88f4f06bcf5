"""Webhooks are made, told, and looked at: real messages to a real server, signed with what was shown once."""

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

from mainspring.api.services import Role
from mainspring.app.build import play
from mainspring.core.model.webhook_events import CloudEvent
from mainspring.host.outbox import delivery
from mainspring.notify.secret_references import look_up_url
from mainspring.protocol.rest.admin import DeliveryView, WebhookView
from mainspring.protocol.rest.runs import Page
from mainspring.protocol.wire import Offer, Outcome, Result
from mainspring.simulation.virtual_worker import PlayedWorker
from tests.api.office import Office, problem, read, submit, until
from tests.host.hall import Hand
from tests.notify.servers import Request, http_server

HOOKS = "/api/v1/webhooks"


@pytest.fixture(autouse=True)
def _outbox_is_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the outbox to be polled."""
    monkeypatch.setattr(delivery, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(delivery, "FIRST_PAUSE", timedelta(milliseconds=100))


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    office = Office(tmp_path)
    yield office
    await office.close()


@asynccontextmanager
async def working(office: Office) -> AsyncIterator[None]:
    """Somebody leads, and a worker works."""
    async with office.led():
        playing = asyncio.create_task(play(office.engine, PlayedWorker("w1", Offer(4_000, 8 << 30), office.clock)))
        yield
        playing.cancel()


async def make(caller: httpx2.AsyncClient, url: str, **fields: object) -> WebhookView:
    """A webhook, with its secret."""
    view: WebhookView = read(await caller.post(HOOKS, json={"url": url, **fields}), WebhookView)
    return view


async def deliveries(caller: httpx2.AsyncClient, hook: WebhookView) -> list[DeliveryView]:
    """What was sent, the latest first."""
    page: Page[DeliveryView] = read(await caller.get(f"{HOOKS}/{hook.id}/deliveries"), Page[DeliveryView])
    return page.items


def is_signed(request: Request, secret: str) -> bool:
    """Whether a message is signed as Standard Webhooks says, checked with nothing of ours."""
    signed = b".".join(
        [request.headers["webhook-id"].encode(), request.headers["webhook-timestamp"].encode(), request.body]
    )
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return request.headers["webhook-signature"] == f"v1,{expected}"


async def test_the_end_of_a_run_is_told_and_signed(office: Office) -> None:
    """As a CloudEvent; and what became of it can be looked up."""
    async with http_server() as server, working(office), await office.admin() as caller:
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


async def test_what_failed_is_told_in_a_sentence(office: Office) -> None:
    """As the task says it, for those who only show a text."""
    async with http_server() as server, office.led() as leader, await office.admin() as caller:
        await make(caller, f"http://127.0.0.1:{server.port}/")
        hand = await Hand("w1", leader, "s1").welcome()
        run = await submit(caller, {"name": "etl", "tasks": [{"name": "only", "max_attempts": 1}]})
        task = await hand.next_task()
        hand.say(Result(task.attempt, Outcome.FAILED))
        request = await server.next()

    assert msgspec.json.decode(request.body)["text"] == f"etl failed: the only attempt failed ({run.id})"


async def test_only_what_is_wanted_is_told(office: Office) -> None:
    """Not other ends, not other jobs, not what was submitted before, not while it is off."""
    async with http_server() as server, working(office), await office.admin() as caller:
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


async def test_what_is_not_taken_is_tried_again_and_can_be_sent_again(office: Office) -> None:
    """Under the same id."""
    async with http_server() as server, working(office), await office.admin() as caller:
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
    assert waiting.fault == "it answered 503"
    assert {request.headers["webhook-id"] for request in server.got} == {waiting.id}


async def test_a_test_message_arrives(office: Office) -> None:
    """And says what it is."""
    async with http_server() as server, working(office), await office.admin() as caller:
        hook = await make(caller, f"http://127.0.0.1:{server.port}/")
        answer = await caller.post(f"{HOOKS}/{hook.id}/test")
        request = await server.next()
    assert answer.status_code == 202
    assert msgspec.json.decode(request.body, type=CloudEvent).type == "dev.mainspring.webhook.test.v1"


async def test_the_secret_is_shown_once_and_kept_nowhere(office: Office) -> None:
    """Neither lists, nor the audit log, nor a row has it."""
    async with await office.admin() as caller:
        hook = await make(caller, "https://example.org/")
        seen = [
            (await caller.get(HOOKS)).text,
            (await caller.get(f"{HOOKS}/{hook.id}")).text,
            (await caller.get("/api/v1/audit")).text,
            str(await office.store.find_webhook(hook.id)),
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
async def test_what_can_not_be_one_is_refused(office: Office, fields: dict[str, object], pointer: str) -> None:
    """With the place that is wrong."""
    async with await office.admin() as caller:
        body = problem(await caller.post(HOOKS, json=fields), 422)
    assert [error["pointer"] for error in body["errors"]] == [pointer]


async def test_it_is_changed_by_version_and_taken_away(office: Office) -> None:
    """Whoever looked at an older one is told."""
    async with await office.admin() as caller:
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


async def test_tenants_have_their_own(office: Office) -> None:
    """Another's is as if it had never been."""
    acme, globex = await office.admin("acme"), await office.admin("globex")
    async with acme, globex:
        hook = await make(acme, "https://example.org/")
        assert read(await globex.get(HOOKS), Page[WebhookView]).items == []
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/test"), ("GET", "/deliveries")):
            problem(await globex.request(method, f"{HOOKS}/{hook.id}{path}"), 404)
        operator = office.caller(await office.token(Role.OPERATOR, tenant="acme"))
        async with operator:
            problem(await operator.post(HOOKS, json={"url": "https://example.org/"}), 403)


@asynccontextmanager
async def own_office(directory: Path, variables: dict[str, str]) -> AsyncIterator[Office]:
    """A server whose webhooks may have their addresses in these variables, or in files."""
    office = Office(directory, resolve_url=partial(look_up_url, environment=variables))
    yield office
    await office.close()


@pytest.mark.parametrize("source", ["env", "file"])
async def test_an_address_may_be_kept_elsewhere_if_the_server_was_started_so(tmp_path: Path, source: str) -> None:
    """It is looked up when something is sent, and is nowhere to be read."""
    async with http_server() as server:
        address = f"http://127.0.0.1:{server.port}/the-secret-part"
        file = tmp_path / "address"
        file.write_text(f"{address}\n")
        url = "${env:CHAT}" if source == "env" else f"${{file:{file}}}"
        async with own_office(tmp_path, {"CHAT": address}) as office, working(office), await office.admin() as caller:
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
                str(await office.store.find_webhook(hook.id)),
            ]
    assert request.line.startswith("POST /the-secret-part ")
    assert hook.url == url
    assert not any("the-secret-part" in text for text in seen)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("", "the server has no variable CHAT"),
        ("ftp://hush", "must begin with https://"),
        ("hush", "must begin with https://"),
        ("http://hush:hush@127.0.0.1/", "not contain a user or password"),
        ("http://[hush", "must begin with https://"),
    ],
)
async def test_what_is_kept_and_is_no_address_is_said_without_its_value(tmp_path: Path, value: str, fault: str) -> None:
    async with own_office(tmp_path, {"CHAT": value}) as office, office.led(), await office.admin() as caller:
        hook = await make(caller, "${env:CHAT}")
        assert (await caller.post(f"{HOOKS}/{hook.id}/test")).is_success

        async def is_given_up() -> bool:
            return [one.state for one in await deliveries(caller, hook)] == ["failed"]

        await until(is_given_up)
        (sent,) = await deliveries(caller, hook)
    assert fault in sent.fault
    assert "hush" not in sent.fault
