"""The OpenAPI document is complete, its examples are valid, and the server conforms to it, on either store (UX-4).

Schemathesis generates valid and invalid requests for every finite operation, and checks the responses: no server
error, and no undocumented status, media type or body. Each request is sent to a server of either store.
`test_system.py` validates the document by the specification.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.schemas import OpenApiSchema
from starlette.requests import Request

from mainspring.api.app import endpoints
from mainspring.api.http import docs_page, openapi
from mainspring.api.http.openapi_examples import example_of
from mainspring.client.client import Client
from mainspring.protocol.rest.admin import WebhookRequest
from mainspring.protocol.rest.claims import MAX_WAIT_SECONDS
from mainspring.protocol.rest.runs import TokenRequest
from mainspring.protocol.rest.sharing import GroupRequest, PolicyRequest
from tests.e2e.cluster import ServerCluster
from tests.postgres import PostgresServer

ENDLESS = {"follow_events"}
"""Endless operations; tests/api/test_live_stream.py covers them."""
EXAMPLES = 4
"""Requests per operation, besides the examples of the document."""
EXPLORED = 200
"""The same in the soak."""
SHORT_WAIT_SECONDS = 0.01
OPERATIONS = sorted(endpoint.operation for endpoint in endpoints() if endpoint.operation not in ENDLESS)
WANTED_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
MAY_SAY_NO = frozenset({"get_readiness"})
"""Operations that may return a documented 503: a pool created by another test has no leader yet."""

Document = dict[str, Any]

schemathesis.serializer.alias("application/x-ndjson", "application/json")  # one line is some lines


def the_document() -> Document:
    """Return the document."""
    document: Document = msgspec.json.decode(msgspec.json.encode(openapi.document(endpoints(), "0")))
    return document


def test_every_operation_is_described() -> None:
    """With a summary, and an example of each JSON body."""
    for path, methods in the_document()["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert operation["summary"].endswith("."), where
            assert "default" not in operation["responses"], where
            for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
                assert "example" in content, f"{where} {media_type}"


def test_examples_are_valid() -> None:
    """Each is accepted by the type of the body."""
    for endpoint in endpoints():
        for kind in (endpoint.reads, endpoint.returns):
            if kind not in {None, bytes, Request}:
                msgspec.json.decode(msgspec.json.encode(example_of(kind)), type=kind)


def test_the_page_has_every_operation_and_loads_nothing() -> None:
    """No external script, style or image."""
    page = docs_page.render(the_document())
    for operation in OPERATIONS:
        assert f'id="{operation}"' in page
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "src=" not in page
    assert "default-src 'none'" in docs_page.HEADERS["Content-Security-Policy"]


class Served(NamedTuple):
    """A server on one of the stores."""

    store: str
    address: str
    session: requests.Session
    """Connection to the server, per thread."""
    known: dict[str, list[str]]
    """Names of existing resources, by path parameter."""


@pytest.fixture(scope="module")
def served(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[OpenApiSchema, list[Served]]]:
    """The served document, and a server on each store."""
    postgres = postgres_server.url(postgres_server.create_database(template="template0"))
    servers = []
    with ExitStack() as stack:
        for store, url in {"sqlite": None, "postgres": postgres}.items():
            cluster = stack.enter_context(ServerCluster(tmp_path_factory.mktemp(store), url))
            server = cluster.server()
            with server.client() as client:
                known = furnish(client)
            servers.append(Served(store, server.address, stack.enter_context(requests.Session()), known))
        schema = schemathesis.openapi.from_url(f"{servers[0].address}/openapi.json")
        assert isinstance(schema, OpenApiSchema)
        yield schema, servers


def furnish(client: Client) -> dict[str, list[str]]:
    """Create one of each resource; return the values of path parameters."""
    client.submit_job({"name": "etl", "tasks": [{"name": "only"}]})
    run = client.submit("etl")
    schedule = client.create_schedule(
        {"name": "nightly", "job": "etl", "trigger": {"kind": "cron", "cron": "0 5 * * *"}}
    )
    token = client.create_token(TokenRequest(name="t", roles=["viewer"]))
    webhook = client.create_webhook(WebhookRequest(url="https://example.org/", enabled=False))
    client.put_group("etl", GroupRequest(most=3))
    client.put_policy("etl", PolicyRequest(label="eu_data", requires={"region": "eu"}))
    return {
        "run_id": [run.id],
        "task_id": [f"task_{run.id.removeprefix('run_')}.0"],
        "ref": ["nightly", schedule.id],
        "token_id": [token.id],
        "webhook_id": [webhook.id],
        "worker_id": ["w1"],
        "delivery_id": ["msg_1"],
        "name": ["etl", "default", "fan_out_burst"],
        "booking": ["nightly"],
    }


@pytest.mark.processes
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_server_conforms_to_the_document(served: tuple[OpenApiSchema, list[Served]], name: str) -> None:
    """With a few fixed requests, the example of each body, and a request for each existing resource."""
    schema, servers = served
    ask_whatever(servers, schema.find_operation_by_id(name), examples=EXAMPLES, derandomize=True)
    send_examples(servers, schema.find_operation_by_id(name))


@pytest.mark.soak
@pytest.mark.processes
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_server_conforms_to_the_document_for_random_requests(
    served: tuple[OpenApiSchema, list[Served]], name: str, soak_scale: float
) -> None:
    """With many random requests."""
    schema, servers = served
    examples = max(EXAMPLES, int(EXPLORED * soak_scale))
    ask_whatever(servers, schema.find_operation_by_id(name), examples=examples, derandomize=settings().derandomize)


def ask_whatever(servers: Sequence[Served], operation: APIOperation, *, examples: int, derandomize: bool) -> None:
    """Send each generated request to both servers, and check the responses."""

    @settings(
        max_examples=examples, derandomize=derandomize, deadline=None, database=None,
        phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy())
    def ask(case: Case) -> None:
        case.body = without_waiting(case.body)
        drawn = dict(case.path_parameters)
        for server in servers:
            for part, values in server.known.items():
                if part in drawn and len(str(drawn[part])) % 2:
                    case.path_parameters[part] = values[len(str(drawn[part])) % len(values)]
            send(server, case)

    ask()


def send_examples(servers: Sequence[Served], operation: APIOperation) -> None:
    """Send the example of each body to both servers, twice: the second time the resource exists.

    A request without a body is sent once, for an existing resource. Nothing is deleted, because other tests use it.
    """
    definition = operation.schema.raw_schema["paths"][operation.path][operation.method]
    contents = definition.get("requestBody", {}).get("content", {})
    for server in servers:
        parts = {part: values[0] for part, values in server.known.items() if f"{{{part}}}" in operation.path}
        for media_type, content in contents.items():
            body = without_waiting(content["example"])
            for _ in range(2):
                send(server, operation.Case(body=body, media_type=media_type, path_parameters=parts))
        if not contents and operation.method != "delete":
            send(server, operation.Case(path_parameters=parts))


def send(server: Served, case: Case) -> None:
    """Send a request to a server, and check the response."""
    name = case.operation.definition.raw["operationId"]
    checks = [check for check in WANTED_CHECKS if check is not not_a_server_error or name not in MAY_SAY_NO]
    try:
        case.call_and_validate(base_url=server.address, session=server.session, checks=checks, timeout=30)
    except FailureGroup as failures:
        reported = "\n".join(str(one) for one in failures.exceptions)
        raise AssertionError(f"on {server.store}: {reported}") from None


def without_waiting(body: Any) -> Any:
    """Shorten the maximum wait of requests: nothing will happen."""
    match body:
        case {"wait_seconds": float() | int() as wait} if 0 < wait <= MAX_WAIT_SECONDS:
            return {**body, "wait_seconds": SHORT_WAIT_SECONDS}
        case _:
            return body
