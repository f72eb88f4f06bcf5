"""Limits of kinds of work and of HTTP workers, with requests that exceed them (SEC-6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mainspring.core.model import artifacts
from mainspring.core.text import urls
from mainspring.core.work import containers, http_calls
from mainspring.protocol.rest import claims as rest_claims
from tests.api.excessive_requests import Request, Things, long, many, post, task
from tests.api.limit_format import REFUSED, characters, days, size

Cells = tuple[str, str, str, Callable[[Things], Request] | None]


def of_kinds_of_work() -> Iterable[Cells]:
    """Limits of kinds of work."""
    url = {"url": f"http://example.com/{long(urls.MAX_URL_LENGTH)}"}
    yield "URL of an HTTP task", characters(urls.MAX_URL_LENGTH), REFUSED, task(work={"http": url})
    headers = {"url": "http://example.com", "headers": many(http_calls.MAX_HEADERS)}
    yield "headers of an HTTP task", f"{http_calls.MAX_HEADERS}", REFUSED, task(work={"http": headers})
    large = {"url": "http://example.com", "method": "POST", "json": long(http_calls.MAX_JSON_BYTES)}
    yield "`json` of an HTTP task", size(http_calls.MAX_JSON_BYTES), REFUSED, task(work={"http": large})
    image = {"image": long(containers.MAX_IMAGE_LENGTH)}
    yield "image name", characters(containers.MAX_IMAGE_LENGTH), REFUSED, task(work={"container": image})
    fetches = ["only/*"] * (artifacts.MAX_FETCHES + 1)
    yield (
        "`fetch` patterns of a task", f"{artifacts.MAX_FETCHES}", REFUSED,
        task(work={"run": ["true"], "fetch": fetches}),
    )  # fmt: skip


def of_claims() -> Iterable[Cells]:
    """Limits of HTTP workers."""
    path, worker = "/api/v1/scheduler/claim-runs", {"worker_id": "w1"}
    yield "the name of a worker", characters(100), REFUSED, post(path, json={"worker_id": long(100)})
    most = rest_claims.MAX_CLAIMS
    yield "tasks of a claim", f"{most}", REFUSED, post(path, json={**worker, "max_claims": most + 1})
    longest = rest_claims.MAX_CLAIM_SECONDS
    claim = {**worker, "claim_duration_seconds": longest + 1}
    yield "duration of a claim", days(longest), REFUSED, post(path, json=claim)
    wait = rest_claims.MAX_WAIT_SECONDS
    yield "wait time of a claim", f"{wait} s", REFUSED, post(path, json={**worker, "wait_seconds": wait + 1})
    log, beat = rest_claims.MAX_LOG_BYTES, "/api/v1/pipeline-runs/att_1/heartbeat"
    yield "log text of a heartbeat", size(log), REFUSED, post(beat, json={"log": long(log)})
