"""A line of a crontab as a `pipeline.yaml` that does the same (FLD-10).

What cron does, and a pipeline by itself does not, is written into the file: the command runs in the home directory, is
not tried again, is not made up for if the machine was off, is started however often it failed, and also while the one
before still runs.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping

import msgspec

from mainspring.core.work.work import RESERVED
from mainspring.definitions.crontab.command_names import name_of
from mainspring.definitions.crontab.crontab import Crontab, Entry

MOST_AT_ONCE = 10
"""cron has no limit, and machines have one."""
_SHELL = "/bin/sh"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_TEMPLATE = re.compile(r"\{[{%#]")
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9/_-]*")
_CONSTANTS = frozenset({"true", "false", "null", "yes", "no", "on", "off"})


class ImportedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line, and the pipeline that it becomes."""

    line: int
    schedule: str
    name: str
    """Of the pipeline, and of its directory."""
    text: str
    """Of its `pipeline.yaml`."""
    is_enabled: bool
    notes: tuple[str, ...] = ()
    """What is not as it was."""


def pipelines_of(crontab: Crontab, *, file: str, user: str) -> list[ImportedLine]:
    """Each line as a pipeline, for a scheduler that this user runs. Lines for others are switched off."""
    taken: set[str] = set()
    return [_pipeline_of(entry, name_of(entry.command, taken), file, user) for entry in crontab.entries]


def _pipeline_of(entry: Entry, name: str, file: str, user: str) -> ImportedLine:
    is_ours = entry.user in {None, user}
    notes = list(_notes(entry, is_ours=is_ours))
    return ImportedLine(
        line=entry.line,
        schedule=entry.schedule,
        name=name,
        text="\n".join([*_lines(entry, name, file, is_ours=is_ours), ""]),
        is_enabled=is_ours,
        notes=tuple(notes),
    )


def _lines(entry: Entry, name: str, file: str, *, is_ours: bool) -> Iterator[str]:
    """The lines of the file."""
    yield f"# From line {entry.line} of {_visible(file)}."
    yield f"name: {_scalar(name)}"
    if entry.description:
        yield f"description: {_scalar(entry.description)}"
    yield "schedule:"
    yield f"  cron: {_quoted(entry.schedule)}"
    if entry.timezone is not None:
        yield f"  timezone: {_scalar(entry.timezone)}"
    if not is_ours:
        yield f"  enabled: false  # it is for the user {entry.user}"
    yield "  missedExecution: skip  # cron makes up for nothing"
    yield "  max_failures: never  # and never gives up"
    yield f"concurrency: {{max: {MOST_AT_ONCE}, when_busy: skip}}  # cron starts the next while one still runs"
    yield "tasks:"
    yield "  - id: command"
    yield "    retries: 0  # cron tries nothing again"
    variables = _variables(entry.environment)
    if variables:
        yield "    env:"
        for key, value in variables.items():
            yield f"      {_scalar(key)}: {_scalar(_literal(value))}"
    yield from _shell(entry)


def _notes(entry: Entry, *, is_ours: bool) -> Iterator[str]:
    """What whoever reads the table should know of a line."""
    if not is_ours:
        yield f"it is for the user {entry.user}"
    if "TZ" in entry.environment and entry.timezone is None:
        yield "TZ is for the command; the schedule is in this machine's zone"
    for name in sorted(set(entry.environment) - set(_variables(entry.environment))):
        yield f"{_visible(name)} is no name for a variable: left out"


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if _VARIABLE.fullmatch(name) and not name.startswith(RESERVED)
    }


def _shell(entry: Entry) -> Iterator[str]:
    """What the task does, as lines of the file."""
    text = "\n".join(["cd  # to the home directory, as cron does", *_script(entry)])
    lines = text.split("\n")
    if not all(line.replace("\t", "").isprintable() for line in lines):
        yield f"    shell: {_quoted(text)}"
        return
    yield "    shell: |"
    yield from (f"      {line}" if line else "" for line in lines)


def _script(entry: Entry) -> Iterator[str]:
    """The command by the shell that is meant, with what it gets to read."""
    shell = entry.environment.get("SHELL") or _SHELL
    command = entry.command if shell == _SHELL else f"{shlex.quote(shell)} -c {shlex.quote(entry.command)}"
    if entry.stdin is None:
        yield from command.split("\n")
        return
    end = _end_mark(entry.stdin.split("\n"))
    yield "{"
    yield from command.split("\n")
    yield f"}} <<'{end}'"
    yield from entry.stdin.removesuffix("\n").split("\n")
    yield end


def _end_mark(lines: Collection[str]) -> str:
    """A word that ends the input, and is no line of it."""
    mark = "INPUT"
    while mark in lines:
        mark += "_"
    return mark


def _literal(value: str) -> str:
    """A value that is rendered as a template and stays what it is."""
    return _TEMPLATE.sub(lambda found: f"{{{{ '{found[0]}' }}}}", value)


def _scalar(text: str) -> str:
    """A text in YAML: bare if nobody could take it for something else."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _CONSTANTS else _quoted(text)


def _quoted(text: str) -> str:
    """A text in double quotes, on one line, with nothing in it that YAML would not take."""
    shown = json.dumps(text, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in shown)


def _visible(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
