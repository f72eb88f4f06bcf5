"""Convert crontab lines to `pipeline.yaml` files (FLD-10).

Cron's behavior that differs from a pipeline's defaults is written to the file: the command runs in the home directory,
is not retried, missed runs are not made up for, failures never disable it, and runs may overlap.
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

MAX_CONCURRENT_RUNS = 10
"""cron has no limit, but machines have."""
_SHELL = "/bin/sh"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_TEMPLATE = re.compile(r"\{[{%#]")
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9/_-]*")
_CONSTANTS = frozenset({"true", "false", "null", "yes", "no", "on", "off"})


class ImportedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A crontab line, and its pipeline."""

    line: int
    schedule: str
    name: str
    """Name of the pipeline and its directory."""
    text: str
    """Content of its `pipeline.yaml`."""
    is_enabled: bool
    notes: tuple[str, ...] = ()
    """Differences in behavior."""


def pipelines_of(crontab: Crontab, *, file: str, user: str) -> list[ImportedLine]:
    """Convert each line, for a scheduler of this user. Lines of other users are disabled."""
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
    """Yield the lines of the file."""
    yield f"# From line {entry.line} of {_visible(file)}."
    yield f"name: {_scalar(name)}"
    if entry.description:
        yield f"description: {_scalar(entry.description)}"
    yield "schedule:"
    yield f"  cron: {_quoted(entry.schedule)}"
    if entry.timezone is not None:
        yield f"  timezone: {_scalar(entry.timezone)}"
    if not is_ours:
        yield f"  enabled: false  # for user {entry.user}"
    yield "  missedExecution: skip  # cron has no catch-up"
    yield "  max_failures: never  # cron does not disable jobs"
    yield f"concurrency: {{max: {MAX_CONCURRENT_RUNS}, when_busy: skip}}  # cron allows overlapping runs"
    yield "tasks:"
    yield "  - id: command"
    yield "    retries: 0  # cron does not retry"
    variables = _variables(entry.environment)
    if variables:
        yield "    env:"
        for key, value in variables.items():
            yield f"      {_scalar(key)}: {_scalar(_literal(value))}"
    yield from _shell(entry)


def _notes(entry: Entry, *, is_ours: bool) -> Iterator[str]:
    """Yield the differences in behavior."""
    if not is_ours:
        yield f"for user {entry.user}"
    if "TZ" in entry.environment and entry.timezone is None:
        yield "TZ applies to the command only; the schedule uses this machine's zone"
    for name in sorted(set(entry.environment) - set(_variables(entry.environment))):
        yield f"{_visible(name)} is not a variable name: omitted"


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if _VARIABLE.fullmatch(name) and not name.startswith(RESERVED)
    }


def _shell(entry: Entry) -> Iterator[str]:
    """Yield the task's script, as lines of the file."""
    text = "\n".join(["cd  # to the home directory, as cron does", *_script(entry)])
    lines = text.split("\n")
    if not all(line.replace("\t", "").isprintable() for line in lines):
        yield f"    shell: {_quoted(text)}"
        return
    yield "    shell: |"
    yield from (f"      {line}" if line else "" for line in lines)


def _script(entry: Entry) -> Iterator[str]:
    """Yield the command, in its shell and with its input."""
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
    """Return a here-document delimiter that is not a line of the input."""
    mark = "INPUT"
    while mark in lines:
        mark += "_"
    return mark


def _literal(value: str) -> str:
    """Escape a value so that rendering it as a template returns it unchanged."""
    return _TEMPLATE.sub(lambda found: f"{{{{ '{found[0]}' }}}}", value)


def _scalar(text: str) -> str:
    """Format a string in YAML: plain if unambiguous."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _CONSTANTS else _quoted(text)


def _quoted(text: str) -> str:
    """Format a string in double quotes, on one line, with non-printable characters escaped."""
    shown = json.dumps(text, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in shown)


def _visible(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
