"""Limits of client input, with a request that exceeds each: the rows of docs/reference/limits.md (SEC-6).

    python -m tests.api.limits      prints the tables of that page

To add a limit, add its row: the number is the constant in the code, and the request exceeds it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import chain, groupby
from typing import NamedTuple

from mainspring.api.auth import tokens
from mainspring.api.http import connections, routing
from mainspring.api.routes.admin import tokens as routes_tokens
from mainspring.api.routes.admin import webhooks as routes_webhooks
from mainspring.api.routes.jobs import apply, jobs
from mainspring.api.routes.runs import bulk_actions, logs, submission
from mainspring.api.routes.sharing import groups, pools, rule_routes, tenants
from mainspring.api.submission import actions, cloud_events
from mainspring.core.admission import failure_rules, validate_job, validate_submission
from mainspring.core.admission.validate_job import Limits
from mainspring.core.expressions import grammar as expression_grammar
from mainspring.core.fairness import capacity_bookings
from mainspring.core.graph import fan_out
from mainspring.core.query import filters
from mainspring.core.schedules import schedule_actions, schedule_spec, triggers
from mainspring.core.schedules.cron import expression as cron
from mainspring.core.text import strict_json, urls
from mainspring.core.work import work
from mainspring.host.outbox import webhooks
from mainspring.protocol.rest.apply import MAX_ITEMS, MAX_SCHEDULES
from mainspring.protocol.rest.runs import MAX_PAGE_SIZE
from tests.api.api_harness import NOOP
from tests.api.excessive_requests import (
    Request,
    Things,
    action,
    announced,
    deep,
    get,
    job,
    large_job,
    long,
    many,
    post,
    put,
    run,
    schedule,
    task,
)
from tests.api.limit_format import REFUSED, TOO_LARGE, characters, days, size
from tests.api.other_limits import of_files, of_tasks, of_the_link
from tests.api.permission_matrix import EVENT, NIGHTLY, OWN
from tests.api.work_limits import of_claims, of_kinds_of_work

LIMITS = Limits()


class Row(NamedTuple):
    """A limit."""

    section: str
    what: str
    limit: str
    answer: str
    request: Callable[[Things], Request] | None
    """A request that exceeds it; None if one request can't: see `test_limits.py` and `test_connections.py`."""

    @property
    def line(self) -> str:
        """Return its row in the page."""
        return f"| {self.what} | {self.limit} | {self.answer} |"


def rows() -> Iterable[Row]:
    """Return all limits in the order of the page."""
    for what, limit, answer, request in _requests():
        yield Row("Requests", what, limit, answer, request)
    for what, limit, answer, request in chain(_jobs(), of_kinds_of_work()):
        yield Row("Jobs and runs", what, limit, answer, request)
    for what, limit, answer, request in _schedules():
        yield Row("Schedules and events", what, limit, answer, request)
    for what, limit, answer, request in chain(_acts(), _rules(), _people()):
        yield Row("Actions, rules and users", what, limit, answer, request)
    for what, limit, answer, request in of_claims():
        yield Row("HTTP workers", what, limit, answer, request)
    for what, limit, answer in of_the_link():
        yield Row("The worker link", what, limit, answer, None)
    for what, limit, answer in of_tasks():
        yield Row("Task outputs", what, limit, answer, None)
    for what, limit, answer in of_files():
        yield Row("Files and responses", what, limit, answer, None)


_Cells = tuple[str, str, str, Callable[[Things], Request] | None]


def _requests() -> Iterable[_Cells]:
    yield "request line and headers", size(connections.MAX_HEAD_BYTES), "431 `too_large`", None
    yield (
        "a value in a path, query or header", characters(routing.MAX_PARAMETER_LENGTH), REFUSED,
        get(f"/api/v1/runs/{long(routing.MAX_PARAMETER_LENGTH)}"),
    )  # fmt: skip
    states = [("state", "FAILED")] * (routing.MAX_PARAMETERS + 1)
    yield (
        "query parameters", f"{routing.MAX_PARAMETERS}", REFUSED,
        lambda _: ("GET", "/api/v1/runs", {"params": states}),
    )  # fmt: skip
    largest = routing.MAX_STRUCT_BYTES
    yield "a request body, unless listed below", size(largest), TOO_LARGE, announced("/api/v1/runs", largest)
    yield "nesting depth of JSON", f"{strict_json.MAX_DEPTH}", REFUSED, run(params={"x": deep(strict_json.MAX_DEPTH)})
    key = {"Idempotency-Key": long(validate_submission.MAX_KEY_LENGTH)}
    yield (
        "an `Idempotency-Key`", characters(validate_submission.MAX_KEY_LENGTH), REFUSED,
        post("/api/v1/runs", json={"job": "noop", "tenant": OWN}, headers=key),
    )  # fmt: skip
    yield "items of a page", f"{MAX_PAGE_SIZE:,}", REFUSED, get("/api/v1/runs", limit=MAX_PAGE_SIZE + 1)
    yield "a cursor", characters(1_000), REFUSED, get("/api/v1/runs", cursor=long(1_000))
    yield "`fields` of a list", characters(1_000), REFUSED, get("/api/v1/runs", fields=long(1_000))
    longest = filters.MAX_FILTER_LENGTH
    yield "a filter (`q`)", characters(longest), REFUSED, get("/api/v1/runs", q=long(longest))
    read = logs.MAX_ANSWER_BYTES
    yield (
        "a log read", size(read), REFUSED,
        lambda things: ("GET", f"/api/v1/tasks/{things['tasks']}/log", {"params": {"limit": read + 1}}),
    )  # fmt: skip
    yield "days of a trend", f"{jobs.MAX_DAYS}", REFUSED, get("/api/v1/jobs/noop/trend", days=367, tenant=OWN)


def _jobs() -> Iterable[_Cells]:
    yield "the body of a job", size(LIMITS.max_body_bytes), TOO_LARGE, announced("/api/v1/jobs", LIMITS.max_body_bytes)
    yield "a name", characters(128), REFUSED, job(name=long(128))
    yield "a description", characters(validate_job.MAX_DESCRIPTION_LENGTH), REFUSED, job(description=long(4_000))
    yield (
        "labels of a job or a task",
        f"{validate_job.MAX_LABELS}",
        REFUSED,
        job(labels=many(validate_job.MAX_LABELS)),
    )
    yield "a label of a job", characters(validate_job.MAX_JOB_LABEL_LENGTH), REFUSED, job(labels={"a": long(63)})
    yield "a label of a task", characters(128), REFUSED, task(labels={"a": long(128)})
    yield (
        "tasks of a job",
        f"{LIMITS.max_tasks:,}",
        REFUSED,
        large_job(b"", b'{"name":"x"},', LIMITS.max_tasks, b'{"name":"x"}'),
    )
    start, end = b'{"name":"b","needs":[', b'{"task":"a"}]},{"name":"a"}'
    edges = large_job(start, b'{"task":"a"},', LIMITS.max_edges, end)
    yield "edges of a job", f"{LIMITS.max_edges:,}", REFUSED, edges
    payload = LIMITS.max_payload_bytes
    yield "the `work` of a task", size(payload), REFUSED, task(work={"shell": "x" * payload})
    yield "the parameters of a run", size(payload), REFUSED, run(params={"x": "x" * payload})
    variables = {f"V{number}": "" for number in range(work._MAX_VARIABLES + 1)}
    yield "variables of a task", f"{work._MAX_VARIABLES}", REFUSED, task(work={"run": ["true"], "env": variables})
    expression = expression_grammar.MAX_EXPRESSION_LENGTH
    yield "an expression", characters(expression), REFUSED, task(for_each={"items": "{{ " + long(expression) + " }}"})
    template = {"run": ["true"], "env": {"A": "{{ params.x }}" + long(expression_grammar.MAX_TEMPLATE_LENGTH)}}
    yield "a template", characters(expression_grammar.MAX_TEMPLATE_LENGTH), REFUSED, task(work=template)
    conditions = [{"task": f"t{number}", "when": "true"} for number in range(validate_job.MAX_CONDITIONS + 1)]
    names = [{"name": edge["task"]} for edge in conditions]
    yield (
        "nested conditions before a task", f"{validate_job.MAX_CONDITIONS}", REFUSED,
        job(tasks=[*names, {"name": "end", "needs": conditions}]),
    )  # fmt: skip
    yield (
        "attempts of a task",
        f"{validate_job.MAX_ATTEMPTS}",
        REFUSED,
        task(max_attempts=validate_job.MAX_ATTEMPTS + 1),
    )
    yield (
        "retries of a run",
        f"{failure_rules.MAX_RETRIES:,}",
        REFUSED,
        job(max_retries=failure_rules.MAX_RETRIES + 1),
    )
    yield "items of a fan-out", f"{fan_out.MAX_TASKS:,}", REFUSED, job(max_fan_out=fan_out.MAX_TASKS + 1)
    longest = validate_job.MAX_TIMEOUT_SECONDS
    yield "a timeout", days(longest), REFUSED, job(timeout_seconds=longest + 1)
    yield "a delay before a retry", days(validate_job.MAX_DELAY_SECONDS), REFUSED, task(retry_delay_seconds=10**6)
    yield (
        "delay of a run's start",
        days(LIMITS.max_start_ahead_seconds),
        REFUSED,
        run(start_at="2999-01-01T00:00:00Z"),
    )
    yield from _many_at_once()


def _many_at_once() -> Iterable[_Cells]:
    yield (
        "runs with `mode=all`", f"{submission.MAX_ATOMIC_LINES:,}", TOO_LARGE,
        post("/api/v1/runs/bulk?mode=all", content=b'{"job":"noop"}\n' * (submission.MAX_ATOMIC_LINES + 1)),
    )  # fmt: skip
    yield (
        "the body of `apply`", size(apply.MAX_BODY_BYTES), TOO_LARGE,
        announced("/api/v1/apply", apply.MAX_BODY_BYTES),
    )  # fmt: skip
    item: dict[str, object] = {"job": NOOP, "tenant": OWN}
    yield (
        "items of `apply`",
        f"{MAX_ITEMS:,}",
        REFUSED,
        post("/api/v1/apply", json={"items": [item] * (MAX_ITEMS + 1)}),
    )
    item = {**item, "schedules": [{"definition": NIGHTLY}] * (MAX_SCHEDULES + 1)}
    yield "schedules of an item", f"{MAX_SCHEDULES}", REFUSED, post("/api/v1/apply", json={"items": [item]})


def _schedules() -> Iterable[_Cells]:
    longest = cron.MAX_EXPRESSION_LENGTH
    yield (
        "a cron expression",
        characters(longest),
        REFUSED,
        schedule(trigger={"kind": "cron", "cron": "*" * (longest + 1)}),
    )
    event = {"kind": "event", "type": long(triggers.MAX_EVENT_TYPE_CHARS)}
    yield (
        "event type of a trigger",
        characters(triggers.MAX_EVENT_TYPE_CHARS),
        REFUSED,
        schedule(trigger=event),
    )
    path = {"file_exists": "/" + long(schedule_spec.MAX_PATH_CHARS)}
    yield "path of a file condition", characters(schedule_spec.MAX_PATH_CHARS), REFUSED, schedule(condition=path)
    most = schedule_spec.MAX_CATCH_UP_WINDOWS
    yield "windows of a catch-up", f"{most}", REFUSED, schedule(max_catch_up_windows=most + 1)
    yield (
        "concurrent runs of a schedule",
        f"{schedule_spec.MAX_ACTIVE:,}",
        REFUSED,
        schedule(max_active=schedule_spec.MAX_ACTIVE + 1),
    )
    jitter = schedule_spec.MAX_JITTER_SECONDS
    yield "jitter", days(jitter), REFUSED, schedule(jitter_seconds=jitter + 1)
    parallel = schedule_actions.MAX_PARALLEL
    span = {"since": "2026-01-01T00:00:00Z", "before": "2026-01-02T00:00:00Z"}
    yield (
        "parallel windows of a backfill", f"{parallel}", REFUSED,
        action("/api/v1/schedules/{schedules}/backfill", **span, max_parallel=parallel + 1),
    )  # fmt: skip
    years = {"since": "2010-01-01T00:00:00Z", "before": "2026-01-02T00:00:00Z"}
    yield (
        "windows of a backfill", f"{schedule_actions.MAX_BACKFILLED}", REFUSED,
        action("/api/v1/schedules/{schedules}/backfill", **years),
    )  # fmt: skip
    yield (
        "the body of a request with events", size(cloud_events.MAX_REQUEST_BYTES), TOO_LARGE,
        announced("/api/v1/events", cloud_events.MAX_REQUEST_BYTES),
    )  # fmt: skip
    yield (
        "events of a request",
        f"{cloud_events.MAX_EVENTS:,}",
        TOO_LARGE,
        post("/api/v1/events", json=[EVENT] * 1_001),
    )
    large = {**EVENT, "data": "x" * cloud_events.MAX_EVENT_BYTES}
    yield "an event", size(cloud_events.MAX_EVENT_BYTES), TOO_LARGE, post("/api/v1/events", json=large)
    longest = cloud_events.MAX_ATTRIBUTE_BYTES
    yield (
        "`id`, `source`, `type` or `subject` of an event", size(longest), REFUSED,
        post("/api/v1/events", json={**EVENT, "subject": long(longest)}),
    )  # fmt: skip


def _acts() -> Iterable[_Cells]:
    yield (
        "reason of an action",
        characters(actions.MAX_REASON_LENGTH),
        REFUSED,
        action("/api/v1/runs/{runs}/cancel", why=long(1_000)),
    )
    checkpoint = work.MAX_CHECKPOINT_BYTES
    yield "a checkpoint", size(checkpoint), TOO_LARGE, put("/api/v1/tasks/{tasks}/checkpoint", x="x" * checkpoint)
    more = work.MAX_EXTENSION_SECONDS
    yield "extension of a timeout", days(more), REFUSED, action("/api/v1/tasks/{tasks}/extend", seconds=more + 1)
    grace = work.MAX_GRACE_SECONDS
    yield (
        "grace period",
        f"{grace:,.0f} s",
        REFUSED,
        action("/api/v1/tasks/{tasks}/kill", grace_seconds=grace + 1),
    )
    most = bulk_actions.MAX_BULK_RUNS
    bulk = {"action": "pause", "q": "state:RUNNING", "tenant": OWN, "dry_run": True}
    yield (
        "runs of a bulk action",
        f"{most:,}",
        REFUSED,
        post("/api/v1/runs/act", json={**bulk, "most": most + 1}),
    )
    yield "changes of a what-if", "20", REFUSED, action("/api/v1/tasks/{tasks}/what-if", changes=["cpu 1"] * 21)
    yield "a what-if change", characters(200), REFUSED, action("/api/v1/tasks/{tasks}/what-if", changes=[long(200)])


def _rules() -> Iterable[_Cells]:
    yield (
        "note of a rule",
        characters(rule_routes.MAX_NOTE_LENGTH),
        REFUSED,
        put("/api/v1/pools/default", note=long(4_000)),
    )
    zones = [f"z{number}" for number in range(pools.MAX_ZONES + 1)]
    yield "zones of a pool", f"{pools.MAX_ZONES}", REFUSED, put("/api/v1/pools/default", zones=zones)
    yield (
        "labels of a pool or a policy",
        f"{validate_job.MAX_LABELS}",
        REFUSED,
        put("/api/v1/pools/default", labels=many(32)),
    )
    group = groups.MAX_SLOTS
    yield "limit of a group", f"{group:,}", REFUSED, put(f"/api/v1/groups/db?tenant={OWN}", most=group + 1)
    yield "groups of a tenant", f"{groups.MAX_GROUPS_PER_TENANT:,}", "409 `conflict`", None
    booking = {"cron": "0 2 * * *", "guaranteed": {"cpu": 1.0}}
    yield (
        "a booking", days(capacity_bookings.MAX_SECONDS), REFUSED,
        put(f"/api/v1/tenants/{OWN}/quota/bookings/night", **booking, seconds=capacity_bookings.MAX_SECONDS + 1),
    )  # fmt: skip
    yield "bookings of a quota", f"{capacity_bookings.MAX_BOOKINGS}", REFUSED, None
    yield (
        "duration of a grant, freeze or raise", days(rule_routes.MAX_SECONDS), REFUSED,
        post("/api/v1/freezes", json={"kind": "tenant", "subject": OWN, "seconds": rule_routes.MAX_SECONDS + 1}),
    )  # fmt: skip


def _people() -> Iterable[_Cells]:
    title = tenants.MAX_TEXT_LENGTH["title"]
    yield "the title of a tenant", characters(title), REFUSED, put(f"/api/v1/tenants/{OWN}", title=long(title))
    token: dict[str, object] = {"name": "bot", "roles": ["viewer"], "tenant": OWN}
    name = {**token, "name": long(routes_tokens.MAX_NAME_LENGTH)}
    yield "the name of a token", characters(routes_tokens.MAX_NAME_LENGTH), REFUSED, post("/api/v1/tokens", json=name)
    life = tokens.MAX_LIFETIME.total_seconds()
    yield (
        "lifetime of a token",
        days(life),
        REFUSED,
        post("/api/v1/tokens", json={**token, "expires_in_seconds": life + 1}),
    )
    url = f"http://example.com/{long(urls.MAX_URL_LENGTH)}"
    yield (
        "URL of a webhook",
        characters(urls.MAX_URL_LENGTH),
        REFUSED,
        post("/api/v1/webhooks", json={"url": url, "tenant": OWN}),
    )
    note = {"url": "http://127.0.0.1:9/x", "tenant": OWN, "note": long(routes_webhooks.MAX_NOTE_LENGTH)}
    yield (
        "the note of a webhook",
        characters(routes_webhooks.MAX_NOTE_LENGTH),
        REFUSED,
        post("/api/v1/webhooks", json=note),
    )
    yield "webhooks of a tenant", f"{webhooks.MAX_PER_TENANT}", "409 `conflict`", None


def table(section: str) -> list[str]:
    """Return the lines of a section's table."""
    lines = [row.line for row in rows() if row.section == section]
    return ["| what | limit | beyond it |", "|---|---|---|", *lines]


if __name__ == "__main__":
    for section, _ in groupby(rows(), lambda row: row.section):
        sys.stdout.write("\n".join([f"## {section}", "", *table(section), "", ""]))
