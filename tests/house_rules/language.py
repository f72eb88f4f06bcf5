"""Standard terms in American spelling: no riddles, no private vocabulary (docs/glossary.md).

A pattern begins and ends at a word boundary. `_` separates words, so identifiers are covered too. A blank matches any
white space, including the end of a line. A pattern begins with literal text, which makes the search fast.

The stores may keep the old words in comments, docstrings and identifiers, but not in their messages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house_rules.source import Complaint, Source

# A quantity ("so many tasks"), not a consequence ("so many that it stops") or a comparison ("so long as").
_QUANTITY = r"(?! as\b)(?![^.:;]{0,120}\bthat\b)(?![^.:;]{0,60}: )"

_PHRASES: dict[str, tuple[str, ...]] = {
    "by default": ("unless said", "unless told", "if nothing is said", "is not said", "are not said"),
    "continue, resume, keep running": ("go on", "goes on", "going on", "gone on", "went on"),
    "the result, outcome or state of": ("what became of", "what becomes of"),
    "running tasks": ("in hands", "in its hands", "has in hand"),
    "receives, is notified, is instructed": ("is told", "are told", "was told", "were told", "be told", "been told"),
    "recently": (r"of late(?! (windows?|runs?|data|results?|reports?|events?|rows?)\b)",),
    "last heartbeat, received, known": ("heard of", "hears of"),
    "the noun: the worker, the client, the user": ("whoever", "whomever", "somebody", "somebody's", "those who"),
    "the number, or `for a duration`": tuple(f"so {word}{_QUANTITY}" for word in ("many", "much", "long", "often")),
    "attempt number": ("how-manieth",),
    "retried": ("made again", "tried again"),
    "fix, repair": ("mend", "mends", "mended", "mending"),
    "matching, eligible, feasible": (r"would do(?=[.,;:]| (have|has|at|on|in|here|there)\b)", "suiting"),
    "retry, return": ("come again", "comes again", "came again"),
    "specify, declare, report": ("say so", "says so", "said so", "says nothing of"),
    "has ended, is final, has expired": (r"is over(?=[.,;:)'\"]| and|$)", r"are over(?=[.,;:)'\"]| and|$)", "was over"),
    "respects": ("heeds", "heeded"),
    "identical": ("answer alike", "answers alike", "fail alike", "fails alike"),
}
_VOCABULARY: dict[str, tuple[str, ...]] = {
    "request": ("wish", "wishes", "wished"),
    "action": ("deed", "deeds"),
    "affinity": ("kin",),
    "blocked": ("aside", "asides"),
    "ScheduleDecision": ("ruling", "rulings"),
    "EvaluationBatch": ("docket", "dockets"),
    "Evaluation": ("hearing", "hearings"),
    "details": ("portrait", "portraits"),
    "connection_settings": ("whereabouts",),
    "hypothesis": ("supposal", "supposals"),
    "the kind of work": ("errand", "errands", "errand_fields"),
    "reservation, capacity": ("rooms", "kept room", "keep room", "keeps room", "room is kept", "a room"),
    "introspection": ("a look", "each look", "every look", "next look", "last look", "looks taken"),
    "queue": ("waiting line", "waiting lines", "head of the line", "stands in line", "waits in line", "next in line"),
    "exporters": ("teller", "tellers"),
    "doctor": ("checkup", "check-up"),
    "RateBudget": ("purse", "purses"),
    "starvation_guard": ("patience",),
    "propagation": ("ripple", "ripples"),
    "api_server, host_harness, cluster, http_client": ("gatehouse", "the yard", "the hall", "the town", "the office"),
}
_AMERICAN: dict[str, tuple[str, ...]] = {
    "color": ("colour", "colours", "coloured", "colouring"),
    "behavior": ("behaviour", "behaviours"),
    "neighbor": ("neighbour", "neighbours", "neighbouring", "neighbourhood"),
    "favor": ("favour", "favours", "favoured"),
    "honor": ("honour", "honours", "honoured"),
    "labor": ("labour",),
    "center": ("centre", "centres", "centred"),
    "gray": ("grey",),
    "license": ("licence", "licences"),
    "judgment": ("judgement",),
    "defense": ("defence",),
    "program": ("programme", "programmes"),
    "artifact": ("artefact", "artefacts"),
    "while, among": ("whilst", "amongst"),
    "fulfill": ("fulfil", "fulfils"),
    "labeled": ("labelled", "labelling", "unlabelled"),
    "modeled": ("modelled", "modelling"),
    "signaled": ("signalled", "signalling"),
    "traveled": ("travelled", "travelling"),
    "queuing": ("queueing",),
    "-ize, -yze": (
        *(rf"{stem}is(e|es|ed|ing|ation|er)" for stem in (
            "serial", "deserial", "normal", "initial", "recogn", "organ", "optim", "minim", "maxim", "summar",
            "synchron", "priorit", "custom", "general", "real", "author", "util", "parallel", "random", "final",
            "visual", "categor", "emphas", "standard", "special", "central", "material", "canonical",
        )),
        "analyse", "analysed", "analysing",
    ),
}  # fmt: skip


def _compiled(table: dict[str, tuple[str, ...]]) -> list[tuple[re.Pattern[str], str]]:
    return [
        (re.compile(pattern.replace(" ", r"\s+") + r"(?![a-z])"), better)
        for better, patterns in table.items()
        for pattern in patterns
    ]


_PATTERNS = _compiled(_PHRASES | _VOCABULARY | _AMERICAN)


def words_of_the_field(source: Source) -> Iterator[Complaint]:
    """Texts and names use the standard terms of the field, in American spelling."""
    if source.path in {"tests/house_rules/language.py", "tests/test_tidy.py"} or "/renam" in source.path:
        return
    if source.path.startswith("src/mainspring/store/"):
        for line, text in _messages(source):
            yield from _find(source, text, line)
    else:
        yield from _find(source, source.text, 1)


def _find(source: Source, text: str, first_line: int) -> Iterator[Complaint]:
    lowered = text.lower()
    for pattern, better in _PATTERNS:
        for found in pattern.finditer(lowered):
            if not lowered[found.start() - 1 : found.start()].isalpha():
                line = first_line + lowered.count("\n", 0, found.start())
                yield source.complain(line, f"`{' '.join(found[0].split())}`: write {better}")


def _messages(source: Source) -> Iterator[tuple[int, str]]:
    """The strings of a Python file that are not docstrings."""
    if source.path.endswith(".py"):
        documents = {node.value.lineno for node in source.nodes if isinstance(node, ast.Expr)}
        yield from ((line, text) for line, text in source.strings() if line not in documents)
