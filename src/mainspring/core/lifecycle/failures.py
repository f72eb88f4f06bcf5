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
from typing import Annotated, TypeVar

import msgspec
from msgspec.structs import replace

from mainspring.core.lifecycle.failure_policy import FailureClass, FailureRule

C = FailureClass
N = TypeVar("N", int, float)
MAX_MESSAGE_LENGTH = 400
MAX_TYPE_LENGTH = 60
STALLED = "STALLED"
"""Type of a failure for lack of progress: a longer limit does not help."""
MAX_SUMMARY_LENGTH = 100
MAX_RETRY_AFTER_SECONDS = 7 * 86_400.0
MAX_ERROR_LENGTH = 256 * 1024
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
    r"""(?<!\w)'[^'\n]{0,300}'(?!\w)      # quoted text
      | "[^"\n]{0,300}" | `[^`\n]{0,300}`
      | \b[a-z][a-z0-9+.-]*://[^\s'"]+     # addresses
      | (?:[A-Za-z]:)?(?:[/\\][^\s/\\'",;]+)+[/\\]?   # paths
      | \b[0-9a-fA-F]{8,}\b                # digests without a digit are rare, but there are some
      | [\w.:@+%-]*\d[\w.:@+%-]*           # every word with a digit: numbers, ids, times, hosts
      | [\x00-\x08\x0e-\x1f\x7f]+           # control characters
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


class _RawError(msgspec.Struct, frozen=True):
    """An error as written by a worker; each field may have any type."""

    kind: msgspec.Raw = msgspec.field(name="class", default=msgspec.Raw(b"null"))
    type: msgspec.Raw = msgspec.Raw(b"null")
    message: msgspec.Raw = msgspec.Raw(b"null")
    exit_code: msgspec.Raw = msgspec.Raw(b"null")
    signal: msgspec.Raw = msgspec.Raw(b"null")
    last_lines: msgspec.Raw = msgspec.Raw(b"null")
    retry_after_seconds: msgspec.Raw = msgspec.Raw(b"null")


_RAW_ERROR = msgspec.json.Decoder(_RawError)
_TEXT = msgspec.json.Decoder(str)
_INTEGER = msgspec.json.Decoder(int)
_SECONDS: msgspec.json.Decoder[float] = msgspec.json.Decoder(
    Annotated[float, msgspec.Meta(ge=0, le=MAX_RETRY_AFTER_SECONDS)]
)


def classify(error: str | None, rules: Sequence[FailureRule] = (), *, job: str = "") -> Failure:
    """Classify an error. `job` (tenant and name) is part of the signature of an error without a message of its own."""
    reported = _read(error)
    reported_class, error_type = _text(reported.kind), _NOT_IN_A_TYPE.sub("_", _text(reported.type))[:MAX_TYPE_LENGTH]
    code = _number(reported.exit_code, _INTEGER)
    signal = _text(reported.signal)[:MAX_TYPE_LENGTH] or None
    message = _text(reported.message)[:MAX_MESSAGE_LENGTH]
    last = _last_line(_text(reported.last_lines))
    text = f"{message}\n{last}" if last else message
    kind = _by_rules(rules, error_type, code, text)
    if kind is None:
        kind = _by_built_in_rules(reported_class, error_type, code, signal, text)
    is_process_exit = code is not None or signal is not None
    specific_text = last if is_process_exit else message
    signature_text = specific_text or message
    failure = _failure(kind, error_type, message, signature_text, code, signal, of_job="" if specific_text else job)
    wait = _number(reported.retry_after_seconds, _SECONDS)
    return failure if wait is None else replace(failure, retry_after_seconds=wait)


def format_failure(error: str | None) -> str:
    """Format an error: `KeyError: 'price'`, or how a process ended and its last line; empty if there is neither."""
    reported = _read(error)
    error_type, message = _text(reported.type)[:MAX_TYPE_LENGTH], _text(reported.message)[:MAX_MESSAGE_LENGTH]
    has_ended = _number(reported.exit_code, _INTEGER) is not None or bool(_text(reported.signal))
    words = message if has_ended or not error_type else f"{error_type}: {message}" if message else error_type
    last = _last_line(_text(reported.last_lines))
    printed = f'its last line was "{last[:MAX_SUMMARY_LENGTH]}"' if last else ""
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
    error_type: str,
    message: str,
    signature_text: str,
    exit_code: int | None = None,
    signal: str | None = None,
    *,
    of_job: str = "",
) -> Failure:
    """Build a failure with its signature, from the text `signature_text` that similar failures share."""
    name, common = error_type or "error", normalize(signature_text)
    digest_input = f"{of_job}\n{exit_code}\n{signal}\n{common}".encode("utf-8", "replace")
    reported = f"{name}: {common}" if common else name
    summary = f"{reported[:MAX_SUMMARY_LENGTH]} in {of_job}" if of_job else reported[:MAX_SUMMARY_LENGTH]
    return Failure(
        kind=kind, type=error_type, message=message, exit_code=exit_code, signal=signal, summary=summary,
        signature=f"{kind}:{name}:{blake2b(digest_input, digest_size=5).hexdigest()}",
    )  # fmt: skip


def normalize(text: str) -> str:
    """Remove the variable parts of a message."""
    return " ".join(_VARYING.sub("#", text[:MAX_MESSAGE_LENGTH]).split())


def _read(error: str | None) -> _RawError:
    if not error:
        return _RawError()
    if len(error) > MAX_ERROR_LENGTH:
        return _RawError(message=_raw(error))
    try:
        return _RAW_ERROR.decode(error)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass  # Not an object: the text is the message.
    try:
        return _RawError(message=_raw(_TEXT.decode(error)))
    except (msgspec.MsgspecError, ValueError):
        return _RawError(message=_raw(error))


def _raw(text: str) -> msgspec.Raw:
    text = text[:MAX_MESSAGE_LENGTH].encode("utf-8", "replace").decode()
    return msgspec.Raw(msgspec.json.encode(text))


def _text(raw: msgspec.Raw) -> str:
    """Decode a field that should be text; other types are returned as JSON."""
    try:
        return _TEXT.decode(raw)
    except (msgspec.MsgspecError, ValueError):
        text = bytes(raw)[:MAX_MESSAGE_LENGTH].decode("utf-8", "replace")
        return "" if text == "null" else text


def _number(raw: msgspec.Raw, decoder: msgspec.json.Decoder[N]) -> N | None:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError):
        return None


def _last_line(text: str) -> str:
    lines = text[-MAX_MESSAGE_LENGTH:].split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _by_rules(rules: Sequence[FailureRule], error_type: str, code: int | None, text: str) -> FailureClass | None:
    for rule in rules:
        if rule.exit_codes and code not in rule.exit_codes:
            continue
        if rule.types and error_type not in rule.types and _short(error_type) not in rule.types:
            continue
        if rule.contains and rule.contains.casefold() not in text.casefold():
            continue
        return rule.failure
    return None


def _by_built_in_rules(reported: str, error_type: str, code: int | None, signal: str | None, text: str) -> FailureClass:
    if reported != C.TRANSIENT and reported in C.__members__.values():
        return FailureClass(reported)
    return (
        _TYPES.get(_short(error_type))
        or (C.TRANSIENT if reported == C.TRANSIENT else None)
        or _EXIT_CODES.get(code or 0)
        or _SIGNALS.get(signal or "")
        or next((kind for kind, words in _WORDS if words.search(text)), C.TRANSIENT)
    )


def _short(error_type: str) -> str:
    """Return the name of an exception without its module."""
    return error_type.rpartition(".")[2]
