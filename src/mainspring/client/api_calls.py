# Generated from aio/api_calls.py by tools/sync_client.py: edit that file, then run `make client`.
"""Request primitives of the client: get, paged list, action. The API methods are in `client.py` and beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from mainspring import __version__
from mainspring.client.connection import Connection
from mainspring.client.responses import decode
from mainspring.client.server_urls import Parameters
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.ids import entropy, new_id
from mainspring.protocol.rest.runs import MAX_PAGE_SIZE, ActionRequest, ActionResult, Count, Page

DEFAULT_SERVER = "http://127.0.0.1:8484"
T = TypeVar("T")


class Calls:
    """A connection to a server, with credentials and tenant."""

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        tenant: str | None = None,
        timeout_seconds: float = 30.0,
        retry_timeout_seconds: float = 10.0,
        ca_cert: Path | str | None = None,
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        """Defaults come from MAINSPRING_SERVER_URL, MAINSPRING_API_KEY, MAINSPRING_TENANT and MAINSPRING_CA_CERT; an
        empty string overrides them with no value.

        `ca_cert` is a file with the CA certificate of the server, if the machine does not trust it.
        `certificate` is a client certificate: its file, and the file of its key.
        `retry_timeout_seconds` is the number of seconds during which idempotent requests are retried after a temporary
        error.
        """
        token = os.environ.get("MAINSPRING_API_KEY") if token is None else token
        headers = {"User-Agent": f"mainspring/{__version__}"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.tenant = (os.environ.get("MAINSPRING_TENANT") if tenant is None else tenant) or None
        self._connection = Connection(
            server or os.environ.get("MAINSPRING_SERVER_URL") or DEFAULT_SERVER,
            headers=headers,
            timeout_seconds=timeout_seconds,
            retry_timeout_seconds=retry_timeout_seconds,
            ca_cert=(os.environ.get("MAINSPRING_CA_CERT") if ca_cert is None else ca_cert) or None,
            certificate=certificate,
        )
        self._random = Random(entropy())

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._connection.url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _send(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: msgspec.Struct | bytes | None = None,
        *,
        params: Parameters | None = None,
        version: int | str | None = None,
        key: str | None = None,
        repeatable: bool | None = None,
    ) -> T:
        """Send a request, and decode the response. With `version`, only if the object still has that version."""
        answer = self._connection.request(
            method,
            path,
            params=params,
            body=msgspec.json.encode(body) if isinstance(body, msgspec.Struct) else body,
            headers=only_if(version),
            key=key,
            repeatable=repeatable,
        )
        return decode(answer, kind)

    def _get(self, path: str, kind: type[T], params: Parameters | None = None) -> T:
        return self._send("GET", path, kind, params=params)

    def _page(self, path: str, kind: type[T], params: Parameters | None = None, limit: int | None = None) -> list[T]:
        """Return the items of the first page."""
        asked = {**(params or {}), "limit": None if limit is None else min(limit, MAX_PAGE_SIZE)}
        page: Page[T] = self._get(path, Page[kind], asked)  # type: ignore[valid-type]
        return page.items

    def _list(self, path: str, kind: type[T], params: Parameters, limit: int | None) -> Iterator[T]:
        """Iterate over a paged list, at most `limit` items."""
        asked = {**params, "limit": min(limit or MAX_PAGE_SIZE, MAX_PAGE_SIZE), "cursor": None}
        left = limit
        while True:
            page: Page[T] = self._get(path, Page[kind], asked)  # type: ignore[valid-type]
            yield from page.items[:left]
            if left is not None:
                left -= len(page.items)
            if page.next_cursor is None or (left is not None and left <= 0):
                return
            if page.next_cursor == asked["cursor"]:
                raise Unavailable(f"{path}: the server returned the same page twice")
            asked["cursor"] = page.next_cursor

    def _all(self, path: str, kind: type[T]) -> list[T]:
        """Return all items of a short list."""
        return list(self._list(path, kind, {}, None))

    def _count(self, path: str, params: Parameters, *, exact: bool) -> Count:
        """Count the items of a list."""
        how = "exact" if exact else "bounded"
        page = self._get(path, Page[msgspec.Raw], {**params, "limit": 1, "count": how})
        return page.count or Count(value=len(page.items), at_least=page.next_cursor is not None)

    def _post_action(
        self, path: str, why: str, *, repeatable: bool = True, params: Parameters | None = None
    ) -> ActionResult:
        """Post an action; most actions are idempotent."""
        return self._post(path, ActionRequest(why=why), ActionResult, repeatable=repeatable, params=params)

    def _post(
        self,
        path: str,
        body: msgspec.Struct | None,
        kind: type[T],
        *,
        key: str | None = None,
        repeatable: bool | None = None,
        params: Parameters | None = None,
    ) -> T:
        return self._send("POST", path, kind, body, key=key, repeatable=repeatable, params=params)

    def _put(
        self,
        path: str,
        body: msgspec.Struct | bytes,
        kind: type[T],
        *,
        version: int | str | None = None,
        params: Parameters | None = None,
    ) -> T:
        """Replace an object. Retried only without a version, which the first request would have changed."""
        return self._send("PUT", path, kind, body, version=version, repeatable=version is None, params=params)

    def _delete(
        self, path: str, why: str = "", *, version: int | str | None = None, params: Parameters | None = None
    ) -> ActionResult:
        asked = {**(params or {}), "why": why or None}
        return self._send("DELETE", path, ActionResult, version=version, repeatable=True, params=asked)

    def _of_tenant(self, tenant: str | None = None) -> Parameters:
        """Return the parameter for a tenant (default: the client's)."""
        return {"tenant": tenant or self.tenant}

    def _draw_key(self) -> str:
        return new_id("key", self._connection.clock.wall(), self._random)


def only_if(version: int | str | None) -> Mapping[str, str]:
    """Return the If-Match header for a version."""
    return {} if version is None else {"If-Match": f'"{version}"'}


def batched(items: Iterable[T], size: Callable[[T], int], *, max_items: int, max_bytes: int) -> Iterator[list[T]]:
    """Split items into the bodies of requests."""
    batch: list[T] = []
    total = 0
    for item in items:
        own = size(item)
        if batch and (len(batch) >= max_items or total + own > max_bytes):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += own
    if batch:
        yield batch
