"""Commands in docs and unit files exist, with the options shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import rich_click as click

from mainspring.cli.commands.local.commands import walk
from mainspring.cli.main import main
from tests.docs.test_links import PAGES, PROJECT, prose

TREE = {"": main, **dict(walk(click.Context(main)))}
UNITS = sorted((PROJECT / "deploy" / "systemd").glob("*.service"))
ALIASES = {"ls": "jobs", "list": "jobs"}

_BLOCK = re.compile(r"^```(?:console|sh|)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TYPED = re.compile(r"^(?:[$#] +)?(?:[A-Z_]+=\S+ )*(?:mainspring|ms) +(.+)$", re.MULTILINE)
_SAID = re.compile(r"`(?:mainspring|ms) ([a-z][^`]*)`")
_STARTED = re.compile(r"^ExecStart=\S+/mainspring (.+)$", re.MULTILINE)


def typed(page: Path) -> list[str]:
    """The commands in code blocks and sentences of a page, without the program name."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    return [*(line for block in _BLOCK.findall(text) for line in _TYPED.findall(block)), *_SAID.findall(prose(page))]


def unknown(line: str) -> Iterator[str]:
    """The faults of a command line: unknown commands and unknown options."""
    words = shlex.split(re.split(r" [|>] | *#", line)[0])
    words[0] = ALIASES.get(words[0], words[0])
    path = words[0] if words[0] in TREE else ""
    if path and " ".join(words[:2]) in TREE:
        path = " ".join(words[:2])
    if not path and not words[0].startswith("-"):
        yield words[0]
    known = {"-h", "--help", *(flag for option in TREE[path].params for flag in (*option.opts, *option.secondary_opts))}
    yield from (word for word in words if re.match(r"--[a-z]|-[a-z]$", word) and word.partition("=")[0] not in known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_command_on_a_page_exists_with_its_options(page: Path) -> None:
    wrong = {line: found for line in typed(page) if (found := list(unknown(line)))}

    assert wrong == {}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_every_unit_starts_an_existing_command(unit: Path) -> None:
    (line,) = _STARTED.findall(unit.read_text(encoding="utf-8"))

    assert list(unknown(line)) == []


def test_an_unknown_command_is_found() -> None:
    assert list(unknown("submit day.yaml -p day=1 --wait  # and wait")) == []
    assert list(unknown("audit verify --against heads.json")) == []
    assert list(unknown("submit day.yaml --wiat")) == ["--wiat"]
    assert list(unknown("sbumit day.yaml")) == ["sbumit"]
