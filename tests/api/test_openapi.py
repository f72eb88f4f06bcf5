"""The OpenAPI document is whole, its examples are true, and the server keeps to it, on either store (UX-4).

Schemathesis makes requests from the document, good and bad ones, for every operation that ends by itself, and looks at
the answers: no error of the server, no status, media type or body that the document does not have.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from openapi_spec_validator import validate
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.requests import Request

from mainspring.api import docs_page, openapi
from mainspring.api.app import endpoints
from mainspring.api.examples import example_of
from mainspring.rest import TokenRequest
from mainspring.rest_admin import WebhookRequest
from mainspring.rest_sharing import GroupRequest, PolicyRequest
from mainspring.sdk.client import Client
from tests.e2e.town import Town
from tests.postgres import PostgresServer

ENDLESS = {"follow_events"}
"""Operations whose answer does not end by itself: tests/api/test_live.py follows them."""
EXAMPLES = 6
OPERATIONS = sorted(endpoint.operation for endpoint in endpoints() if endpoint.operation not in ENDLESS)
WANTED_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
MAY_SAY_NO = frozenset({"get_readiness"})
"""A documented 503 is what these are for: a pool that another test has just made has no leader yet."""

Document = dict[str, Any]

schemathesis.serializer.alias("application/x-ndjson", "application/json")  # one line is some lines


def the_document() -> Document:
    """What /openapi.json says."""
    document: Document = msgspec.json.decode(msgspec.json.encode(openapi.document(endpoints(), "0")))
    return document


def test_it_is_valid() -> None:
    """By the specification of OpenAPI 3.1."""
    validate(the_document())


def test_every_operation_is_described() -> None:
    """With a sentence, and an example of each body that is JSON of ours."""
    for path, methods in the_document()["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert operation["summary"].endswith("."), where
            assert "default" not in operation["responses"], where
            for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
                assert "example" in content, f"{where} {media_type}"


def test_examples_are_true() -> None:
    """Each is what the server itself would take or answer."""
    for endpoint in endpoints():
        for kind in (endpoint.reads, endpoint.returns):
            if kind not in {None, bytes, Request}:
                msgspec.json.decode(msgspec.json.encode(example_of(kind)), type=kind)


def test_the_page_has_every_operation_and_asks_nobody_else() -> None:
    """No script, no style, no picture from anywhere."""
    page = docs_page.render(the_document())
    for operation in OPERATIONS:
        assert f'id="{operation}"' in page
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "src=" not in page
    assert "default-src 'none'" in docs_page.HEADERS["Content-Security-Policy"]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def town(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """A server on either store."""
    store = None
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres_server")
        store = postgres.url(postgres.create_database(template="template0"))
    with Town(tmp_path_factory.mktemp(request.param), store) as town:
        yield town


@pytest.fixture(scope="module")
def served(town: Town) -> tuple[Any, dict[str, list[str]]]:
    """The document as a server of the town gives it, and names of things that are there."""
    server = town.server()
    with server.client() as client:
        known = furnish(client)
    return schemathesis.openapi.from_url(f"{server.address}/openapi.json"), known


def furnish(client: Client) -> dict[str, list[str]]:
    """Something of everything, and what the parts of paths are to be that mean it."""
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
        "name": ["etl", "default", "growth_burst"],
        "booking": ["nightly"],
    }


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_server_keeps_to_it(served: tuple[Any, dict[str, list[str]]], name: str) -> None:
    """Whatever is asked."""
    schema, known = served
    operation = schema.find_operation_by_id(name)
    checks = [check for check in WANTED_CHECKS if check is not not_a_server_error or name not in MAY_SAY_NO]

    @settings(
        max_examples=int(os.environ.get("OPENAPI_EXAMPLES", EXAMPLES)), deadline=None, database=None,
        phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy())
    def ask(case: Case) -> None:
        for part, values in known.items():
            if part in case.path_parameters and len(str(case.path_parameters[part])) % 2:
                case.path_parameters[part] = values[len(str(case.path_parameters[part])) % len(values)]
        try:
            case.call_and_validate(checks=checks, timeout=30)
        except FailureGroup as failures:
            raise AssertionError("\n".join(str(one) for one in failures.exceptions)) from None

    ask()
    media_types = schema.raw_schema["paths"][operation.path][operation.method].get("requestBody", {}).get("content", {})
    for media_type, content in media_types.items():
        example = operation.Case(
            body=content["example"], media_type=media_type,
            path_parameters={part: values[0] for part, values in known.items() if f"{{{part}}}" in operation.path},
        )  # fmt: skip
        for _ in range(2):
            example.call_and_validate(checks=checks, timeout=30)
