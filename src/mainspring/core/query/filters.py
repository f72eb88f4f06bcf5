"""Filter grammar, shared by the API, the command line and the dashboard (docs/reference/filters.md).

    state:queued,running tenant:acme priority:p0 label.team=ml wait>5m job:etl-* created>2026-11-01

1. Terms are separated by spaces and combined with AND. `:` and `=` are equivalent.
2. Every invalid term is reported, all at once, with a suggestion. Text never has any other effect.
3. Nothing is looked up here: visibility and the resolution of a schedule's name are up to the caller.

To add a term: `_TERMS` has its parser and the lists that support it, `Filter` its field.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from mainspring.core.admission.validate_job import Faults
from mainspring.core.model.run import RunState
from mainspring.core.model.task import Priority, TaskState
from mainspring.core.text.durations import parse_seconds
from mainspring.core.text.strict_json import fault_in_text
from mainspring.core.text.suggestions import did_you_mean

MAX_FILTER_LENGTH = 2_000
MAX_AGE = timedelta(days=36_500)
_SHOWN = 60
_WORD = re.compile(r"""(?=\S)((?:[^\s"']|"[^"]*"|'[^']*')*)(["'].*)?""", re.DOTALL)
"""A term: complete parts, and the rest of the text from an unterminated quote on."""
_PARTS = re.compile(r"([^:=<>]*)([:=<>])(.*)", re.DOTALL)
_QUOTED = re.compile(r""""([^"]*)"|'([^']*)'""")
_LABEL = "label."
_FORM_OF_LABEL = "must have the form label.name=value"


class ListKind(StrEnum):
    """Kind of list that a filter applies to."""

    RUNS = "runs"
    TASKS = "tasks"
    JOBS = "jobs"
    EVENTS = "events"


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed filter; None or empty: no restriction."""

    tenant: str | None = None
    job: str | None = None
    """`*` matches any text, also in `name` and in label values."""
    name: str | None = None
    run: str | None = None
    task: str | None = None
    worker: str | None = None
    schedule: str | None = None
    """Id or name."""
    states: tuple[str, ...] = ()
    priority: Priority | None = None
    labels: tuple[tuple[str, str], ...] = ()
    created_since: datetime | None = None
    created_before: datetime | None = None
    since_before: datetime | None = None
    """Last state change before this time."""


def read_filter(text: str, listed: ListKind, *, now: datetime, where: str) -> Filter:
    """Parse the filter of a list. Raises Refused with a fault at `where` for each invalid term."""
    faults = Faults()
    fields: dict[str, object] = {}
    labels: dict[str, str] = {}
    for word in _words(text, where, faults):
        try:
            _take(word, listed, now, fields, labels)
        except _FilterError as wrong:
            faults.add(where, f"`{_short(word)}` {wrong}")
    faults.refuse("the filter has")
    return msgspec.convert({**fields, "labels": tuple(labels.items())}, Filter)


def matches(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern, in which `*` matches any text."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == first
    *middle, last = rest
    if not text.startswith(first):
        return False
    place = len(first)
    for part in middle:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return text.endswith(last) and len(text) - len(last) >= place


class _FilterError(Exception):
    """An invalid term; the text continues a sentence."""


class _Term(msgspec.Struct, frozen=True):
    """Definition of a term."""

    lists: frozenset[ListKind]
    signs: str
    """Allowed operators; `:` includes `=`."""
    read: Callable[[str, str, ListKind, datetime], dict[str, object]]
    """Parser: from operator, value, list and time to the fields of `Filter`. Raises _FilterError."""


def _words(text: str, where: str, faults: Faults) -> list[str]:
    unfit = fault_in_text(text)
    if unfit is not None or len(text) > MAX_FILTER_LENGTH:
        faults.add(where, unfit or f"must have at most {MAX_FILTER_LENGTH} characters")
        return []
    words: list[str] = []
    for match in _WORD.finditer(text):
        if match[2] is None:
            words.append(match[0])
        else:
            faults.add(where, f"`{_short(match[0])}` has an unterminated quote")
    return words


def _take(word: str, listed: ListKind, now: datetime, fields: dict[str, object], labels: dict[str, str]) -> None:
    """Add the restriction of one term. Raises _FilterError."""
    match = _PARTS.fullmatch(word)
    if match is None:
        raise _FilterError(f"has no field name: write {_example(listed)}:{_short(word)}")
    name, sign, value = match[1].lower(), match[2].replace("=", ":"), _unquote(match[3])
    if not value:
        raise _FilterError("has no value")
    if name.startswith(_LABEL):
        label = match[1][len(_LABEL) :]
        if sign not in _term("label", listed).signs or not label:
            raise _FilterError(_FORM_OF_LABEL)
        if labels.setdefault(label, value) != value:
            raise _FilterError("gives a second value for the same label")
        return
    name = _OTHER_NAMES.get(name, name)
    meaning = _term(name, listed)
    if sign not in meaning.signs:
        raise _FilterError(f"needs {' or '.join(meaning.signs)} after {name}")
    for field, said in meaning.read(sign, value, listed, now).items():
        if fields.setdefault(field, said) != said:
            either = f": use {name}:a,b for either" if field == "states" else ""
            raise _FilterError(f"contradicts an earlier term{either}")


def _term(name: str, listed: ListKind) -> _Term:
    """Return the definition of a term in this list. Raises _FilterError if there is none."""
    meaning = _TERMS.get(name)
    if meaning is None:
        known = sorted(word for word, meaning in _TERMS.items() if listed in meaning.lists)
        raise _FilterError(f"is unknown{did_you_mean(name, known) or '; known: ' + ', '.join(known)}")
    if listed not in meaning.lists:
        raise _FilterError(f"applies to {' and '.join(sorted(meaning.lists))}, not to {listed}")
    return meaning


def _exactly(field: str) -> Callable[[str, str, ListKind, datetime], dict[str, object]]:
    return lambda _sign, value, _listed, _now: {field: value}


def _label(_sign: str, _value: str, _listed: ListKind, _now: datetime) -> dict[str, object]:
    raise _FilterError(_FORM_OF_LABEL)


def _states(_sign: str, value: str, listed: ListKind, _now: datetime) -> dict[str, object]:
    kind: type[RunState | TaskState] = RunState if listed is ListKind.RUNS else TaskState
    wanted = list(dict.fromkeys(part.strip().upper().replace("-", "_") for part in value.split(",")))
    known = [state.value for state in kind]
    for state in wanted:
        if state not in known:
            hint = did_you_mean(state, known) or f"; known: {', '.join(known)}"
            raise _FilterError(f"is not a state of {listed}{hint}")
    return {"states": tuple(wanted)}


def _priority(_sign: str, value: str, _listed: ListKind, _now: datetime) -> dict[str, object]:
    priority = Priority.__members__.get(value.upper())
    if priority is None:
        raise _FilterError(f"is not a priority; known: {', '.join(Priority.__members__)}")
    return {"priority": priority}


def _created(sign: str, value: str, _listed: ListKind, now: datetime) -> dict[str, object]:
    return {"created_since" if sign == ">" else "created_before": _instant(value, now)}


def _wait(_sign: str, value: str, _listed: ListKind, now: datetime) -> dict[str, object]:
    return {"since_before": _ago(value, now)}


def _instant(value: str, now: datetime) -> datetime:
    """Parse a date, a time, or an age; UTC without a time zone."""
    if value[:4].isdecimal() and value[4:5] in {"-", "/"}:
        try:
            at = datetime.fromisoformat(value)
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        except (ValueError, OverflowError):
            raise _FilterError("needs a date or time such as 2026-11-01 or 2026-11-01T06:30:00Z") from None
    return _ago(value, now, "needs a date such as 2026-11-01, or an age such as 2h")


def _ago(value: str, now: datetime, otherwise: str = "needs a duration such as 90s, 5m or 1h30m") -> datetime:
    try:
        seconds = parse_seconds(value)
    except ValueError:
        raise _FilterError(otherwise) from None
    if seconds > MAX_AGE.total_seconds():
        raise _FilterError(f"goes back more than {MAX_AGE.days} days")
    return now - timedelta(seconds=seconds)


def _unquote(value: str) -> str:
    return _QUOTED.sub(lambda match: match[1] if match[1] is not None else match[2], value)


def _example(listed: ListKind) -> str:
    return "name" if listed is ListKind.TASKS else "job"


def _short(word: str) -> str:
    return word if len(word) <= _SHOWN else f"{word[:_SHOWN]}…"


_OTHER_NAMES = {"pipeline": "job"}
_TERMS = {
    "tenant": _Term(frozenset(ListKind), ":", _exactly("tenant")),
    "state": _Term(frozenset({ListKind.RUNS, ListKind.TASKS, ListKind.EVENTS}), ":", _states),
    "job": _Term(frozenset({ListKind.RUNS, ListKind.JOBS, ListKind.EVENTS}), ":", _exactly("job")),
    "priority": _Term(frozenset({ListKind.RUNS, ListKind.TASKS}), ":", _priority),
    "schedule": _Term(frozenset({ListKind.RUNS}), ":", _exactly("schedule")),
    "label": _Term(frozenset({ListKind.RUNS, ListKind.JOBS}), ":", _label),
    "created": _Term(frozenset({ListKind.RUNS}), "<>", _created),
    "name": _Term(frozenset({ListKind.TASKS}), ":", _exactly("name")),
    "worker": _Term(frozenset({ListKind.TASKS}), ":", _exactly("worker")),
    "wait": _Term(frozenset({ListKind.TASKS}), ">", _wait),
    "run": _Term(frozenset({ListKind.TASKS, ListKind.EVENTS}), ":", _exactly("run")),
    "task": _Term(frozenset({ListKind.EVENTS}), ":", _exactly("task")),
}
