"""HTTP tasks (WRK-3): definition, validation, and the request that is sent.

    {"http": {"url": "https://example.com/load", "method": "POST", "json": {"day": "{{ params.day }}"}}}

A secret of the task is `${NAME}` in a header or in the body. It is inserted after the templates are rendered, and only
where the job itself wrote it: `${NAME}` in a parameter is literal text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, TypeVar

import msgspec

from mainspring.core.expressions import engine as expressions
from mainspring.core.expressions.grammar import split_template
from mainspring.core.expressions.values import JsonValue
from mainspring.core.text.suggestions import did_you_mean
from mainspring.core.text.urls import MAX_URL_LENGTH, fault_of_url
from mainspring.protocol.errors import ExpressionFailed, Fault, Refused, faults_at

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MAX_TIMEOUT_SECONDS = 3_600.0
MAX_JSON_BYTES = 64 * 1024
MAX_HEADER_LENGTH = 8_192
MAX_HEADERS = 64
MAX_EXPECTED_STATUSES = 100
CONNECTION_HEADERS = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that belong to the connection, set by the HTTP client."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_UNSEEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_SECRET = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_NOTHING = msgspec.Raw()
T = TypeVar("T")

Check: TypeAlias = "Callable[[str], str | None]"
"""Validator of a template: returns its fault, or None."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One request. Strings are templates."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    """Values may be templates. `${NAME}` is replaced by the task's secret on the worker."""
    body: str | None = None
    json: msgspec.Raw = _NOTHING
    """Sent as JSON; strings in it are templates. A string that is a single expression is replaced by its value."""
    expect: tuple[int, ...] = ()
    """Statuses that are a success, besides 2xx."""
    timeout_seconds: float = 60.0


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request with all values inserted."""

    method: str
    url: str
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes


def faults_in(request: HttpRequest, where: str, check: Check, secrets: Mapping[str, str]) -> Iterator[Fault]:
    """Yield the faults in a request that can be found before its templates are rendered."""
    yield from faults_at(f"{where}.url", _fault_of_url_template(request.url) or check(request.url))
    if request.method not in METHODS:
        hint = did_you_mean(request.method.upper(), METHODS)
        yield Fault(f"{where}.method", f"must be one of {', '.join(METHODS)}{hint}")
    yield from _faults_of_headers(request.headers, f"{where}.headers", check, secrets)
    if request.body is not None and request.json != _NOTHING:
        yield Fault(f"{where}.json", "can't be combined with body")
    if request.body is not None:
        yield from _faults_of_text(request.body, f"{where}.body", check, secrets)
    if request.json != _NOTHING:
        if len(bytes(request.json)) > MAX_JSON_BYTES:
            yield Fault(f"{where}.json", f"has more than {MAX_JSON_BYTES} bytes")
        for text in _texts_in(msgspec.json.decode(request.json)):
            yield from _faults_of_text(text, f"{where}.json", check, secrets)
    if len(request.expect) > MAX_EXPECTED_STATUSES or not all(100 <= status <= 599 for status in request.expect):
        yield Fault(f"{where}.expect", "must be HTTP statuses from 100 to 599")
    if not 0 < request.timeout_seconds <= MAX_TIMEOUT_SECONDS:
        yield Fault(f"{where}.timeout_seconds", f"must be more than 0 and at most {MAX_TIMEOUT_SECONDS:.0f}")


def prepare(
    request: HttpRequest, values: expressions.Values, secrets: Mapping[str, str], nonce: str
) -> PreparedRequest:
    """Insert values and secrets. Raises ExpressionFailed, or Refused if the request is invalid.

    `nonce` marks the secrets while values are rendered: letters that no value contains by chance.
    """
    filler = _Filler(values, secrets, nonce)
    url = filler.text("http.url", request.url)
    if (why := fault_of_url(url)) is not None:
        raise Refused(f"http.url {why}")
    headers = {name.lower(): filler.text(f"http.headers.{name}", text) for name, text in request.headers.items()}
    for name, text in headers.items():
        if (why := _fault_in_header(text)) is not None:
            raise Refused(f"http.headers.{name} {why}")
    body = b""
    if request.body is not None:
        body = filler.text("http.body", request.body).encode()
        headers.setdefault("content-type", "text/plain; charset=utf-8")
    elif request.json != _NOTHING:
        body = msgspec.json.encode(filler.value("http.json", msgspec.json.decode(request.json)))
        headers.setdefault("content-type", "application/json")
    return PreparedRequest(method=request.method, url=url, headers=headers, body=body)


class _Filler:
    """Renders templates, then inserts secrets."""

    def __init__(self, values: expressions.Values, secrets: Mapping[str, str], nonce: str) -> None:
        self._values = values
        self._secrets = secrets
        self._nonce = nonce
        self._hidden = re.compile(f"{re.escape(nonce)}(\\w+?){re.escape(nonce)}")

    def text(self, where: str, template: str) -> str:
        return self._shown(_at(where, lambda: expressions.render(self._without(template), self._values)))

    def value(self, where: str, value: JsonValue) -> JsonValue:
        match value:
            case str() if "{{" in value and len(pieces := split_template(value)[0]) == 1 and pieces[0].is_expression:
                return _at(where, lambda: expressions.evaluate(pieces[0].text, self._values))
            case str():
                return self.text(where, value)
            case list():
                return [self.value(where, one) for one in value]
            case dict():
                return {key: self.value(where, one) for key, one in value.items()}
            case _:
                return value

    def _without(self, template: str) -> str:
        """Replace each secret by a marker."""
        return _SECRET.sub(
            lambda found: f"{self._nonce}{found[1]}{self._nonce}" if found[1] in self._secrets else found[0], template
        )

    def _shown(self, text: str) -> str:
        return self._hidden.sub(lambda found: self._secrets[found[1]], text) if self._nonce in text else text


def _at(where: str, fill: Callable[[], T]) -> T:
    try:
        return fill()
    except ExpressionFailed as error:
        raise ExpressionFailed(f"{where}: {error}") from None


def _fault_of_url_template(url: str) -> str | None:
    if not url:
        return "is empty"
    if _SECRET.search(url):
        return "must not contain a secret: use a header or the body"
    if "{{" not in url:
        return fault_of_url(url)
    if len(url) > MAX_URL_LENGTH:
        return f"must be at most {MAX_URL_LENGTH} plain characters"
    return None if url.startswith("{{") or _SCHEME.match(url) else "must begin with https:// or http://"


def _faults_of_headers(
    headers: Mapping[str, str], where: str, check: Check, secrets: Mapping[str, str]
) -> Iterator[Fault]:
    if len(headers) > MAX_HEADERS:
        yield Fault(where, f"has more than {MAX_HEADERS} headers")
        return
    if len({name.lower() for name in headers}) < len(headers):
        yield Fault(where, "has a name twice, in different case")
    for name, text in headers.items():
        place = f"{where}.{name[:40]}"
        if not _HEADER.fullmatch(name):
            yield Fault(place, "is not a header name")
        elif name.lower() in CONNECTION_HEADERS or name.lower().startswith("proxy-"):
            yield Fault(place, "must be omitted: it is set by the HTTP client")
        elif (why := _fault_in_header(text)) is not None:
            yield Fault(place, why)
        else:
            yield from _faults_of_text(text, place, check, secrets)


def _fault_in_header(text: str) -> str | None:
    if _UNSEEN.search(text):
        return "must be one line of printable characters"
    return f"has more than {MAX_HEADER_LENGTH} characters" if len(text) > MAX_HEADER_LENGTH else None


def _faults_of_text(text: str, where: str, check: Check, secrets: Mapping[str, str]) -> Iterator[Fault]:
    yield from faults_at(where, check(text))
    for name in sorted({name for name in _SECRET.findall(text) if name not in secrets}):
        hint = did_you_mean(name, secrets) or ": declare it in secrets"
        yield Fault(where, f"has ${{{name}}}, which is not a secret of the task{hint}")


def _texts_in(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for one in value:
                yield from _texts_in(one)
        case dict():
            for one in value.values():
                yield from _texts_in(one)
        case _:
            pass
