"""The application on a SQLite store without sockets, and its clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import msgspec

from mainspring.api.auth.principal import ALL_TENANTS, Role
from mainspring.api.auth.tokens import make_token
from mainspring.api.logs.log_files import LogFiles
from mainspring.api.services import Services
from mainspring.api.worker_link.enrollment import Enrollment
from mainspring.app.build import POOL, ResolveUrl, ServerOptions, build_server
from mainspring.host.loop import Leader
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.rest.runs import JobView, Page, RunView, TaskView
from mainspring.store.sqlite.store import SqliteStore
from tests.host.host_harness import ScriptedWorker
from tests.server_settings import GENEROUS

SECRET = "the secret of this cluster"
NOOP: dict[str, object] = {"name": "noop", "tasks": [{"name": "only"}]}


class AdvancedClock(SystemClock):
    """The machine's clock, which a test can advance, and stop."""

    ahead = 0.0
    _stopped: tuple[float, datetime] | None = None

    def stop(self) -> None:
        """Stop the clock: from now on only `ahead` advances it."""
        self._stopped = super().monotonic(), super().wall()

    def monotonic(self) -> float:
        """Return the monotonic time."""
        return (self._stopped[0] if self._stopped else super().monotonic()) + self.ahead

    def wall(self) -> datetime:
        """Return the wall time."""
        return (self._stopped[1] if self._stopped else super().wall()) + timedelta(seconds=self.ahead)


class ApiHarness:
    """One in-process server: requests are passed to it directly."""

    def __init__(
        self,
        directory: Path,
        *,
        open_locally: bool = False,
        resolve_url: ResolveUrl | None = None,
        given: Mapping[str, str] | None = None,
        enrollment: Enrollment | None = None,
    ) -> None:
        """`given`: settings in place of GENEROUS."""
        self.clock = AdvancedClock()
        path = directory / "store.db"
        if not path.exists():
            path.write_bytes(_empty_store())
        self.store = SqliteStore.open(path, clock=self.clock)
        options = ServerOptions(
            address="http://127.0.0.1:8484", cluster_secret=SECRET, given=GENEROUS if given is None else given,
            private_webhooks=True, resolve_url=resolve_url, files=LogFiles(directory / "logs"),
            open_locally=open_locally, enrollment=enrollment,
        )  # fmt: skip
        self.engine, self.front = build_server(self.store, self.clock, options)

    @property
    def services(self) -> Services:
        """Return the services of the routes."""
        return self.front.services

    def caller(self, token: str | None = None, *, address: str = "127.0.0.1", **headers: str) -> httpx2.AsyncClient:
        """Return a client with an address, optionally with a token."""
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        transport = httpx2.ASGITransport(self.front.app, client=(address, 50_000), raise_app_exceptions=False)
        return httpx2.AsyncClient(transport=transport, base_url="http://localhost:8484", headers=headers)

    async def token(self, *roles: Role, tenant: str = ALL_TENANTS, name: str = "a-test", days: float = 1) -> str:
        """Create a stored token."""
        now = await self.store.time()
        token, row = make_token(tenant=tenant, roles=roles, name=name, by="a test", now=now, life=timedelta(days=days))
        await self.store.insert_token(row)
        return token

    async def admin(self, tenant: str = ALL_TENANTS) -> httpx2.AsyncClient:
        """Return an admin client, of all tenants or of one."""
        return self.caller(await self.token(Role.ADMIN, tenant=tenant))

    @asynccontextmanager
    async def led(self) -> AsyncIterator[Leader]:
        """Run the engine as leader of the pool for as long as the block lasts."""
        await self.store.ensure_shard(POOL)
        async with self.engine.running():
            yield await self.engine.leader(POOL)

    async def close(self) -> None:
        """Close the store."""
        await self.store.close()


@cache
def _empty_store() -> bytes:
    """Return the file of a store that has its schema and nothing else: the migrations run once per process."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "store.db"

        async def make() -> None:
            await SqliteStore.open(path, clock=SystemClock()).close()

        # On a thread of its own: the first caller may be inside an event loop.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(make())).result()
        return path.read_bytes()


async def submit(caller: httpx2.AsyncClient, job: dict[str, object] = NOOP, **fields: object) -> RunView:
    """Submit a job and a run of it."""
    view = read(await caller.post("/api/v1/jobs", json=job), JobView)
    return read(await caller.post("/api/v1/runs", json={"job": view.name, **fields}), RunView)


async def running_task(
    harness: ApiHarness, caller: httpx2.AsyncClient, leader: Leader
) -> tuple[ScriptedWorker, TaskView]:
    """Start a task on a worker."""
    hand = await ScriptedWorker("w1", leader, "s1").welcome()
    await submit(caller)
    assignment = await hand.next_task()

    async def has_started() -> bool:
        task = await harness.store.find_task(assignment.task)
        return task is not None and task.started_at is not None

    await until(has_started)
    return hand, read(await caller.get(f"/api/v1/tasks/{assignment.task}"), TaskView)


async def until(condition: Callable[[], Any], *, within: float = 10.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(within):
        while not await condition():  # noqa: ASYNC110 - the store has no notifications
            await asyncio.sleep(0.01)


def read(response: httpx2.Response, kind: Any) -> Any:
    """Decode a successful response."""
    assert response.is_success, response.text
    return msgspec.json.decode(response.content, type=kind)


def problem(response: httpx2.Response, status: int) -> dict[str, Any]:
    """Return the problem in an error response."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["type"] == f"/docs/reference/errors#{body['code']}"
    return body


async def all_pages(caller: httpx2.AsyncClient, path: str, kind: Any, **params: str | int) -> AsyncIterator[list[Any]]:
    """Yield the pages of a list."""
    cursor = ""
    while True:
        page = read(await caller.get(path, params={**params, "cursor": cursor}), Page[kind])
        yield page.items
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


def pointers(body: dict[str, Any]) -> Iterable[str]:
    """Return the locations of a problem's faults."""
    return [fault["pointer"] for fault in body["errors"]]
