"""Validation of map-reduce tasks (FLD-8)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.core.work.invoker_options import parse_invoker
from mainspring.core.work.map_reduce import Invoker
from mainspring.core.work.work import faults_in
from mainspring.protocol.errors import Refused

GOOD: dict[str, Any] = {
    "map": {"prompt": "Sort {{title}} of {{ item['the owner'] }}", "output": ["severity", "category"]},
    "input": {"from": {"type": "csv", "path": "data/bugs.csv"}},
}
INLINE = {"items": [{"queue": "high"}, {"queue": "low", "depth": 3}]}


def faults_of(**parts: object) -> dict[str, str]:
    """Return the faults of the good work once these parts are others: by path."""
    return {fault.where: fault.why for fault in faults_in(msgspec.json.encode({**GOOD, **parts}), "work")}


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"input": INLINE, "map": {"prompt": "{{queue}} {{depth|default(0)}} {{item.queue}} {{index}} {{params.day}}"}},
        {"input": {"items": []}, "map": {"prompt": "nothing is asked"}},
        {"input": {"from": {"type": "json", "path": "./a/b.json"}, "limit": 5}},
        {"reduce": {"type": "prompt", "prompt": "Sum up {{results}} of {{count}}, {{failed}}, {{params.x}}"}},
        {"invoker": {"url": "http://[::1]:11434/v1/chat?x=1", "model": "m", "key": "env:KEY"}},
        {"invoker": {"command": ["llm", "-m", "x"]}},
        {"invoker": {"python": "answers:say"}, "results": "out/results", "env": {"A": "{{ params.a }}"}},
    ],
)
def test_valid_definitions_have_no_faults(parts: dict[str, object]) -> None:
    """Each form that the guide shows."""
    assert faults_of(**parts) == {}


@pytest.mark.parametrize(
    ("parts", "where", "why"),
    [
        ({"input": {}}, ".input", "exactly one of from and items"),
        ({"input": {**INLINE, **GOOD["input"]}, "map": {"prompt": "x"}}, ".input", "exactly one of from and items"),
        (
            {"input": {"from": {"type": "csv", "path": "/etc/passwd"}}},
            ".input.from.path",
            "must be a relative path without ..",
        ),
        (
            {"input": {"from": {"type": "csv", "path": "a/../../b"}}},
            ".input.from.path",
            "must be a relative path without ..",
        ),
        ({"input": {"from": {"type": "csv", "path": ""}}}, ".input.from.path", "must be a relative path without .."),
        ({"input": {"from": {"type": "csv", "path": "a\0b"}}}, ".input.from.path", "NUL"),
        ({"input": {"from": {"type": "csv", "path": "a", "delimiter": "::"}}}, ".input.from.delimiter", "one char"),
        ({"input": {"from": {"type": "csv", "path": "a", "encoding": "utf-88"}}}, ".input.from.encoding", "utf-88"),
        ({"input": {"from": {"type": "csv", "path": "a", "encoding": "base64"}}}, ".input.from.encoding", "base64"),
        ({"input": {"from": {"type": "xml", "path": "a"}}}, ".input.from.type", "Invalid enum value"),
        ({"input": {**GOOD["input"], "limit": 0}}, ".input.limit", "from 1"),
        ({"map": {"prompt": " "}}, ".map.prompt", "is empty"),
        ({"map": {"prompt": "{% for x in y %}{% endfor %}"}}, ".map.prompt", "statements"),
        ({"map": {"prompt": "{{ title"}}, ".map.prompt", "not closed"),
        ({"map": {"prompt": "{{ range(10) }}"}}, ".map.prompt", "can't be called"),
        ({"map": {"prompt": "{{titel}}"}, "input": INLINE}, ".map.prompt", "uses undefined titel; available:"),
        ({"map": {"prompt": "x", "output": ["a b"]}}, ".map.output[0]", "letters, digits and underscores"),
        ({"map": {"prompt": "x", "output": ["a", "b", "a"]}}, ".map.output[2]", "duplicate field a"),
        ({"map": {"prompt": "x", "output": [f"f{n}" for n in range(101)]}}, ".map.output", "more than 100"),
        ({"map": {"prompt": "x", "concurrency": 0}}, ".map.concurrency", "from 1 to 64"),
        ({"map": {"prompt": "x", "concurrency": 65}}, ".map.concurrency", "from 1 to 64"),
        ({"map": {"prompt": "x", "attempts": 11}}, ".map.attempts", "from 1 to 10"),
        ({"map": {"prompt": "x", "retry_delay_seconds": -1}}, ".map.retry_delay_seconds", "from 0 to 600"),
        ({"map": {"prompt": "x", "timeout_seconds": 0}}, ".map.timeout_seconds", "to 3600"),
        ({"map": {"prompt": "x", "on_failure": "stop"}}, ".map.on_failure", "Invalid enum value"),
        ({"reduce": {"type": "prompt"}}, ".reduce.prompt", "is required"),
        ({"reduce": {"type": "json", "prompt": "x"}}, ".reduce.prompt", "requires the type prompt"),
        ({"reduce": {"type": "table", "output": ["x"]}}, ".reduce.output", "requires the type prompt"),
        ({"reduce": {"type": "prompt", "prompt": "{{title}}"}}, ".reduce.prompt", "uses undefined title"),
        ({"invoker": {}}, ".invoker", "exactly one of command, url, python, socket; it has none"),
        ({"invoker": {"command": ["x"], "socket": "/y"}}, ".invoker", "it has command and socket"),
        ({"invoker": {"command": []}}, ".invoker.command", "begin with a program"),
        ({"invoker": {"url": "ftp://x/y"}}, ".invoker.url", "http://"),
        ({"invoker": {"url": "http://"}}, ".invoker.url", "http://"),
        ({"invoker": {"url": "https://me:hunter2@x/y"}}, ".invoker.url", "user or password"),
        ({"invoker": {"url": "http://x", "key": "sk-123"}}, ".invoker.key", "never the key itself"),
        ({"invoker": {"command": ["x"], "model": "m"}}, ".invoker.model", "requires url"),
        ({"invoker": {"command": ["x"], "key": "env:K"}}, ".invoker.key", "requires url"),
        ({"invoker": {"python": "answers"}}, ".invoker.python", "package.module:function"),
        ({"invoker": {"socket": ""}}, ".invoker.socket", "Unix socket"),
        ({"results": "../elsewhere"}, ".results", "must be a relative path without .."),
        ({"mapp": {}}, "", "mapp"),
    ],
)
def test_faults_are_reported_with_their_path(parts: dict[str, object], where: str, why: str) -> None:
    """Only that, and nothing that is right."""
    [(found, reason)] = faults_of(**parts).items()
    assert (found, why in reason) == (f"work{where}", True), reason


def test_all_faults_are_reported_at_once() -> None:
    """A person mends a file once."""
    wrong = faults_of(map={"prompt": "", "attempts": 0}, reduce={"type": "prompt"}, results="/")
    assert sorted(wrong) == ["work.map.attempts", "work.map.prompt", "work.reduce.prompt", "work.results"]


@pytest.mark.parametrize(
    ("text", "invoker"),
    [
        ("command:llm -m 'a b'", Invoker(command=("llm", "-m", "a b"))),
        ("http://h:1/v1#m", Invoker(url="http://h:1/v1", model="m")),
        (" https://h/v1 ", Invoker(url="https://h/v1")),
        ("python:a.b:c", Invoker(python="a.b:c")),
        ("socket:/run/s", Invoker(socket="/run/s")),
        ('{"url": "http://h", "key": "env:K"}', Invoker(url="http://h", key="env:K")),
    ],
)
def test_an_invoker_can_be_given_in_one_line(text: str, invoker: Invoker) -> None:
    """`ms up --invoker`, `ms worker --invoker`."""
    assert parse_invoker(text) == invoker


@pytest.mark.parametrize(
    "text", ["", "llm", "command:", "command:'", "http://", "python:x", "socket:", "{", '{"command": "x"}', "{}"]
)
def test_an_invalid_invoker_is_refused_with_the_forms(text: str) -> None:
    """Not with a traceback."""
    with pytest.raises(Refused, match="command:PROGRAM"):
        parse_invoker(text)


def test_an_api_key_in_an_invoker_is_not_quoted() -> None:
    """Errors are shown, and stored."""
    with pytest.raises(Refused) as refused:
        parse_invoker('{"url": "https://h/v1", "key": "sk-hunter2hunter2"}')
    assert "hunter2" not in str(refused.value)
