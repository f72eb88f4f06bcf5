"""An endpoint in the OpenAI chat format: `{model, messages}` in, `choices[0].message.content` out.

A server that is busy (429) or not well (5xx, no answer) may be better later, and may say when (`Retry-After`); what it
refuses for another reason, it refuses again. The key is in no error, also if the server quotes it.
"""

from __future__ import annotations

import httpx2
import msgspec

from mainspring.core.expressions.engine import shorten
from mainspring.egress.retry_after import seconds_in
from mainspring.mapreduce.answers import LONGEST_ANSWER
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import MainspringError, Refused, TaskError

_TOO_MANY_REQUESTS = 429
_REQUEST_TIMEOUT, _TOO_EARLY = 408, 425
_MISTAKES = frozenset({401, 404, 405})
"""A wrong key, a wrong address: so it is for every prompt."""
_SERVER_ERROR = 500
_OK = 200
_MASK = "••••"
_LARGEST_BYTES = 2 * LONGEST_ANSWER


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message


class _Answer(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...]


class Chat:
    """Posts each prompt as the one message of a conversation."""

    def __init__(self, url: str, model: str | None, key: str | None, clock: Clock) -> None:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._url = url
        self._model = model
        self._key = key
        self._clock = clock
        # Whoever asks says how long it may take. Proxies are those of the environment of the task.
        # Certificates take 50 ms to load: only who needs them does.
        verify = url.startswith("https:")
        self._client = httpx2.AsyncClient(headers=headers, timeout=None, follow_redirects=False, verify=verify)

    async def ask(self, prompt: str) -> str:
        """The answer to the prompt. Raises Refused if the key or the address is wrong."""
        document: dict[str, object] = {"messages": [{"role": "user", "content": prompt}]}
        if self._model is not None:
            document = {"model": self._model, **document}
        try:
            async with self._client.stream("POST", self._url, json=document) as response:
                content = await _content_of(response)
        except (httpx2.HTTPError, OSError) as error:
            why = self._without_key(str(error)) or type(error).__name__
            raise TaskError(f"the invoker {self._url} can't be reached: {why}", failure="transient") from None
        if response.status_code != _OK:
            raise self._refused(response, content)
        try:
            choice = msgspec.json.decode(content, type=_Answer).choices[0]
        except (msgspec.DecodeError, IndexError):
            said = self._without_key(content.decode(errors="replace"))
            message = f"the invoker {self._url} answered something else than the chat format: {said}"
            raise TaskError(message, failure="transient") from None
        return choice.message.content or ""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _refused(self, response: httpx2.Response, content: bytes) -> MainspringError:
        code = response.status_code
        said = self._without_key(content.decode(errors="replace"))
        message = f"the invoker {self._url} answered {code}" + (f": {said}" if said else "")
        wait = seconds_in(response.headers.get("retry-after", ""), self._clock.wall())
        if code == _TOO_MANY_REQUESTS:
            return TaskError(message, failure="rate_limited", retry_after_seconds=wait)
        if code >= _SERVER_ERROR or code in (_REQUEST_TIMEOUT, _TOO_EARLY):
            return TaskError(message, failure="transient", retry_after_seconds=wait)
        return Refused(message) if code in _MISTAKES else TaskError(message, failure="permanent")

    def _without_key(self, text: str) -> str:
        return shorten(text.replace(self._key, _MASK) if self._key else text)


async def _content_of(response: httpx2.Response) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > _LARGEST_BYTES:
            raise TaskError(f"the invoker answers more than {_LARGEST_BYTES} bytes", failure="transient")
        pieces.append(piece)
    return b"".join(pieces)
