"""Parse incoming CloudEvents 1.0 (TRG-7).

| mode | Content-Type | body |
|---|---|---|
| structured | `application/cloudevents+json` | one event |
| batch | `application/cloudevents-batch+json` | a list of events |
| either | `application/json`, or none | one event, or a list of them |
| binary | anything, with `ce-id`, `ce-source`, `ce-type` as headers | the data of the event |

1. The stored event is its JSON as received, including extension attributes; binary events are converted to it.
2. All faults are reported, with the index of the event in a list.
3. All limits are defined here: size of an event, size of a request, events per request.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from urllib.parse import unquote

import msgspec

from mainspring.api.http.routing import JSON
from mainspring.core.admission.validate_job import Faults
from mainspring.core.text import strict_json
from mainspring.protocol.errors import Refused, TooLarge
from mainspring.store.ports.schedules import EventRow

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
MAX_EVENT_BYTES = 256 * 1024
MAX_REQUEST_BYTES = 8 * 1024 * 1024
MAX_EVENTS = 1_000
MAX_ATTRIBUTE_BYTES = 1_024
"""Limit of identifying attributes, which are keys in the store."""

_VERSION = "1.0"
_HEADER = "ce-"
_REQUIRED = ("id", "source", "type")
_TEXTS = (*_REQUIRED, "subject", "datacontenttype", "dataschema", "data_base64")


def read_events(headers: Mapping[str, str], body: bytes, *, tenant: str, now: datetime) -> list[EventRow]:
    """Parse the events of a request. An event without a time gets the current one.

    Raises Refused with all faults, or TooLarge.
    """
    media_type = headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if media_type in {STRUCTURED, BATCH}:
        texts = _split(body, is_batch=media_type == BATCH)
    elif f"{_HEADER}specversion" in headers or f"{_HEADER}id" in headers:
        texts = [_from_binary(headers, body)]
    elif media_type == JSON:
        texts = _split(body, is_batch=None)
    else:
        raise Refused(f"{media_type[:100]!a} is not supported: use {STRUCTURED}, {BATCH}, {JSON}, or {_HEADER} headers")
    if len(texts) > MAX_EVENTS:
        raise TooLarge(f"the request has {len(texts)} events, at most {MAX_EVENTS} are allowed")
    faults = Faults()
    rows = []
    for number, text in enumerate(texts):
        if len(text) > MAX_EVENT_BYTES:
            raise TooLarge(f"event {number} has {len(text)} bytes, at most {MAX_EVENT_BYTES} are allowed")
        row = _read(text, f"[{number}]" if len(texts) > 1 else "", tenant, now, faults)
        if row is not None:
            rows.append(row)
    faults.refuse("the events have")
    return rows


def _split(body: bytes, *, is_batch: bool | None) -> Sequence[bytes]:
    """Return the JSON text of each event of a body; `is_batch`: whether it must be a list, None for either."""
    is_list = body.lstrip()[:1] == b"["
    if is_batch is not None and is_list is not is_batch:
        raise Refused(f"the body must be {'a list of events' if is_batch else 'one event, an object'}")
    if not is_list:
        return [body]
    try:
        return [bytes(one) for one in msgspec.json.decode(body, type=list[msgspec.Raw])]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        _, found = strict_json.Reader().read(body.decode("utf-8", "replace"), "")
        raise Refused("the body is not a list of events", found) from None


def _from_binary(headers: Mapping[str, str], body: bytes) -> bytes:
    """Build the event of a request in binary mode: attributes from headers, data from the body."""
    event: dict[str, object] = {
        name.removeprefix(_HEADER): unquote(value)
        for name, value in headers.items()
        if name.startswith(_HEADER) and name != _HEADER
    }
    content_type = headers.get("content-type", "")
    if content_type:
        event["datacontenttype"] = content_type
    if body:
        media_type = content_type.partition(";")[0].strip().lower()
        if media_type in {"", JSON} or media_type.endswith("+json"):
            event["data"] = msgspec.Raw(_checked_json(body))
        elif media_type.startswith("text/"):
            event["data"] = body.decode("utf-8", "replace")
        else:
            event["data_base64"] = base64.b64encode(body).decode()
    return msgspec.json.encode(event)


def _checked_json(body: bytes) -> bytes:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"the body is not JSON, contrary to its Content-Type: {error}") from None
    return body


def _read(text: bytes, where: str, tenant: str, now: datetime, faults: Faults) -> EventRow | None:
    """Parse one event; None if it has faults."""
    before = faults.total()
    try:
        event, found = strict_json.Reader().read(text.decode(), where)
    except UnicodeDecodeError as error:
        faults.add(where, f"is not UTF-8 (byte {error.start})")
        return None
    faults.extend(found)
    if found:
        return None
    if not isinstance(event, dict):
        faults.add(where, "must be an object")
        return None
    at = _check(event, where, now, faults)
    if faults.total() > before:
        return None
    return EventRow(
        tenant=tenant,
        source=str(event["source"]),
        id=str(event["id"]),
        type=str(event["type"]),
        subject=str(event.get("subject", "")),
        at=at,
        received_at=now,
        document=text.decode(),
    )


def _check(event: Mapping[str, strict_json.Read], where: str, now: datetime, faults: Faults) -> datetime:
    """Collect the faults of an event's attributes; return its time."""

    def add(name: str, why: str) -> None:
        faults.add(strict_json.path_to(where, name), why)

    if event.get("specversion") != _VERSION:
        add("specversion", "is missing" if "specversion" not in event else f'must be "{_VERSION}"')
    for name in _REQUIRED:
        if name not in event:
            add(name, "is missing")
    for name in _TEXTS:
        value = event.get(name, "-")
        if not isinstance(value, str):
            add(name, "must be a string")
        elif name in _REQUIRED and not 1 <= len(value.encode()) <= MAX_ATTRIBUTE_BYTES:
            add(name, f"must have 1 to {MAX_ATTRIBUTE_BYTES} bytes")
        elif name == "subject" and len(value.encode()) > MAX_ATTRIBUTE_BYTES:
            add(name, f"must have at most {MAX_ATTRIBUTE_BYTES} bytes")
    if "data" in event and "data_base64" in event:
        add("data_base64", "excludes data")
    for name in event:
        if not (name.isascii() and name.isalnum() and name == name.lower()) and name != "data_base64":
            add(name, "is not a valid attribute name: use lower case letters and digits")
    try:
        at = msgspec.convert(event.get("time", now), datetime)
    except msgspec.ValidationError:
        add("time", "must be an RFC 3339 time")
        return now
    if at.tzinfo is None:
        add("time", "must have a time zone")
    return at
