"""The grammar of filters: one for the API, the command line and the pages (docs/reference/filters.md).

    state:queued,running tenant:acme priority:p0 label.team=ml wait>5m job:etl-* created>2026-11-01

1. Words stand apart by spaces, and all of them must hold. `:` and `=` mean the same.
2. What is wrong is told word by word, all of it at once, with what may have been meant. No text does anything else.
3. Nothing is looked up here: whose work somebody may see, and what a schedule's name means, is for the caller.

To add a word: `_MEANINGS` says how its value is read and which lists know it, `Wanted` has its place.
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
from mainspring.core.text.durations import seconds_of
from mainspring.core.text.strict_json import fault_in_text
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Refused

LONGEST_FILTER = 2_000
LONGEST_AGE = timedelta(days=36_500)
_SHOWN = 60
_WORD = re.compile(r"""(?=\S)((?:[^\s"']|"[^"]*"|'[^']*')*)(["'].*)?""", re.DOTALL)
"""All parts of a word that are whole, and from a quote that does not end on the rest of the text."""
_PARTS = re.compile(r"([^:=<>]*)([:=<>])(.*)", re.DOTALL)
_QUOTED = re.compile(r""""([^"]*)"|'([^']*)'""")
_LABEL = "label."
_FORM_OF_LABEL = "must have the form label.name=value"


class Listed(StrEnum):
    """What a filter is for."""

    RUNS = "runs"
    TASKS = "tasks"
    JOBS = "jobs"
    EVENTS = "events"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a filter says; None, or nothing, for what it does not say."""

    tenant: str | None = None
    job: str | None = None
    """`*` in it stands for any text; so it does in `name` and in the values of labels."""
    name: str | None = None
    run: str | None = None
    task: str | None = None
    worker: str | None = None
    schedule: str | None = None
    """Its id or its name."""
    states: tuple[str, ...] = ()
    priority: Priority | None = None
    labels: tuple[tuple[str, str], ...] = ()
    created_since: datetime | None = None
    created_before: datetime | None = None
    since_before: datetime | None = None
    """In its state since before then."""

    def is_empty(self) -> bool:
        """Whether it says nothing at all."""
        return self == Wanted()


def read_filter(text: str, listed: Listed, *, now: datetime, where: str) -> Wanted:
    """What a filter of a list says. Raises Refused, with a fault at `where` for each word that is wrong."""
    faults = Faults()
    fields: dict[str, object] = {}
    labels: dict[str, str] = {}
    for word in _words(text, where, faults):
        try:
            _take(word, listed, now, fields, labels)
        except _Wrong as wrong:
            faults.add(where, f"`{_short(word)}` {wrong}")
    if faults.total():
        raise Refused(f"the filter has {faults.total()} fault{'s' if faults.total() > 1 else ''}", faults.all())
    return msgspec.convert({**fields, "labels": tuple(labels.items())}, Wanted)


def fits(pattern: str, text: str) -> bool:
    """Whether a text is what a pattern means, in which `*` stands for any text."""
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


class _Wrong(Exception):
    """What is wrong with a word, to follow it in a sentence."""


class _Meaning(msgspec.Struct, frozen=True):
    """What a word is for."""

    lists: frozenset[Listed]
    signs: str
    """Those that may stand behind it; `:` also stands for `=`."""
    read: Callable[[str, str, Listed, datetime], dict[str, object]]
    """From the sign, the value, the list and the time to the fields of `Wanted`. Raises _Wrong."""


def _words(text: str, where: str, faults: Faults) -> list[str]:
    unfit = fault_in_text(text)
    if unfit is not None or len(text) > LONGEST_FILTER:
        faults.add(where, unfit or f"must have at most {LONGEST_FILTER} characters")
        return []
    words: list[str] = []
    for match in _WORD.finditer(text):
        if match[2] is None:
            words.append(match[0])
        else:
            faults.add(where, f"`{_short(match[0])}` has a quote that does not end")
    return words


def _take(word: str, listed: Listed, now: datetime, fields: dict[str, object], labels: dict[str, str]) -> None:
    """Add what one word says. Raises _Wrong."""
    match = _PARTS.fullmatch(word)
    if match is None:
        raise _Wrong(f"says nothing of what it is about: write {_example(listed)}:{_short(word)}")
    name, sign, value = match[1].lower(), match[2].replace("=", ":"), _unquote(match[3])
    if not value:
        raise _Wrong("has no value")
    if name.startswith(_LABEL):
        label = match[1][len(_LABEL) :]
        if sign not in _meaning("label", listed).signs or not label:
            raise _Wrong(_FORM_OF_LABEL)
        if labels.setdefault(label, value) != value:
            raise _Wrong("asks for two values of one label")
        return
    name = _OTHER_NAMES.get(name, name)
    meaning = _meaning(name, listed)
    if sign not in meaning.signs:
        raise _Wrong(f"must have {' or '.join(meaning.signs)} behind {name}")
    for field, said in meaning.read(sign, value, listed, now).items():
        if fields.setdefault(field, said) != said:
            either = f": {name}:a,b stands for either" if field == "states" else ""
            raise _Wrong(f"says something else than the word before it{either}")


def _meaning(name: str, listed: Listed) -> _Meaning:
    """What a name means in a filter of this list. Raises _Wrong if that is nothing."""
    meaning = _MEANINGS.get(name)
    if meaning is None:
        known = sorted(word for word, meaning in _MEANINGS.items() if listed in meaning.lists)
        raise _Wrong(f"is not known{did_you_mean(name, known) or '; there are ' + ', '.join(known)}")
    if listed not in meaning.lists:
        raise _Wrong(f"is for {' and '.join(sorted(meaning.lists))}, and not for {listed}")
    return meaning


def _exactly(field: str) -> Callable[[str, str, Listed, datetime], dict[str, object]]:
    return lambda _sign, value, _listed, _now: {field: value}


def _label(_sign: str, _value: str, _listed: Listed, _now: datetime) -> dict[str, object]:
    raise _Wrong(_FORM_OF_LABEL)


def _states(_sign: str, value: str, listed: Listed, _now: datetime) -> dict[str, object]:
    kind: type[RunState | TaskState] = RunState if listed is Listed.RUNS else TaskState
    wanted = list(dict.fromkeys(part.strip().upper().replace("-", "_") for part in value.split(",")))
    known = [state.value for state in kind]
    for state in wanted:
        if state not in known:
            hint = did_you_mean(state, known) or f"; there are {', '.join(known)}"
            raise _Wrong(f"has no state of {listed}{hint}")
    return {"states": tuple(wanted)}


def _priority(_sign: str, value: str, _listed: Listed, _now: datetime) -> dict[str, object]:
    priority = Priority.__members__.get(value.upper())
    if priority is None:
        raise _Wrong(f"has no priority; there are {', '.join(Priority.__members__)}")
    return {"priority": priority}


def _created(sign: str, value: str, _listed: Listed, now: datetime) -> dict[str, object]:
    return {"created_since" if sign == ">" else "created_before": _instant(value, now)}


def _wait(_sign: str, value: str, _listed: Listed, now: datetime) -> dict[str, object]:
    return {"since_before": _ago(value, now)}


def _instant(value: str, now: datetime) -> datetime:
    """A date, a time, or an age; what says no time zone is in UTC."""
    if value[:4].isdecimal() and value[4:5] in {"-", "/"}:
        try:
            at = datetime.fromisoformat(value)
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        except (ValueError, OverflowError):
            raise _Wrong("has no date or time such as 2026-11-01 or 2026-11-01T06:30:00Z") from None
    return _ago(value, now, "has no date such as 2026-11-01, and no age such as 2h")


def _ago(value: str, now: datetime, otherwise: str = "has no length of time such as 90s, 5m or 1h30m") -> datetime:
    try:
        seconds = seconds_of(value)
    except ValueError:
        raise _Wrong(otherwise) from None
    if seconds > LONGEST_AGE.total_seconds():
        raise _Wrong(f"goes back more than {LONGEST_AGE.days} days")
    return now - timedelta(seconds=seconds)


def _unquote(value: str) -> str:
    return _QUOTED.sub(lambda match: match[1] if match[1] is not None else match[2], value)


def _example(listed: Listed) -> str:
    return "name" if listed is Listed.TASKS else "job"


def _short(word: str) -> str:
    return word if len(word) <= _SHOWN else f"{word[:_SHOWN]}…"


_OTHER_NAMES = {"pipeline": "job"}
_MEANINGS = {
    "tenant": _Meaning(frozenset(Listed), ":", _exactly("tenant")),
    "state": _Meaning(frozenset({Listed.RUNS, Listed.TASKS, Listed.EVENTS}), ":", _states),
    "job": _Meaning(frozenset({Listed.RUNS, Listed.JOBS, Listed.EVENTS}), ":", _exactly("job")),
    "priority": _Meaning(frozenset({Listed.RUNS, Listed.TASKS}), ":", _priority),
    "schedule": _Meaning(frozenset({Listed.RUNS}), ":", _exactly("schedule")),
    "label": _Meaning(frozenset({Listed.RUNS, Listed.JOBS}), ":", _label),
    "created": _Meaning(frozenset({Listed.RUNS}), "<>", _created),
    "name": _Meaning(frozenset({Listed.TASKS}), ":", _exactly("name")),
    "worker": _Meaning(frozenset({Listed.TASKS}), ":", _exactly("worker")),
    "wait": _Meaning(frozenset({Listed.TASKS}), ">", _wait),
    "run": _Meaning(frozenset({Listed.TASKS, Listed.EVENTS}), ":", _exactly("run")),
    "task": _Meaning(frozenset({Listed.EVENTS}), ":", _exactly("task")),
}
