"""Classification and signatures of failures (RTY-1, RTY-4).

A failed attempt leaves an error, JSON from its worker: `type` and `message`, perhaps `class`, `exit_code`, `signal`,
`last_lines` and `retry_after_seconds`. Any of them may be missing. The class comes from the first source that has one:

    the job's own rules ─► the worker's `class` ─► the error type ─► the exception ─► the exit code or signal
    ─► words in the message ─► transient

(A `class` of `transient` may only be the worker's default: a known error type takes precedence.)

A signature is shared by similar failures: the class, the type, the exit code, and the message without its variable
parts (numbers, ids, paths, quoted text). An error that only says how its process ended is similar only to those of its
own job.

The cost is bounded: only the beginning of a long error is examined.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Annotated

import msgspec
from msgspec.structs import replace

from mainspring.core.lifecycle.failure_policy import FailureClass, FailureRule

C = FailureClass
LONGEST_MESSAGE = 400
LONGEST_TYPE = 60
STALLED = "STALLED"
"""Type of a failure for lack of progress: a longer limit does not help."""
LONGEST_SUMMARY = 100
LONGEST_RETRY_AFTER_SECONDS = 7 * 86_400.0
LARGEST_ERROR = 256 * 1024
"""A longer error is not decoded: its beginning is the message."""

_TYPES: Mapping[str, FailureClass] = {
    "RATE_LIMIT_EXCEEDED": C.RATE_LIMITED,
    "TRANSIENT_NETWORK": C.TRANSIENT,
    "SERVICE_UNAVAILABLE": C.TRANSIENT,
    "TIMEOUT": C.TIMEOUT,
    "AUTHENTICATION_FAILED": C.PERMANENT,
    "AUTHORIZATION_FAILED": C.PERMANENT,
    "INVALID_CONFIGURATION": C.PERMANENT,
    "RESOURCE_NOT_FOUND": C.PERMANENT,
    "MemoryError": C.RESOURCE,
    "PermissionError": C.PERMANENT,
    "ImportError": C.PERMANENT,
    "ModuleNotFoundError": C.PERMANENT,
    "SyntaxError": C.PERMANENT,
    "NotImplementedError": C.PERMANENT,
    "ConnectionError": C.TRANSIENT,
    "ConnectionRefusedError": C.TRANSIENT,
    "ConnectionResetError": C.TRANSIENT,
    "ConnectionAbortedError": C.TRANSIENT,
    "BrokenPipeError": C.TRANSIENT,
    "InterruptedError": C.TRANSIENT,
    # A peer of the task was slow: a longer limit for the task would not help.
    "TimeoutError": C.TRANSIENT,
}
"""Error types of the customer pipelines' API, and Python exceptions with a clear meaning."""

_EXIT_CODES: Mapping[int, FailureClass] = {
    69: C.TRANSIENT,  # EX_UNAVAILABLE
    75: C.TRANSIENT,  # EX_TEMPFAIL
    77: C.PERMANENT,  # EX_NOPERM
    78: C.PERMANENT,  # EX_CONFIG
    126: C.PERMANENT,  # found, and can't be executed
    127: C.PERMANENT,  # not found
    137: C.RESOURCE,  # SIGKILL that we did not send: usually the out-of-memory killer
}
_SIGNALS: Mapping[str, FailureClass] = {"SIGKILL": C.RESOURCE, "SIGXCPU": C.TIMEOUT}

_WORDS: Sequence[tuple[FailureClass, re.Pattern[str]]] = (
    (C.RESOURCE, re.compile(r"out of memory|cannot allocate memory|oom[- ]?kill", re.IGNORECASE)),
    (C.RATE_LIMITED, re.compile(r"too many requests|rate limit|throttl(?:ed|ing)|quota exceeded", re.IGNORECASE)),
    (C.TRANSIENT, re.compile(r"connection (?:refused|reset|aborted|timed out|timeout)", re.IGNORECASE)),
    (C.TRANSIENT, re.compile(r"(?:temporarily|service) unavailable|bad gateway|gateway time-?out", re.IGNORECASE)),
    (C.PERMANENT, re.compile(r"(?:permission|access) denied|unauthori[sz]ed|\bforbidden\b", re.IGNORECASE)),
    (C.PERMANENT, re.compile(r"authentication failed|invalid credentials|command not found", re.IGNORECASE)),
)

_VARYING = re.compile(
    r"""(?<!\w)'[^'\n]{0,300}'(?!\w)      # what is quoted
      | "[^"\n]{0,300}" | `[^`\n]{0,300}`
      | \b[a-z][a-z0-9+.-]*://[^\s'"]+     # addresses
      | (?:[A-Za-z]:)?(?:[/\\][^\s/\\'",;]+)+[/\\]?   # paths
      | \b[0-9a-fA-F]{8,}\b                # digests without a digit are rare, but there are some
      | [\w.:@+%-]*\d[\w.:@+%-]*           # every word with a digit: numbers, ids, times, hosts
      | [\x00-\x08\x0e-\x1f\x7f]+           # what no store takes, or nobody can read
    """,
    re.VERBOSE,
)
_NOT_IN_A_TYPE = re.compile(r"[^\w.-]+")


class Failure(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A classified failure."""

    kind: FailureClass
    type: str
    message: str
    exit_code: int | None = None
    signal: str | None = None
    retry_after_seconds: float | None = None
    """Minimum delay before a retry, given by the failing service."""
    signature: str
    """Shared by similar failures: class, type, and a short digest."""
    summary: str
    """The common part of similar failures."""


class _Said(msgspec.Struct, frozen=True):
    """An error as written by a worker; each field may have any type."""

    kind: msgspec.Raw = msgspec.field(name="class", default=msgspec.Raw(b"null"))
    type: msgspec.Raw = msgspec.Raw(b"null")
    message: msgspec.Raw = msgspec.Raw(b"null")
    exit_code: msgspec.Raw = msgspec.Raw(b"null")
    signal: msgspec.Raw = msgspec.Raw(b"null")
    last_lines: msgspec.Raw = msgspec.Raw(b"null")
    retry_after_seconds: msgspec.Raw = msgspec.Raw(b"null")


_SAID = msgspec.json.Decoder(_Said)
_TEXT = msgspec.json.Decoder(str)
_NUMBER = msgspec.json.Decoder(int)
_SECONDS: msgspec.json.Decoder[float] = msgspec.json.Decoder(
    Annotated[float, msgspec.Meta(ge=0, le=LONGEST_RETRY_AFTER_SECONDS)]
)


def classify(error: str | None, rules: Sequence[FailureRule] = (), *, job: str = "") -> Failure:
    """Classify an error. `job` (tenant and name) is part of the signature of an error without a message of its own."""
    said = _read(error)
    kind_said, kind_of = _text(said.kind), _NOT_IN_A_TYPE.sub("_", _text(said.type))[:LONGEST_TYPE]
    code = _number(said.exit_code)
    signal = _text(said.signal)[:LONGEST_TYPE] or None
    message = _text(said.message)[:LONGEST_MESSAGE]
    last = _last_line(_text(said.last_lines))
    text = f"{message}\n{last}" if last else message
    kind = _by_rules(rules, kind_of, code, text)
    if kind is None:
        kind = _by_what_is_known(kind_said, kind_of, code, signal, text)
    only_ended = code is not None or signal is not None
    telling = last if only_ended else message
    alike = telling or message
    failure = _failure(kind, kind_of, message, alike, code, signal, of_job="" if telling else job)
    wait = _seconds(said.retry_after_seconds)
    return failure if wait is None else replace(failure, retry_after_seconds=wait)


def say_failure(error: str | None) -> str:
    """Format an error: `KeyError: 'price'`, or how a process ended and its last line; empty if there is neither."""
    said = _read(error)
    kind_of, message = _text(said.type)[:LONGEST_TYPE], _text(said.message)[:LONGEST_MESSAGE]
    has_ended = _number(said.exit_code) is not None or bool(_text(said.signal))
    words = message if has_ended or not kind_of else f"{kind_of}: {message}" if message else kind_of
    last = _last_line(_text(said.last_lines))
    printed = f'its last line was "{last[:LONGEST_SUMMARY]}"' if last else ""
    return "; ".join(filter(None, (words, printed)))


def timed_out(seconds: float, *, job: str) -> Failure:
    """Return the failure of a task that exceeded its hard limit."""
    return _failure(C.TIMEOUT, "TIMEOUT", f"took longer than {seconds:g} s", "took longer than its limit", of_job=job)


def stalled(seconds: float, *, job: str) -> Failure:
    """Return the failure of a task without progress."""
    return _failure(C.TIMEOUT, STALLED, f"made no progress for {seconds:g} s", "made no progress", of_job=job)


def lost(because: str) -> Failure:
    """Return the failure of an attempt whose worker was lost."""
    return _failure(C.INFRASTRUCTURE, "LOST", because, "lost")


def _failure(
    kind: FailureClass,
    kind_of: str,
    message: str,
    alike: str,
    exit_code: int | None = None,
    signal: str | None = None,
    *,
    of_job: str = "",
) -> Failure:
    """Build a failure with its signature, from the text `alike` that similar failures share."""
    name, common = kind_of or "error", normalize(alike)
    told_apart = f"{of_job}\n{exit_code}\n{signal}\n{common}".encode("utf-8", "replace")
    said = f"{name}: {common}" if common else name
    summary = f"{said[:LONGEST_SUMMARY]} in {of_job}" if of_job else said[:LONGEST_SUMMARY]
    return Failure(
        kind=kind, type=kind_of, message=message, exit_code=exit_code, signal=signal, summary=summary,
        signature=f"{kind}:{name}:{blake2b(told_apart, digest_size=5).hexdigest()}",
    )  # fmt: skip


def normalize(text: str) -> str:
    """Remove the variable parts of a message."""
    return " ".join(_VARYING.sub("#", text[:LONGEST_MESSAGE]).split())


def _read(error: str | None) -> _Said:
    if not error:
        return _Said()
    if len(error) > LARGEST_ERROR:
        return _Said(message=_raw(error))
    try:
        return _SAID.decode(error)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass  # Not an object: the text is the message.
    try:
        return _Said(message=_raw(_TEXT.decode(error)))
    except (msgspec.MsgspecError, ValueError):
        return _Said(message=_raw(error))


def _raw(text: str) -> msgspec.Raw:
    text = text[:LONGEST_MESSAGE].encode("utf-8", "replace").decode()
    return msgspec.Raw(msgspec.json.encode(text))


def _text(raw: msgspec.Raw) -> str:
    """Decode a field that should be text; other types are returned as JSON."""
    try:
        return _TEXT.decode(raw)
    except (msgspec.MsgspecError, ValueError):
        text = bytes(raw)[:LONGEST_MESSAGE].decode("utf-8", "replace")
        return "" if text == "null" else text


def _number(raw: msgspec.Raw) -> int | None:
    try:
        return _NUMBER.decode(raw)
    except (msgspec.MsgspecError, ValueError):
        return None


def _seconds(raw: msgspec.Raw) -> float | None:
    try:
        return _SECONDS.decode(raw)
    except (msgspec.MsgspecError, ValueError):
        return None


def _last_line(text: str) -> str:
    lines = text[-LONGEST_MESSAGE:].split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _by_rules(rules: Sequence[FailureRule], kind_of: str, code: int | None, text: str) -> FailureClass | None:
    for rule in rules:
        if rule.exit_codes and code not in rule.exit_codes:
            continue
        if rule.types and kind_of not in rule.types and _short(kind_of) not in rule.types:
            continue
        if rule.contains and rule.contains.casefold() not in text.casefold():
            continue
        return rule.failure
    return None


def _by_what_is_known(said: str, kind_of: str, code: int | None, signal: str | None, text: str) -> FailureClass:
    if said != C.TRANSIENT and said in C.__members__.values():
        return FailureClass(said)
    found = _TYPES.get(_short(kind_of))
    if found is None and said == C.TRANSIENT:
        found = C.TRANSIENT
    if found is None and code is not None:
        found = _EXIT_CODES.get(code)
    if found is None and signal is not None:
        found = _SIGNALS.get(signal)
    if found is None:
        found = next((kind for kind, words in _WORDS if words.search(text)), None)
    return found or C.TRANSIENT


def _short(kind_of: str) -> str:
    """Return the name of an exception without its module."""
    return kind_of.rpartition(".")[2]
