"""Renders a notice as text: a title, and a body."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.core.model.notices import Notice, NoticeState

_MAX_TITLE_LENGTH = 200
_TIME = "%Y-%m-%d %H:%M:%S UTC"


def title(notice: Notice) -> str:
    """Return the title, `[HIGH] summary` or `[RESOLVED] summary`, as one line."""
    word = notice.severity if notice.state is NoticeState.FIRING else notice.state
    line = f"[{word.upper()}] {one_line(notice.summary)}"
    return line if len(line) <= _MAX_TITLE_LENGTH else f"{line[: _MAX_TITLE_LENGTH - 2]}.."


def text(notice: Notice) -> str:
    """Return the body, one line per field."""
    return "\n".join(_lines(notice)) + "\n"


def one_line(words: str) -> str:
    """Replace line breaks and control characters by spaces."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in words).split())


def _lines(notice: Notice) -> Iterator[str]:
    yield one_line(notice.summary)
    yield ""
    yield f"alert: {notice.kind}"
    yield f"severity: {notice.severity}"
    if notice.tenant:
        yield f"tenant: {one_line(notice.tenant)}"
    yield f"since: {notice.opened_at.strftime(_TIME)}"
    if notice.resolved_at is not None:
        yield f"until: {notice.resolved_at.strftime(_TIME)}"
    if notice.count > 1:
        yield f"raised: {notice.count} times"
    for name, value in notice.details.items():
        yield f"{one_line(name)}: {one_line(str(value))}"
    if notice.link is not None:
        yield f"see: {notice.link}"
    yield f"episode: {notice.id}"
