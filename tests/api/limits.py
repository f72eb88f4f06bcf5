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
from mainspring.protocol.rest.apply import MOST_ITEMS, MOST_SCHEDULES
from mainspring.protocol.rest.runs import LONGEST_PAGE
from tests.api.excess import (
    Request,
    Things,
    act,
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
from tests.api.limit_words import REFUSED, TOO_LARGE, characters, days, size
from tests.api.limits_elsewhere import of_files, of_tasks, of_the_link
from tests.api.limits_of_work import of_claims, of_kinds_of_work
from tests.api.matrix import EVENT, NIGHTLY, OWN
from tests.api.office import NOOP

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
        yield Row("Acts, rules and people", what, limit, answer, request)
    for what, limit, answer, request in of_claims():
        yield Row("Workers over HTTP", what, limit, answer, request)
    for what, limit, answer in of_the_link():
        yield Row("The worker link", what, limit, answer, None)
    for what, limit, answer in of_tasks():
        yield Row("What tasks leave", what, limit, answer, None)
    for what, limit, answer in of_files():
        yield Row("Files and answers", what, limit, answer, None)


_Cells = tuple[str, str, str, Callable[[Things], Request] | None]


def _requests() -> Iterable[_Cells]:
    yield "the request line and all headers", size(connections.LARGEST_HEAD_BYTES), "431 `too_large`", None
    yield (
        "one value in a path, a query or a header", characters(routing.LONGEST_PARAMETER), REFUSED,
        get(f"/api/v1/runs/{long(routing.LONGEST_PARAMETER)}"),
    )  # fmt: skip
    states = [("state", "FAILED")] * (routing.MOST_PARAMETERS + 1)
    yield (
        "values in a query", f"{routing.MOST_PARAMETERS}", REFUSED,
        lambda _: ("GET", "/api/v1/runs", {"params": states}),
    )  # fmt: skip
    largest = routing.LARGEST_STRUCT_BYTES
    yield "the body of a request, unless it is below", size(largest), TOO_LARGE, announced("/api/v1/runs", largest)
    yield "how deep JSON goes", f"{strict_json.DEEPEST}", REFUSED, run(params={"x": deep(strict_json.DEEPEST)})
    key = {"Idempotency-Key": long(validate_submission.LONGEST_KEY)}
    yield (
        "an `Idempotency-Key`", characters(validate_submission.LONGEST_KEY), REFUSED,
        post("/api/v1/runs", json={"job": "noop", "tenant": OWN}, headers=key),
    )  # fmt: skip
    yield "items of a page", f"{LONGEST_PAGE:,}", REFUSED, get("/api/v1/runs", limit=LONGEST_PAGE + 1)
    yield "a cursor", characters(1_000), REFUSED, get("/api/v1/runs", cursor=long(1_000))
    yield "`fields` of a list", characters(1_000), REFUSED, get("/api/v1/runs", fields=long(1_000))
    longest = filters.LONGEST_FILTER
    yield "a filter (`q`)", characters(longest), REFUSED, get("/api/v1/runs", q=long(longest))
    read = logs.LONGEST_ANSWER_BYTES
    yield (
        "a part of a log that is read at once", size(read), REFUSED,
        lambda things: ("GET", f"/api/v1/tasks/{things['tasks']}/log", {"params": {"limit": read + 1}}),
    )  # fmt: skip
    yield "days of a trend", f"{jobs.MOST_DAYS}", REFUSED, get("/api/v1/jobs/noop/trend", days=367, tenant=OWN)


def _jobs() -> Iterable[_Cells]:
    yield "the body of a job", size(LIMITS.max_body_bytes), TOO_LARGE, announced("/api/v1/jobs", LIMITS.max_body_bytes)
    yield "a name", characters(128), REFUSED, job(name=long(128))
    yield "a description", characters(validate_job.LONGEST_DESCRIPTION), REFUSED, job(description=long(4_000))
    yield (
        "labels of a job or a task",
        f"{validate_job.MOST_LABELS}",
        REFUSED,
        job(labels=many(validate_job.MOST_LABELS)),
    )
    yield "a label of a job", characters(validate_job.LONGEST_LABEL_OF_JOB), REFUSED, job(labels={"a": long(63)})
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
    variables = {f"V{number}": "" for number in range(work._MOST_VARIABLES + 1)}
    yield "variables of a task", f"{work._MOST_VARIABLES}", REFUSED, task(work={"run": ["true"], "env": variables})
    expression = expression_grammar.LONGEST_EXPRESSION
    yield "an expression", characters(expression), REFUSED, task(for_each={"items": "{{ " + long(expression) + " }}"})
    template = {"run": ["true"], "env": {"A": "{{ params.x }}" + long(expression_grammar.LONGEST_TEMPLATE)}}
    yield "a template", characters(expression_grammar.LONGEST_TEMPLATE), REFUSED, task(work=template)
    conditions = [{"task": f"t{number}", "when": "true"} for number in range(validate_job.MOST_CONDITIONS + 1)]
    names = [{"name": edge["task"]} for edge in conditions]
    yield (
        "conditions on the way to a task", f"{validate_job.MOST_CONDITIONS}", REFUSED,
        job(tasks=[*names, {"name": "end", "needs": conditions}]),
    )  # fmt: skip
    yield (
        "attempts of a task",
        f"{validate_job.MOST_ATTEMPTS}",
        REFUSED,
        task(max_attempts=validate_job.MOST_ATTEMPTS + 1),
    )
    yield (
        "retries of a run",
        f"{failure_rules.MOST_RETRIES:,}",
        REFUSED,
        job(max_retries=failure_rules.MOST_RETRIES + 1),
    )
    yield "tasks that a list becomes", f"{fan_out.MOST_TASKS:,}", REFUSED, job(max_fan_out=fan_out.MOST_TASKS + 1)
    longest = validate_job.LONGEST_TIMEOUT_SECONDS
    yield "a timeout", days(longest), REFUSED, job(timeout_seconds=longest + 1)
    yield "a delay before a retry", days(validate_job.LONGEST_DELAY_SECONDS), REFUSED, task(retry_delay_seconds=10**6)
    yield (
        "how far ahead a run starts",
        days(LIMITS.max_start_ahead_seconds),
        REFUSED,
        run(start_at="2999-01-01T00:00:00Z"),
    )
    yield from _many_at_once()


def _many_at_once() -> Iterable[_Cells]:
    yield (
        "runs with `mode=all`", f"{submission.MOST_LINES_OF_ALL:,}", TOO_LARGE,
        post("/api/v1/runs/bulk?mode=all", content=b'{"job":"noop"}\n' * (submission.MOST_LINES_OF_ALL + 1)),
    )  # fmt: skip
    yield (
        "the body of `apply`", size(apply.LARGEST_BYTES), TOO_LARGE,
        announced("/api/v1/apply", apply.LARGEST_BYTES),
    )  # fmt: skip
    item: dict[str, object] = {"job": NOOP, "tenant": OWN}
    yield (
        "items of `apply`",
        f"{MOST_ITEMS:,}",
        REFUSED,
        post("/api/v1/apply", json={"items": [item] * (MOST_ITEMS + 1)}),
    )
    item = {**item, "schedules": [{"definition": NIGHTLY}] * (MOST_SCHEDULES + 1)}
    yield "schedules of an item", f"{MOST_SCHEDULES}", REFUSED, post("/api/v1/apply", json={"items": [item]})


def _schedules() -> Iterable[_Cells]:
    longest = cron.LONGEST_EXPRESSION
    yield (
        "a cron expression",
        characters(longest),
        REFUSED,
        schedule(trigger={"kind": "cron", "cron": "*" * (longest + 1)}),
    )
    event = {"kind": "event", "type": long(triggers.LONGEST_EVENT_TYPE)}
    yield (
        "the type of an event that is waited for",
        characters(triggers.LONGEST_EVENT_TYPE),
        REFUSED,
        schedule(trigger=event),
    )
    path = {"file_exists": "/" + long(schedule_spec.LONGEST_PATH)}
    yield "a path that is looked for", characters(schedule_spec.LONGEST_PATH), REFUSED, schedule(condition=path)
    most = schedule_spec.MOST_CATCH_UP_WINDOWS
    yield "windows that are caught up", f"{most}", REFUSED, schedule(max_catch_up_windows=most + 1)
    yield (
        "runs of a schedule at a time",
        f"{schedule_spec.MOST_ACTIVE:,}",
        REFUSED,
        schedule(max_active=schedule_spec.MOST_ACTIVE + 1),
    )
    jitter = schedule_spec.LONGEST_JITTER_SECONDS
    yield "jitter", days(jitter), REFUSED, schedule(jitter_seconds=jitter + 1)
    parallel = schedule_actions.MOST_PARALLEL
    span = {"since": "2026-01-01T00:00:00Z", "before": "2026-01-02T00:00:00Z"}
    yield (
        "windows of a backfill at a time", f"{parallel}", REFUSED,
        act("/api/v1/schedules/{schedules}/backfill", **span, max_parallel=parallel + 1),
    )  # fmt: skip
    years = {"since": "2010-01-01T00:00:00Z", "before": "2026-01-02T00:00:00Z"}
    yield (
        "windows of a backfill", f"{schedule_actions.MOST_BACKFILLED}", REFUSED,
        act("/api/v1/schedules/{schedules}/backfill", **years),
    )  # fmt: skip
    yield (
        "the body of a request with events", size(cloud_events.LARGEST_REQUEST_BYTES), TOO_LARGE,
        announced("/api/v1/events", cloud_events.LARGEST_REQUEST_BYTES),
    )  # fmt: skip
    yield (
        "events of a request",
        f"{cloud_events.MOST_EVENTS:,}",
        TOO_LARGE,
        post("/api/v1/events", json=[EVENT] * 1_001),
    )
    large = {**EVENT, "data": "x" * cloud_events.LARGEST_EVENT_BYTES}
    yield "an event", size(cloud_events.LARGEST_EVENT_BYTES), TOO_LARGE, post("/api/v1/events", json=large)
    longest = cloud_events.LONGEST_ATTRIBUTE_BYTES
    yield (
        "`id`, `source`, `type` or `subject` of an event", size(longest), REFUSED,
        post("/api/v1/events", json={**EVENT, "subject": long(longest)}),
    )  # fmt: skip


def _acts() -> Iterable[_Cells]:
    yield (
        "why something is done",
        characters(actions.LONGEST_REASON),
        REFUSED,
        act("/api/v1/runs/{runs}/cancel", why=long(1_000)),
    )
    checkpoint = work.LARGEST_CHECKPOINT_BYTES
    yield "a checkpoint", size(checkpoint), TOO_LARGE, put("/api/v1/tasks/{tasks}/checkpoint", x="x" * checkpoint)
    more = work.LONGEST_EXTENSION_SECONDS
    yield "more time for a task", days(more), REFUSED, act("/api/v1/tasks/{tasks}/extend", seconds=more + 1)
    grace = work.LONGEST_GRACE_SECONDS
    yield (
        "time to end by itself",
        f"{grace:,.0f} s",
        REFUSED,
        act("/api/v1/tasks/{tasks}/kill", grace_seconds=grace + 1),
    )
    most = bulk_actions.MOST_AT_ALL
    bulk = {"act": "pause", "q": "state:RUNNING", "tenant": OWN, "dry_run": True}
    yield (
        "runs that are acted on at once",
        f"{most:,}",
        REFUSED,
        post("/api/v1/runs/act", json={**bulk, "most": most + 1}),
    )
    yield "changes of a what-if", "20", REFUSED, act("/api/v1/tasks/{tasks}/what-if", changes=["cpu 1"] * 21)
    yield "one such change", characters(200), REFUSED, act("/api/v1/tasks/{tasks}/what-if", changes=[long(200)])


def _rules() -> Iterable[_Cells]:
    yield (
        "a note beside a rule",
        characters(rule_routes.LONGEST_NOTE),
        REFUSED,
        put("/api/v1/pools/default", note=long(4_000)),
    )
    zones = [f"z{number}" for number in range(pools.MOST_ZONES + 1)]
    yield "zones of a pool", f"{pools.MOST_ZONES}", REFUSED, put("/api/v1/pools/default", zones=zones)
    yield (
        "labels of a pool or a policy",
        f"{validate_job.MOST_LABELS}",
        REFUSED,
        put("/api/v1/pools/default", labels=many(32)),
    )
    group = groups.MOST
    yield "work of a group at a time", f"{group:,}", REFUSED, put(f"/api/v1/groups/db?tenant={OWN}", most=group + 1)
    yield "groups of a tenant", f"{groups.MAX_GROUPS_PER_TENANT:,}", "409 `conflict`", None
    booking = {"cron": "0 2 * * *", "guaranteed": {"cpu": 1.0}}
    yield (
        "a booking", days(capacity_bookings.LONGEST_SECONDS), REFUSED,
        put(f"/api/v1/tenants/{OWN}/quota/bookings/night", **booking, seconds=capacity_bookings.LONGEST_SECONDS + 1),
    )  # fmt: skip
    yield "bookings of a quota", f"{capacity_bookings.MOST_BOOKINGS}", REFUSED, None
    yield (
        "how long a grant, a freeze or a raise lasts", days(rule_routes.LONGEST_SECONDS), REFUSED,
        post("/api/v1/freezes", json={"kind": "tenant", "subject": OWN, "seconds": rule_routes.LONGEST_SECONDS + 1}),
    )  # fmt: skip


def _people() -> Iterable[_Cells]:
    title = tenants.LONGEST_TEXT["title"]
    yield "the title of a tenant", characters(title), REFUSED, put(f"/api/v1/tenants/{OWN}", title=long(title))
    token: dict[str, object] = {"name": "bot", "roles": ["viewer"], "tenant": OWN}
    name = {**token, "name": long(routes_tokens.LONGEST_NAME)}
    yield "the name of a token", characters(routes_tokens.LONGEST_NAME), REFUSED, post("/api/v1/tokens", json=name)
    life = tokens.LONGEST_LIFE.total_seconds()
    yield (
        "the life of a token",
        days(life),
        REFUSED,
        post("/api/v1/tokens", json={**token, "expires_in_seconds": life + 1}),
    )
    url = f"http://example.com/{long(urls.LONGEST_URL)}"
    yield (
        "the address of a webhook",
        characters(urls.LONGEST_URL),
        REFUSED,
        post("/api/v1/webhooks", json={"url": url, "tenant": OWN}),
    )
    note = {"url": "http://127.0.0.1:9/x", "tenant": OWN, "note": long(routes_webhooks.LONGEST_NOTE)}
    yield (
        "the note of a webhook",
        characters(routes_webhooks.LONGEST_NOTE),
        REFUSED,
        post("/api/v1/webhooks", json=note),
    )
    yield "webhooks of a tenant", f"{webhooks.MOST_OF_TENANT}", "409 `conflict`", None


def table(section: str) -> list[str]:
    """Return the lines of a section's table."""
    lines = [row.line for row in rows() if row.section == section]
    return ["| what | limit | beyond it |", "|---|---|---|", *lines]


if __name__ == "__main__":
    for section, _ in groupby(rows(), lambda row: row.section):
        sys.stdout.write("\n".join([f"## {section}", "", *table(section), "", ""]))
