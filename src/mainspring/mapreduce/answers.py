"""From what an invoker said to the fields that were asked for.

An answer may think aloud, and wrap its JSON into a fence: the last JSON object in it that has all the fields counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from mainspring.core.expressions.engine import shorten
from mainspring.core.expressions.values import JsonValue
from mainspring.protocol.errors import TaskError

LONGEST_ANSWER = 4 * 1024 * 1024
"""In characters."""
_LOOKED_AT = 256 * 1024
"""Where objects are searched for in an answer that is not one as a whole: its end."""
_MOST_TRIES = 2_000
"""Braces that begin no object, before the search is given up."""
_DECODER = json.JSONDecoder()
_OBJECT = msgspec.json.Decoder(dict[str, object])

Answer = dict[str, JsonValue]


def read_answer(text: str, fields: Sequence[str]) -> JsonValue:
    """The answer as it is, without what surrounds it; an object with these fields, if there are any.

    Raises TaskError: who is asked again may answer better.
    """
    text = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode().strip()
    if len(text) > LONGEST_ANSWER:
        raise TaskError(f"an answer of {len(text)} characters: {LONGEST_ANSWER} are allowed", failure="transient")
    if not fields:
        return text
    for found in (_as_object(text), *reversed(list(_objects_in(text[-_LOOKED_AT:])))):
        if found is not None and all(name in found for name in fields):
            return {name: found[name] for name in fields}
    said = f"it said: {shorten(text)}" if text else "it said nothing"
    raise TaskError(f"no JSON object with {', '.join(fields)} in the answer; {said}", failure="transient")


def _objects_in(text: str) -> Iterator[Answer]:
    """The JSON objects in a text, in order; not those inside others."""
    position = tries = 0
    while (start := text.find("{", position)) >= 0 and tries < _MOST_TRIES:
        try:
            _, position = _DECODER.raw_decode(text, start)
        except ValueError:
            position, tries = start + 1, tries + 1
            continue
        except RecursionError:
            return  # Nobody means what nests a thousand deep, and each brace of it would be tried.
        found = _as_object(text[start:position])
        if found is not None:
            yield found


def _as_object(text: str) -> Answer | None:
    """The JSON object that a text is; None if it is none. A NUL, which no store takes, is replaced."""
    try:
        found: Answer = _OBJECT.decode(text.replace("\\u0000", "\\ufffd"))  # type: ignore[assignment]  # JSON values
    except (msgspec.DecodeError, RecursionError):
        return None
    return found
