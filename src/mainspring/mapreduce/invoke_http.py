"""Invoker endpoint in the OpenAI chat format: `{model, messages}` in, `choices[0].message.content` out.

429, 5xx and connection errors are retryable, after `Retry-After` if given; other rejections are permanent. The key
appears in no error, even if the server quotes it.
"""

from __future__ import annotations

import httpx2
import msgspec

from mainspring.core.expressions.engine import shorten
from mainspring.egress.bounded_body import read_bounded
from mainspring.egress.retry_after import failure_of_status
from mainspring.mapreduce.answers import MAX_ANSWER_LENGTH
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import MainspringError, Refused, TaskError
from mainspring.protocol.trust import tls_context

_PERMANENT_CODES = frozenset({401, 404, 405})
"""A wrong key or address: permanent for every prompt."""
_OK = 200
_MASK = "••••"
_MAX_BYTES = 2 * MAX_ANSWER_LENGTH


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message


class _Answer(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...]


class ChatInvoker:
    """Posts each prompt as the only message of a conversation."""

    def __init__(self, url: str, model: str | None, key: str | None, clock: Clock) -> None:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._url = url
        self._model = model
        self._key = key
        self._clock = clock
        # The caller sets the timeout. Proxies are taken from the task's environment.
        verify = tls_context(url.partition(":")[0])
        self._client = httpx2.AsyncClient(headers=headers, timeout=None, follow_redirects=False, verify=verify)

    async def ask(self, prompt: str) -> str:
        """Return the answer. Raises Refused if the key or the address is wrong."""
        document: dict[str, object] = {"messages": [{"role": "user", "content": prompt}]}
        if self._model is not None:
            document = {"model": self._model, **document}
        try:
            async with self._client.stream("POST", self._url, json=document) as response:
                content, is_complete = await read_bounded(response.aiter_bytes(), _MAX_BYTES)
        except (httpx2.HTTPError, OSError) as error:
            why = self._without_key(str(error)) or type(error).__name__
            raise TaskError(f"cannot reach invoker {self._url}: {why}", failure="transient") from None
        if not is_complete:
            raise TaskError(f"the invoker's response exceeds {_MAX_BYTES} bytes", failure="transient")
        if response.status_code != _OK:
            raise self._refused(response, content)
        try:
            choice = msgspec.json.decode(content, type=_Answer).choices[0]
        except (msgspec.DecodeError, IndexError):
            excerpt = self._without_key(content.decode(errors="replace"))
            message = f"invoker {self._url} returned an unexpected format: {excerpt}"
            raise TaskError(message, failure="transient") from None
        return choice.message.content or ""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _refused(self, response: httpx2.Response, content: bytes) -> MainspringError:
        code = response.status_code
        excerpt = self._without_key(content.decode(errors="replace"))
        message = f"invoker {self._url} returned {code}" + (f": {excerpt}" if excerpt else "")
        if code in _PERMANENT_CODES:
            return Refused(message)
        failure, wait = failure_of_status(code, response.headers.get("retry-after", ""), self._clock.wall())
        return TaskError(message, failure=failure, retry_after_seconds=wait)

    def _without_key(self, text: str) -> str:
        return shorten(text.replace(self._key, _MASK) if self._key else text)
