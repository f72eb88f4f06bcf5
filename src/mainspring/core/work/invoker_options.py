"""Invoker in one line: `--invoker`, and `[invoker]` of the project file (FLD-8).

command:llm -m gpt-4o-mini                         a program with its arguments, no shell
http://127.0.0.1:11434/v1/chat/completions#llama3  an endpoint, and its model
python:package.module:function
socket:/run/answers.sock
{"url": "https://..", "model": "..", "key": "env:OPENAI_API_KEY"}     all fields, as JSON
"""

from __future__ import annotations

import shlex

import msgspec

from mainspring.core.work.map_reduce import Invoker, faults_in_invoker
from mainspring.protocol.errors import Refused

FORMS = (
    "command:PROGRAM ARGUMENTS, http://HOST/v1/chat/completions#MODEL, python:PACKAGE.MODULE:FUNCTION, socket:/PATH, "
    'or a JSON object such as {"url": "https://..", "model": "..", "key": "env:OPENAI_API_KEY"}'
)


def parse_invoker(text: str) -> Invoker:
    """Parse an invoker. Raises Refused, which lists the forms."""
    try:
        invoker = _read(text.strip())
    except (msgspec.DecodeError, ValueError) as error:
        raise Refused(f"{_quoted(text)} is not an invoker: {error}. Use {FORMS}") from None
    faults = list(faults_in_invoker(invoker, "invoker"))
    if faults:
        raise Refused(f"{_quoted(text)} is not an invoker; use {FORMS}", faults)
    return invoker


def _read(text: str) -> Invoker:
    if text.startswith("{"):
        return msgspec.json.decode(text, type=Invoker)
    kind, _, rest = text.partition(":")
    match kind:
        case "command":
            return Invoker(command=tuple(shlex.split(rest)))
        case "http" | "https":
            url, _, model = text.partition("#")
            return Invoker(url=url, model=model or None)
        case "python":
            return Invoker(python=rest)
        case "socket":
            return Invoker(socket=rest)
        case _:
            raise ValueError("unknown prefix")


def _quoted(text: str) -> str:
    """Quote only the beginning: the text may contain an API key."""
    return repr(text[:20] + "…") if len(text) > 20 else repr(text)
