"""Parse an invoker's response into the requested fields.

A response may contain reasoning, and fence its JSON: the last JSON object with all fields is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from mainspring.core.expressions.engine import shorten
from mainspring.core.expressions.values import JsonValue
from mainspring.protocol.errors import TaskError

MAX_ANSWER_LENGTH = 4 * 1024 * 1024
"""Characters."""
_SEARCHED_LENGTH = 256 * 1024
"""Length of the response's end that is searched for objects, if it is not an object as a whole."""
_MAX_TRIES = 2_000
"""Braces that start no object, before the search is abandoned."""
_DECODER = json.JSONDecoder()
_OBJECT = msgspec.json.Decoder(dict[str, object])

Answer = dict[str, JsonValue]


def read_answer(text: str, fields: Sequence[str]) -> JsonValue:
    """Return the answer without surrounding text; an object with these fields, if there are any.

    Raises TaskError, transient: another try may succeed.
    """
    text = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode().strip()
    if len(text) > MAX_ANSWER_LENGTH:
        raise TaskError(f"the answer has {len(text)} characters; the limit is {MAX_ANSWER_LENGTH}", failure="transient")
    if not fields:
        return text
    for found in (_as_object(text), *reversed(list(_objects_in(text[-_SEARCHED_LENGTH:])))):
        if found is not None and all(name in found for name in fields):
            return {name: found[name] for name in fields}
    detail = f"got: {shorten(text)}" if text else "the answer is empty"
    raise TaskError(f"no JSON object with {', '.join(fields)} in the answer; {detail}", failure="transient")


def _objects_in(text: str) -> Iterator[Answer]:
    """Yield the top-level JSON objects in a text, in order."""
    position = tries = 0
    while (start := text.find("{", position)) >= 0 and tries < _MAX_TRIES:
        try:
            _, position = _DECODER.raw_decode(text, start)
        except ValueError:
            position, tries = start + 1, tries + 1
            continue
        except RecursionError:
            return  # Nested a thousand deep: not an answer, and each of its braces would be tried.
        found = _as_object(text[start:position])
        if found is not None:
            yield found


def _as_object(text: str) -> Answer | None:
    """Return the text as a JSON object; None if it is none. NULs, which no store accepts, are replaced."""
    try:
        found: Answer = _OBJECT.decode(text.replace("\\u0000", "\\ufffd"))  # type: ignore[assignment]  # JSON values
    except (msgspec.DecodeError, RecursionError):
        return None
    return found
