"""Prompts: data is never parsed as a template."""

from __future__ import annotations

import json

import pytest

from mainspring.core.expressions.values import JsonValue
from mainspring.mapreduce.answers import read_answer
from mainspring.mapreduce.prompts import MAX_PROMPT_LENGTH, Prompt
from mainspring.protocol.errors import TaskError

ITEM: dict[str, JsonValue] = {
    "title": "It {{ crashes }} {% for x in y %}",
    "n": 3,
    "tags": ["a", "b"],
    "self": "me",
    "index": "own",
}
VALUES: dict[str, JsonValue] = {**ITEM, "item": ITEM, "index": 7, "params": {"day": "monday"}}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("Bug: {{title}}!", "Bug: It {{ crashes }} {% for x in y %}!"),
        ("{{ title|upper }}", "IT {{ CRASHES }} {% FOR X IN Y %}"),
        ("{{n}} {{ n + 1 }} {{ tags }} {{ tags|join('+') }}", '3 4 ["a","b"] a+b'),
        ("{{index}} {{item.index}} {{ item['self'] }} {{params.day}}", "7 own me monday"),
        ("{{ missing|default('none') }} {{ true }}", "none true"),
        ("no field at all", "no field at all"),
    ],
)
def test_a_prompt_is_rendered_in_one_pass(template: str, text: str) -> None:
    """Template syntax in a value is inserted as text."""
    assert Prompt(template, ()).render(VALUES) == text


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{titles}}", "titles, did you mean title?"),
        ("{{xyz}}", "index, item, n, params, tags, title"),
        ("{{ titel|upper }}", "in {{ titel|upper }}: "),
        ("{{ item.titel }}", "titel"),
        ("{{ n.x.y }}", "prompt: in {{ n.x.y }}"),
        ("{{ title + 1 }}", "prompt: in"),
    ],
)
def test_a_value_that_does_not_fit_is_a_permanent_failure(template: str, why: str) -> None:
    """A retry would see the same value."""
    with pytest.raises(TaskError) as failed:
        Prompt(template, ()).render(VALUES)
    assert why in str(failed.value)
    assert failed.value.failure == "permanent"


def test_a_bare_name_inserts_its_whole_value_up_to_a_limit() -> None:
    """Beyond the size limit of expressions."""
    assert Prompt("{{text}}", ()).render({"text": "x" * 200_000}) == "x" * 200_000
    with pytest.raises(TaskError, match=str(MAX_PROMPT_LENGTH)) as failed:
        Prompt("{{text}}{{text}}", ()).render({"text": "x" * (MAX_PROMPT_LENGTH // 2 + 1)})
    assert failed.value.failure == "permanent"


def test_the_answer_format_follows_the_prompt_and_can_be_parsed() -> None:
    """An invoker that echoes the prompt returns the placeholders."""
    data = 'a { brace, {"severity": "high"} and {"severity": 1, "category": 2}'
    echoed = Prompt("Sort {{text}}", ("severity", "category")).render({"text": data})
    assert echoed.startswith(f"Sort {data}\n\n")
    assert json.loads(echoed.splitlines()[-1]) == {"severity": "<severity>", "category": "<category>"}
    assert read_answer(echoed, ("severity", "category")) == {"severity": "<severity>", "category": "<category>"}
