"""Permissions: the response of every route to every kind of caller (SEC-2).

`matrix.txt` has the expected responses. This prints the lines of missing or deviating routes:

    python -m tests.api.permission_matrix

A new route needs its line; a new kind of resource with an id in a path needs a line in `Snapshot.things` and in
MISSING; a
route with required body fields needs a line in BODIES.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx2
import structlog
from starlette.routing import Route, WebSocketRoute
from starlette.types import Message

from mainspring.api.app import endpoints
from mainspring.api.auth.principal import ALL_TENANTS, Role
from mainspring.api.auth.tokens import make_attempt_token, make_token
from mainspring.api.http.routing import Endpoint
from mainspring.app.build import POOL
from mainspring.protocol.rest.admin import DeliveryView, JoinTokenView, WebhookView
from mainspring.protocol.rest.runs import RunView, TaskView, TokenView
from mainspring.protocol.rest.schedules import ScheduleView
from mainspring.protocol.rest.sharing import GroupView, PolicyView
from mainspring.protocol.wire import Assign, Received, Started
from mainspring.store.ports.workers import IdentityRow
from tests.api.api_harness import NOOP, SECRET, ApiHarness, read, submit
from tests.host.host_harness import ScriptedWorker
from tests.store.admin_builders import an_entry

TABLE = Path(__file__).with_name("matrix.txt")
OWN, OTHER = "acme", "globex"
SIDES = ("own", "other", "every")
"""The tenant of the requested resources, another one, and all tenants."""
STRANGERS = ("none", "expired", "revoked")
"""No token, and expired or revoked tokens of an administrator."""
COLUMNS = [
    *(
        f"{role}.{side}"
        for role in Role
        for side in SIDES
        if role is not Role.JOIN and (role, side) != (Role.ATTEMPT, "every")
    ),
    *STRANGERS,
]
OK = "ok"
"""It was done, or could not be done now (409): what matters is that the caller is permitted."""

THEIRS = {**NOOP, "name": "theirs"}
NIGHTLY = {"name": "nightly", "job": "noop", "trigger": {"kind": "cron", "cron": "0 2 * * *"}}
KEPT = {**NIGHTLY, "name": "kept"}
EVENT = {"specversion": "1.0", "id": "1", "source": "/test", "type": "arrived"}
POLICY = {"label": "eu_data", "requires": {"region": "eu"}}
GROUP = {"most": 3}
NOWHERE = "http://127.0.0.1:9/hook"
"""Never called: addresses of this machine are rejected."""
BODIES: dict[str, object] = {
    "act_on_runs": {"action": "pause", "q": "state:RUNNING", "tenant": OWN, "dry_run": True},
    "apply": {"items": [{"job": NOOP, "tenant": OWN}], "dry_run": True},
    "change_priority": {"priority": "P1"},
    "create_job": NOOP,
    "create_run": {"job": "noop", "tenant": OWN},
    "create_runs": {"job": "noop", "tenant": OWN},
    "create_token": {"name": "bot", "roles": ["viewer"], "tenant": OWN},
    "create_schedule": {"definition": NIGHTLY, "tenant": OWN},
    "put_schedule": {"definition": KEPT},
    "backfill_schedule": {"since": "2026-01-01T00:00:00Z", "before": "2026-01-02T00:00:00Z", "dry_run": True},
    "extend_task": {"seconds": 1.0},
    "enroll_worker": {"name": "w9", "request": ""},
    "renew_worker": {"request": ""},
    "receive_events": EVENT,
    "put_setting": {"value": 100},
    "create_webhook": {"url": NOWHERE, "tenant": OWN},
    "change_webhook": {"url": NOWHERE},
    "put_policy": POLICY,
    "raise_quota": {"seconds": 60.0},
    "put_booking": {"cron": "0 2 * * *", "seconds": 60, "guaranteed": {"cpu": 1.0}},
    "put_group": GROUP,
    "freeze": {"kind": "tenant", "subject": OWN},
    "what_if": {"changes": ["cpu 1"]},
    "claim_runs": {"worker_id": "hands"},
    "start_claimed_run": {"worker_id": "hands"},
}
QUERIES: dict[str, dict[str, str]] = {
    "follow_events": {"after": "nowhere"},
    "unfreeze": {"kind": "tenant", "subject": OWN},
}
"""Queries that end streams, and undo freezes."""
MISSING = {
    "attempts": "att_000000000000-0000000000000000",
    "bookings": "never",
    "dead-letters": "task_000000000000-0000000000000000.0",
    "deliveries": "msg_000000000000-0000000000000000",
    "groups": "never",
    "jobs": "never",
    "join-tokens": "0" * 16,
    "logs": "att_000000000000-0000000000000000",
    "pipeline-runs": "att_000000000000-0000000000000000",
    "policies": "never",
    "pools": "never",
    "runs": "run_000000000000-0000000000000000",
    "schedules": "sched_000000000000-0000000000000000",
    "settings": "never",
    "tasks": "task_000000000000-0000000000000000.0",
    "tenants": "never",
    "tokens": "0" * 16,
    "webhooks": "hook_000000000000-0000000000000000",
    "workers": "never",
}
"""For each kind of resource in a path, an unknown id."""
_PARAMETER = re.compile(r"([a-z-]+)/\{(\w+)\}")
_ORDER = {"GET": 0, "WS": 0, "POST": 1, "PUT": 1, "PATCH": 1, "DELETE": 2}


@dataclass(frozen=True, kw_only=True)
class Way:
    """One method of one path."""

    method: str
    path: str
    endpoint: Endpoint | None
    """None for routes that are not for users: the worker link, and internal routes between servers."""

    @property
    def name(self) -> str:
        """Return the row name in the table."""
        return f"{self.method:6} {self.path}"

    def kinds(self) -> list[str]:
        """Return the kinds of resources in the path."""
        return [kind for kind, _ in _PARAMETER.findall(self.path)]

    def url(self, things: Mapping[str, str]) -> str:
        """Return the path with these ids."""
        return _PARAMETER.sub(lambda found: f"{found[1]}/{things[found[1]]}", self.path)

    def query(self, *, with_tenant: bool) -> dict[str, str]:
        """Return the query, with the tenant where possible."""
        if self.endpoint is None:
            return {}
        asked = dict(QUERIES.get(self.endpoint.operation, {}))
        if with_tenant and any(one.wire_name == "tenant" for one in self.endpoint.parameters):
            asked["tenant"] = OWN
        return asked

    def body(self) -> dict[str, object]:
        """Return the request body."""
        if self.endpoint is None or self.method in {"GET", "DELETE"}:
            return {}
        headers = {"content-type": self.endpoint.takes}
        return {"json": BODIES.get(self.endpoint.operation, {}), "headers": headers}


def ways(harness: ApiHarness) -> list[Way]:
    """Return all routes; deleting ones last."""
    known = {(endpoint.method, endpoint.path): endpoint for endpoint in endpoints()}
    found = []
    for route in harness.front.app.routes:
        if isinstance(route, WebSocketRoute):
            found.append(Way(method="WS", path=route.path, endpoint=None))
            continue
        assert isinstance(route, Route)
        methods = (route.methods or set()) - {"HEAD"}
        found += [Way(method=one, path=route.path, endpoint=known.get((one, route.path))) for one in methods]
    return sorted(found, key=lambda way: (_ORDER[way.method], way.path, way.method))


class Snapshot:
    """A server where two tenants have one of each resource."""

    def __init__(self, harness: ApiHarness, hand: ScriptedWorker) -> None:
        self.harness = harness
        self._hand = hand
        self.things: dict[str, str] = {}
        """For each kind of resource in a path, the id of one of the first tenant."""
        self.attempts: dict[str, str] = {}

    async def renew(self) -> None:
        """Recreate all resources, which earlier requests may have deleted."""
        run, task = await self._running(OWN)
        await self._running(OTHER)
        admin = await self.harness.admin(OWN)
        schedule = read(await admin.put("/api/v1/schedules/kept", json={"definition": KEPT}), ScheduleView)
        saved = await admin.put(f"/api/v1/tasks/{task.id}/checkpoint", json={"at": 1})
        assert saved.is_success, saved.text
        token = read(await admin.post("/api/v1/tokens", json={"name": "x", "roles": ["viewer"]}), TokenView)
        webhook = read(await admin.post("/api/v1/webhooks", json={"url": NOWHERE}), WebhookView)
        delivery = read(await admin.post(f"/api/v1/webhooks/{webhook.id}/test"), DeliveryView)
        read(await admin.put("/api/v1/groups/db", json=GROUP), GroupView)
        everybody = await self.harness.admin()
        read(await everybody.put("/api/v1/policies/eu", json=POLICY), PolicyView)
        joining = read(await everybody.post("/api/v1/join-tokens", json={}), JoinTokenView)
        await self._join("w2", joining.id)
        self.things = {
            "attempts": self.attempts[OWN],
            "bookings": "nightly",
            "dead-letters": task.id,
            "deliveries": delivery.id,
            "groups": "db",
            "jobs": "noop",
            "join-tokens": joining.id,
            "logs": self.attempts[OWN],
            "pipeline-runs": self.attempts[OWN],
            "policies": "eu",
            "pools": POOL,
            "runs": run.id,
            "schedules": schedule.id,
            "settings": "retries_per_second",
            "tasks": task.id,
            "tenants": OWN,
            "tokens": token.id,
            "webhooks": webhook.id,
            "workers": "w2",
        }

    async def _join(self, worker: str, token: str) -> None:
        """Create a worker identity, with a new key each time."""
        now = await self.harness.store.time()
        row = IdentityRow(
            name=worker, key=token, pools=(POOL,), serial="1", join_token=token, enrolled_at=now, renewed_at=now,
            expires_at=now,
        )  # fmt: skip
        assert await self.harness.store.enroll(row, an_entry())

    async def _running(self, tenant: str) -> tuple[RunView, TaskView]:
        """Start a task on a worker."""
        admin = await self.harness.admin(tenant)
        finish_by = (await self.harness.store.time() + timedelta(days=1)).isoformat()
        run = await submit(admin, NOOP if tenant == OWN else THEIRS, finish_by=finish_by)
        task = f"task_{run.id[4:]}.0"
        self.attempts[tenant] = await self._take(task)
        return run, read(await admin.get(f"/api/v1/tasks/{task}"), TaskView)

    async def _take(self, task: str) -> str:
        """Start tasks until this one has started; return its attempt."""
        while True:
            assign = await self._hand.expect(Assign)
            attempts = [one.attempt for one in assign.group]
            self._hand.send(Received(tuple(attempts)), *map(Started, attempts))
            for one in assign.group:
                if one.task == task:
                    return one.attempt

    async def caller(self, column: str) -> httpx2.AsyncClient:
        """Return the client of a column."""
        token = await self._token(column)
        return self.harness.caller(token)

    async def _token(self, column: str) -> str | None:
        role, _, side = column.partition(".")
        now = await self.harness.store.time()
        if column in STRANGERS:
            life = timedelta(days=-1 if column == "expired" else 1)
            token, row = make_token(tenant=OWN, roles=[Role.ADMIN], name="x", by="a test", now=now, life=life)
            await self.harness.store.insert_token(row)
            if column == "revoked":
                await self.harness.store.revoke_token(row.id)
            return None if column == "none" else token
        tenant = {"own": OWN, "other": OTHER, "every": ALL_TENANTS}[side]
        if role == Role.ATTEMPT:
            return make_attempt_token(SECRET, self.attempts[tenant], now + timedelta(days=1))
        return await self.harness.token(Role(role), tenant=tenant)

    async def ask_all(self, column: str) -> dict[str, str]:
        """Return the responses to one client, by route."""
        await self.renew()
        caller = await self.caller(column)
        return {way.name: await self._ask(way, caller, column) for way in ways(self.harness)}

    async def _ask(self, way: Way, caller: httpx2.AsyncClient, column: str) -> str:
        url = way.url(self.things)
        if way.method == "WS":
            return await shake_hands(self.harness, url, caller.headers)
        query = way.query(with_tenant=not way.kinds() or column.endswith(".every"))
        answer = await caller.request(way.method, url, params=query, **way.body())  # type: ignore[arg-type]
        assert answer.status_code < 500, f"{way.name} by {column}: {answer.text}"
        return OK if answer.is_success or answer.status_code == 409 else str(answer.status_code)


async def shake_hands(harness: ApiHarness, path: str, headers: Mapping[str, str]) -> str:
    """Open a WebSocket; return 101, or the status of its rejection."""
    sent: list[Message] = []
    said: list[Message] = [{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}]

    async def receive() -> Message:
        return said.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "websocket", "path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"",
        "scheme": "ws", "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50_000), "server": ("localhost", 8484), "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
    }  # fmt: skip
    await harness.front.app(scope, receive, send)
    first = sent[0]
    return "101" if first["type"] == "websocket.accept" else str(first["status"])


@asynccontextmanager
async def scene_of(harness: ApiHarness) -> AsyncIterator[Snapshot]:
    """Set up a scene for as long as the block lasts."""
    async with harness.led() as leader:
        hand = await ScriptedWorker("w1", leader, "s1", cores=1_000).welcome()
        idle = await ScriptedWorker("w2", leader, "s2", cores=0).welcome()
        beating = [asyncio.create_task(one.beat()) for one in (hand, idle)]
        yield Snapshot(harness, hand)
        for one in beating:
            one.cancel()


def read_table(text: str) -> dict[str, dict[str, str]]:
    """Read the expected responses by route and caller."""
    table = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        method, path, *answers = line.replace("|", " ").split()
        table[f"{method:6} {path}"] = dict(zip(COLUMNS, answers, strict=True))
    return table


def print_line(name: str, answers: Mapping[str, str]) -> str:
    """Format a line of the table."""
    groups: dict[str, list[str]] = {}
    for column in COLUMNS:
        groups.setdefault(column.partition(".")[0], []).append(f"{answers[column]:3}")
    return f"{name:75} | {' | '.join(' '.join(group) for group in groups.values())}".rstrip()


def print_header() -> list[str]:
    """Return the header lines of the table."""
    asking = [role for role in Role if role is not Role.JOIN]
    roles = " | ".join(f"{role:{7 if role is Role.ATTEMPT else 11}}" for role in asking)
    sides = " | ".join("own oth" if role is Role.ATTEMPT else "own oth all" for role in asking)
    strangers = " | ".join(f"{one[:3]}" for one in STRANGERS)
    return [f"#{'':75}| {roles} | {strangers}", f"#{'':75}| {sides} |     |     |"]


async def _missing(directory: Path) -> Iterable[str]:
    harness = ApiHarness(directory)
    try:
        async with scene_of(harness) as scene:
            found = {column: await scene.ask_all(column) for column in COLUMNS}
        table = read_table(TABLE.read_text()) if TABLE.exists() else {}
        names = sorted((way.name for way in ways(harness)), key=lambda name: name.split()[::-1])
    finally:
        await harness.close()
    rows = {name: {column: found[column][name] for column in COLUMNS} for name in names}
    return [print_line(name, row) for name, row in rows.items() if table.get(name) != row]


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    with tempfile.TemporaryDirectory() as directory:
        sys.stdout.writelines(f"{line}\n" for line in asyncio.run(_missing(Path(directory))))
