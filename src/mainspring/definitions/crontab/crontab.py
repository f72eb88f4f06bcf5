r"""Crontab parser: commands, schedules, environment and input, as cron reads them (FLD-10).

    CRON_TZ=Europe/Paris                       applies to the lines below it
    PATH=/usr/local/bin:/usr/bin:/bin          so does this
    # Copies the orders                        describes the line below it
    30 5 * * 1-5  /opt/backup --day            five fields, or @daily etc., and a shell command
    @weekly       mail -s hi bob%Dear Bob%Bye  the text after the first % is its input, each further % a newline
    0 4 * * *     root  /usr/sbin/clean        the system form has a user before the command

As in cron, `\%` is a percent sign, values in quotes lose them, and nothing in a value is expanded. TZ is a variable of
the command and does not affect the schedule; CRON_TZ does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum

import msgspec

from mainspring.core.schedules.schedule_spec import ScheduleSpec, check_schedule
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.core.schedules.triggers import CronTrigger

_VARIABLE = re.compile(r"""\s*("[^"]*"|'[^']*'|[^\s=#]+)\s*=\s*(.*?)\s*""")
_FIELDS = re.compile(r"\s*-?(@\S+|\S+\s+\S+\s+\S+\s+\S+\s+\S+)(?:\s+(.*))?")
_USER = re.compile(r"([A-Za-z_][A-Za-z0-9._-]*\$?)\s+(.+)")
_PERCENT = re.compile(r"\\.|%")
_HEADING = re.compile(r"m(in(ute)?)?\s+h(our)?\s", re.IGNORECASE)
_QUOTES = ("'", '"')
_MAIL = frozenset({"MAILTO", "MAILFROM"})
_OF_CRON = frozenset({*_MAIL, "CRON_TZ", "RANDOM_DELAY", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"})
"""Variables for cron itself."""


class Form(StrEnum):
    """Format of the lines."""

    USER = "user"
    """A time and a command: `crontab -l`."""
    SYSTEM = "system"
    """A time, a user and a command: /etc/crontab, /etc/cron.d."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A line with a command."""

    line: int
    """From 1."""
    schedule: str
    """As written: five fields, or a word such as @daily."""
    user: str | None = None
    command: str
    """For the shell."""
    stdin: str | None = None
    environment: Mapping[str, str] = {}
    timezone: str | None = None
    """None: the machine's."""
    description: str = ""


class SkippedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line without effect, and why."""

    line: int
    text: str
    why: str


class Crontab(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed crontab."""

    form: Form
    entries: tuple[Entry, ...]
    refused: tuple[SkippedLine, ...]
    """Commands that can't be imported."""
    ignored: tuple[SkippedLine, ...]
    """Variables without effect."""


def read_crontab(text: str, *, form: Form | None = None, users: Collection[str] = ("root",)) -> Crontab:
    """Parse a crontab. The form is detected by default: it is the system's if every line names one of these users."""
    if form is None:
        form = _form_of(text, users)
    reader = _Reader(form)
    for number, line in enumerate(_lines(text), 1):
        reader.take(number, line)
    return Crontab(
        form=form, entries=tuple(reader.entries), refused=tuple(reader.refused), ignored=tuple(reader.ignored)
    )


class _Reader:
    """Parses the lines in order."""

    def __init__(self, form: Form) -> None:
        self.entries: list[Entry] = []
        self.refused: list[SkippedLine] = []
        self.ignored: list[SkippedLine] = []
        self._form = form
        self._variables: dict[str, str] = {}
        self._timezone: str | None = None
        self._comments: list[str] = []

    def take(self, number: int, line: str) -> None:
        """Parse the next line."""
        text_of_line = line.strip()
        if text_of_line.startswith("#"):
            self._comments.append(text_of_line)
            return
        comments, self._comments = self._comments, []
        if not text_of_line:
            return
        if (variable := _VARIABLE.fullmatch(line)) is not None:
            self._set(number, text_of_line, _unquoted(variable[1]), _unquoted(variable[2]))
            return
        try:
            entry = self._entry(number, line, _description(comments))
        except ValueError as error:
            self.refused.append(SkippedLine(line=number, text=text_of_line, why=str(error)))
        else:
            self.entries.append(entry)

    def _set(self, number: int, text_of_line: str, name: str, value: str) -> None:
        """Set a variable for the lines below."""
        if name == "CRON_TZ":
            self._timezone = value or None
        elif name in _MAIL:
            if value:
                why = "mail is not supported: use `notify:` in the pipeline"
                self.ignored.append(SkippedLine(line=number, text=text_of_line, why=why))
        elif name == "RANDOM_DELAY":
            why = "random delay is not supported: use `jitter:` in the pipeline's schedule"
            self.ignored.append(SkippedLine(line=number, text=text_of_line, why=why))
        elif name not in _OF_CRON:
            self._variables[name] = value

    def _entry(self, number: int, line: str, description: str) -> Entry:
        """Parse a line with a command. Raises ValueError."""
        fields = _FIELDS.fullmatch(line.rstrip())
        if fields is None:
            raise ValueError("is neither a variable nor five fields and a command")
        schedule, rest = " ".join(fields[1].split()), fields[2]
        if schedule.lower() == "@reboot":
            raise ValueError("@reboot is not supported: use a systemd unit")
        if why := _fault_of(schedule, self._timezone):
            raise ValueError(why)
        user, command = None, rest
        if self._form is Form.SYSTEM:
            found = _USER.fullmatch(rest or "")
            if found is None:
                raise ValueError("has no user before the command (system form)")
            user, command = found[1], found[2]
        if not command:
            raise ValueError("has no command")
        command, stdin = _split_input(command)
        return Entry(
            line=number,
            schedule=schedule,
            user=user,
            command=command,
            stdin=stdin,
            environment=dict(self._variables),
            timezone=self._timezone,
            description=description,
        )


def _lines(text: str) -> list[str]:
    """Return the lines as cron splits them: other line separators are part of a line."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def _form_of(text: str, users: Collection[str]) -> Form:
    """Detect the form of the lines."""
    rests = list(_commands(text))
    named = [found[1] in users for rest in rests if (found := _USER.fullmatch(rest)) is not None]
    return Form.SYSTEM if rests and len(named) == len(rests) and all(named) else Form.USER


def _commands(text: str) -> Iterator[str]:
    """Yield the part after the schedule of each line with a command."""
    for line in _lines(text):
        if line.strip() and not line.lstrip().startswith("#") and _VARIABLE.fullmatch(line) is None:
            fields = _FIELDS.fullmatch(line.rstrip())
            if fields is not None:
                yield fields[2] or ""


def _fault_of(schedule: str, timezone: str | None) -> str:
    """Return why a schedule is invalid; empty if it is valid."""
    trigger = CronTrigger(cron=schedule, timezone=timezone or "UTC")
    faults = check_schedule(ScheduleSpec(name="line", job="line", trigger=trigger), EPOCH)
    return "; ".join(fault.why for fault in faults)


def _split_input(command: str) -> tuple[str, str | None]:
    """Split a command from its input."""
    parts = [""]
    position = 0
    for found in _PERCENT.finditer(command):
        parts[-1] += command[position : found.start()]
        position = found.end()
        if found[0] == "%":
            parts.append("")
        else:
            parts[-1] += "%" if found[0] == r"\%" else found[0]
    parts[-1] += command[position:]
    return parts[0].strip(), "\n".join(parts[1:]) if len(parts) > 1 else None


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0] else text


def _description(comments: list[str]) -> str:
    """Return the description in the comments above a line, without column headings and commented-out lines."""
    text_of_line = (comment.lstrip("#").strip() for comment in comments)
    return "\n".join(text for text in text_of_line if text and not _HEADING.match(text) and not _is_switched_off(text))


def _is_switched_off(text: str) -> bool:
    fields = _FIELDS.fullmatch(text)
    return fields is not None and bool(fields[2]) and not _fault_of(" ".join(fields[1].split()), None)
