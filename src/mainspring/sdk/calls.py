"""How a client asks: one question, a list page by page, an act. What can be asked is in `client.py` and beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from random import Random
from types import TracebackType
from typing import Self, TypeVar

import httpx2
import msgspec

from mainspring import __version__
from mainspring.errors import Unavailable
from mainspring.ids import entropy, new_id
from mainspring.rest import LONGEST_PAGE, ActRequest, Done, Page
from mainspring.sdk.connection import Connection, Parameters

DEFAULT_SERVER = "http://127.0.0.1:8484"
T = TypeVar("T")


class Calls:
    """A connection to a server, and who speaks over it."""

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        tenant: str | None = None,
        timeout_seconds: float = 30.0,
        patience: float = 10.0,
    ) -> None:
        """What is not said comes from MAINSPRING_SERVER_URL, MAINSPRING_API_KEY and MAINSPRING_TENANT.

        `patience` is for how many seconds a request that is safe to repeat is repeated while the moment is wrong.
        """
        token = token or os.environ.get("MAINSPRING_API_KEY")
        headers = {"User-Agent": f"mainspring/{__version__}"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.tenant = tenant or os.environ.get("MAINSPRING_TENANT") or None
        self._connection = Connection(
            server or os.environ.get("MAINSPRING_SERVER_URL") or DEFAULT_SERVER,
            headers=headers,
            timeout_seconds=timeout_seconds,
            patience=patience,
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
        """Give the sockets back."""
        self._connection.close()

    def _get(self, path: str, kind: type[T], params: Parameters | None = None) -> T:
        return decode(self._connection.request("GET", path, params=params), kind)

    def _list(self, path: str, kind: type[T], params: Parameters, limit: int | None) -> Iterator[T]:
        """Things page by page, at most `limit` of them."""

        def pages() -> Iterator[T]:
            cursor: str | None = None
            while True:
                asked = {**params, "limit": min(limit or LONGEST_PAGE, LONGEST_PAGE), "cursor": cursor}
                page = decode(self._connection.request("GET", path, params=asked), Page[kind])  # type: ignore[valid-type]
                yield from page.items
                cursor = page.next_cursor
                if cursor is None:
                    return

        return islice(pages(), limit)

    def _act(self, path: str, why: str, *, repeatable: bool = True, params: Parameters | None = None) -> Done:
        """Have something done; most of it is safe to repeat, as doing it twice changes nothing."""
        return self._post(path, ActRequest(why=why), Done, repeatable=repeatable, params=params)

    def _post(
        self,
        path: str,
        body: msgspec.Struct,
        kind: type[T],
        *,
        method: str = "POST",
        key: str | None = None,
        repeatable: bool | None = None,
        params: Parameters | None = None,
    ) -> T:
        """Send a wish, and read the answer."""
        text = msgspec.json.encode(body)
        answer = self._connection.request(method, path, params=params, body=text, key=key, repeatable=repeatable)
        return decode(answer, kind)

    def _draw_key(self) -> str:
        return new_id("key", self._connection.clock.wall(), self._random)


def decode(answer: httpx2.Response, kind: type[T]) -> T:
    """An answer as a struct. Raises Unavailable if it is none of this version's."""
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(f"{answer.request.url} does not speak as a server of this version does: {error}") from error
