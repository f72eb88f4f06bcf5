"""Output of remote tasks: marked lines, and a log over several connections."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mainspring.worker.executors.remote.kubernetes_logs import LogCursor
from mainspring.worker.executors.remote.output_lines import LineKind, MarkedLines

PRINTED = (
    b"one\n::mainspring-output:: {}\n:: two\n::mainspring-\n x ::mainspring-output:: 1\n::mainspring-else:: 2\n\n"
    b"::mainspring-progress:: 40 it is\r\n::mainspring-output:: a=b"
)
PLAIN = b"one\n:: two\n::mainspring-\n x ::mainspring-output:: 1\n::mainspring-else:: 2\n\n"
SAID = [(LineKind.OUTPUT, b"{}"), (LineKind.PROGRESS, b"40 it is"), (LineKind.OUTPUT, b"a=b")]


@given(st.lists(st.integers(0, len(PRINTED)), max_size=8))
def test_marked_lines_are_found_in_chunks_of_any_size(cuts: list[int]) -> None:
    plain: list[bytes] = []
    said: list[tuple[LineKind, bytes]] = []
    lines = MarkedLines(plain.append, lambda what, words: said.append((what, words)))
    places = [0, *sorted(cuts), len(PRINTED)]
    for begin, end in pairwise(places):
        lines.feed(PRINTED[begin:end])
    lines.close()
    assert b"".join(plain) == PLAIN
    assert said == SAID


def test_an_endless_marked_line_uses_bounded_memory() -> None:
    said: list[bytes] = []
    lines = MarkedLines(lambda _: None, lambda _, words: said.append(words))
    lines.feed(b"::mainspring-output:: ")
    for _ in range(40):
        lines.feed(b"x" * 100_000)
    lines.feed(b"\n")
    [words] = said
    assert 1024 * 1024 < len(words) < 1_200_000


STAMPS = ("2026-03-01T10:00:00.1Z", "2026-03-01T10:00:00.1Z", "2026-03-01T10:00:00.12Z", "2026-03-01T10:00:01Z")


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 30)), max_size=6))
def test_a_log_is_complete_wherever_its_connection_breaks(breaks: list[tuple[int, int]]) -> None:
    """With two lines of one timestamp, and fractions of any length."""
    lines = [f"{stamp} line {number}\n".encode() for number, stamp in enumerate(STAMPS)]
    place = LogCursor()
    got = b""
    for length, size in [*breaks, (10_000, 7)]:
        since = place.since()
        known = [line for line in lines if since is None or line[:19] >= since.encode()[:19]]
        place.begin()
        answer = b"".join(known)[:length]
        for at in range(0, len(answer), size):
            got += place.take(answer[at : at + size])
    got += place.end()
    assert got == b"line 0\nline 1\nline 2\nline 3\n"
