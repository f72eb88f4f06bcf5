"""Render a diagnosis: the same seven lines as plain text and as Markdown.

    CODE  name: verdict
      expected    when it starts, and what that is based on
      gates       ✓ passed  ✗ holding  · not reached
      in the way  what is ahead, or holds what is waited for
      ruled out   what is not the cause
      you can     suggestions with their effects
                    the command
      as of       how old this is

Empty lines are omitted. Answers to what-if and formats of times are here as well. Nothing is decided here; sentences
that name a cause come from `core/explain/messages.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from mainspring.core.explain.diagnosis import (
    BY_LEADER,
    Diagnosis,
    Expected,
    ExpectedKind,
    Gate,
    GateState,
    Reason,
    Suggestion,
    SuggestionKind,
)
from mainspring.core.explain.what_if import Outcome, Victim
from mainspring.core.text.durations import format_seconds

_MARKS = {GateState.YES: "✓", GateState.HOLDS: "✗", GateState.NOT_REACHED: "·"}
_WIDTH = 10
_INDENT = "  "
_GATES_WIDTH = 90
"""Width of a row of gates."""
_NOW_SECONDS = 1.0
"""Starts expected within this time are expected now."""
_MARKUP = re.compile(r"([\\`*_\[\]<>|#])")


class _Entry(NamedTuple):
    """A part of a line; each has a row of its own if there are several."""

    words: str
    command: str = ""


_Line = tuple[str, Sequence[_Entry]]


def as_plain(diagnosis: Diagnosis) -> str:
    """Render as plain text."""
    return _plain(f"{_code(diagnosis)}  {_headline(diagnosis)}", _lines(diagnosis))


def as_markdown(diagnosis: Diagnosis) -> str:
    """Render as Markdown."""
    return _markdown(_code(diagnosis), _headline(diagnosis), _lines(diagnosis))


def outcome_as_plain(outcome: Outcome, changes: Sequence[str]) -> str:
    """Render the result of a what-if as plain text."""
    return _plain(f"{_outcome_code(outcome)}  with: {_listed(changes)}", _outcome_lines(outcome))


def outcome_as_markdown(outcome: Outcome, changes: Sequence[str]) -> str:
    """Render the result of a what-if as Markdown."""
    return _markdown(_outcome_code(outcome), f"with: {_listed(changes)}", _outcome_lines(outcome))


def format_expected(expected: Expected, now: datetime) -> str:
    """Format an expected start."""
    match expected.kind:
        case ExpectedKind.NEVER:
            return f"will never start: {expected.basis}"
        case ExpectedKind.UNKNOWN:
            return f"unknown: {expected.basis}"
        case ExpectedKind.RANGE:
            return f"{_format_range(expected, now)}; {expected.basis}"


def format_relative(at: datetime, now: datetime) -> str:
    """Format the distance of an instant: `in 4m 10s`, `12s ago`, `now`."""
    seconds = (at - now).total_seconds()
    if abs(seconds) < _NOW_SECONDS:
        return "now"
    return f"in {format_seconds(seconds)}" if seconds > 0 else f"{format_seconds(-seconds)} ago"


def format_clock(at: datetime, now: datetime) -> str:
    """Format an instant in UTC, with the day if it is not today: `05:30:00 UTC`."""
    at, today = at.astimezone(UTC), now.astimezone(UTC).date()
    return f"{at:%H:%M:%S} UTC" if at.date() == today else f"{at:%Y-%m-%d %H:%M:%S} UTC"


# the lines


def _code(diagnosis: Diagnosis) -> str:
    return diagnosis.state if diagnosis.reason is None else diagnosis.reason.value


def _headline(diagnosis: Diagnosis) -> str:
    since = ""
    if diagnosis.reason is not None and diagnosis.since is not None:
        since = f", {diagnosis.state} for {format_seconds((diagnosis.at - diagnosis.since).total_seconds())}"
    return f"{diagnosis.name}{since}: {diagnosis.verdict}"


def _lines(diagnosis: Diagnosis) -> list[_Line]:
    expected = diagnosis.expected
    return [
        ("expected", _only("" if expected is None else format_expected(expected, diagnosis.at))),
        ("gates", _gates(diagnosis.gates)),
        ("in the way", _in_the_way(diagnosis)),
        ("ruled out", _only(" · ".join(diagnosis.ruled_out))),
        ("you can", [_Entry(_format_suggestion(action), action.command) for action in diagnosis.suggestions]),
        ("as of", _only(_freshness(diagnosis))),
    ]


def _only(words: str) -> list[_Entry]:
    return [_Entry(words)] if words else []


def _gates(gates: Sequence[Gate]) -> list[_Entry]:
    """As many in a row as fit."""
    rows: list[str] = []
    for gate in map(_format_gate, gates):
        if rows and len(rows[-1]) + len(gate) < _GATES_WIDTH:
            rows[-1] += f"{_INDENT}{gate}"
        else:
            rows.append(gate)
    return [_Entry(row) for row in rows]


def _format_gate(gate: Gate) -> str:
    return f"{_MARKS[gate.passed]} {gate.name}{f' {gate.says}' if gate.says else ''}"


def _in_the_way(diagnosis: Diagnosis) -> list[_Entry]:
    named = [_Entry(one.says or f"{one.kind} {one.id}") for one in diagnosis.blockers]
    if diagnosis.more_blockers:
        count = f"{diagnosis.more_blockers:,}"
        named.append(_Entry(f"and {count} more" if named else f"{count} of other tenants"))
    return named


def _format_suggestion(action: Suggestion) -> str:
    words = f"{action.says}: {action.effect}" if action.effect else action.says
    return f"{words} (needs an operator)" if action.kind is SuggestionKind.ASK else words


def _freshness(diagnosis: Diagnosis) -> str:
    age = f"{format_seconds(diagnosis.age_seconds)} ago"
    if diagnosis.by != BY_LEADER:
        is_unled = diagnosis.reason in {Reason.SCHEDULER_LAG, Reason.UNKNOWN}
        return f"{age}; no leader responded, so there are no suggestions" if is_unled else "now, from the store"
    batch = "" if diagnosis.batch is None else f", batch {diagnosis.batch:,}"
    return f"{age}{batch}{', too old for suggestions' if diagnosis.is_stale() else ''}"


# what-if


def _outcome_code(outcome: Outcome) -> str:
    if outcome.starts_now:
        where = f" on {outcome.worker}" if outcome.worker else ""
        return f"starts{where} after preemption" if outcome.victims else f"starts now{where}"
    return "will never start" if outcome.expected.kind is ExpectedKind.NEVER else "still waits"


def _outcome_lines(outcome: Outcome) -> list[_Line]:
    return [
        ("expected", _only("" if outcome.starts_now else format_expected(outcome.expected, outcome.at))),
        ("held by", _only(outcome.holds)),
        ("preempts", [_Entry(_format_victim(one)) for one in outcome.victims]),
        ("note", [_Entry(remark) for remark in outcome.notes]),
        ("as of", _only(format_clock(outcome.at, outcome.at))),
    ]


def _format_victim(victim: Victim) -> str:
    """Format a preempted task; without a name it belongs to another tenant."""
    if not victim.task:
        return f"a task of another tenant ({victim.priority.name})"
    return f"{victim.task} ({victim.priority.name}, {victim.tenant}) on {victim.worker}"


def _listed(changes: Sequence[str]) -> str:
    return ", ".join(changes) or "no changes"


# the forms


def _format_range(expected: Expected, now: datetime) -> str:
    earliest, latest = expected.earliest or now, expected.latest or expected.earliest or now
    clock = format_clock(latest, now)
    until = format_seconds((latest - now).total_seconds())
    if (latest - now).total_seconds() < _NOW_SECONDS:
        return "now"
    if (latest - earliest).total_seconds() < _NOW_SECONDS:
        return f"in {until} ({clock})"
    if (earliest - now).total_seconds() < _NOW_SECONDS:
        return f"within {until} (by {clock})"
    soonest = format_seconds((earliest - now).total_seconds())
    return f"in {soonest} to {until} ({earliest.astimezone(UTC):%H:%M:%S} to {clock})"


def _plain(headline: str, lines: Iterable[_Line]) -> str:
    text = [_clean(headline)]
    for label, entries in lines:
        for place, entry in enumerate(entries):
            text.append(f"{_INDENT}{(label if place == 0 else '').ljust(_WIDTH)}{_INDENT}{_clean(entry.words)}")
            if entry.command:
                text.append(f"{_INDENT}{' ' * _WIDTH}{_INDENT * 2}{_clean(entry.command)}")
    return "\n".join(text) + "\n"


def _markdown(code: str, headline: str, lines: Iterable[_Line]) -> str:
    text = [f"**{_escape(code)}** {_escape(headline)}", ""]
    for label, entries in lines:
        if len(entries) == 1:
            text.append(f"- **{label}**: {_marked_up(entries[0])}")
        elif entries:
            text += [f"- **{label}**:", *(f"{_INDENT}- {_marked_up(entry)}" for entry in entries)]
    return "\n".join(text) + "\n"


def _marked_up(entry: _Entry) -> str:
    command = _clean(entry.command).replace("`", "'")
    return f"`{command}`: {_escape(entry.words)}" if command else _escape(entry.words)


def _escape(text: str) -> str:
    return _MARKUP.sub(r"\\\1", _clean(text))


def _clean(text: str) -> str:
    """Replace unprintable characters: user text must not break lines or control a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
