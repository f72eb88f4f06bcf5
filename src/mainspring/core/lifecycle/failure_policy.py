"""What a job says about failures: their classes, its rules for telling them apart, how long to wait (RTY-1, RTY-2).

`core/lifecycle/failures.py` tells which class a failure has, `core/lifecycle/retry_policy.py` what follows from it.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class FailureClass(StrEnum):
    """What kind of failure it was, and so what helps (RTY-1)."""

    TRANSIENT = "transient"
    """Again, after a while."""
    PERMANENT = "permanent"
    """Never again: it would fail the same way."""
    RESOURCE = "resource"
    """Again, with more memory."""
    TIMEOUT = "timeout"
    """Again, with a longer limit."""
    RATE_LIMITED = "rate_limited"
    """Again, after a long while."""
    INFRASTRUCTURE = "infrastructure"
    """Its worker was lost: no failure of the task."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How long to wait before a try: base, then times the factor each time, up to the cap, with jitter (RTY-2).

    What is not said is as it is for all classes, and there as `core/lifecycle/retry_policy.py` says.
    """

    base_seconds: float | None = None
    factor: float | None = None
    cap_seconds: float | None = None
    max_attempts: int | None = None
    """Fewer tries for failures of one class."""


class FailureRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A job's own word on what kind a failure is. All that is said must be true; the first rule that fits decides."""

    failure: FailureClass
    exit_codes: tuple[int, ...] = ()
    types: tuple[str, ...] = ()
    """Names of exceptions or error types, such as `TimeoutError` or `RATE_LIMIT_EXCEEDED`."""
    contains: str = ""
    """Found in the message, whatever the case."""


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """When and how failures are tried again, beside `max_attempts` and `retry_delay_seconds` of the task."""

    factor: float | None = None
    """None, here and below: as it is set for all jobs (`core/model/settings.py`)."""
    cap_seconds: float | None = None
    linear: bool = False
    """The delay is the base times the number of the try, without jitter, as pipeline files say it (RTY-2). It is so for
    every class of which nothing else is said, and bounded only by a cap that is said here."""
    classes: dict[FailureClass, Backoff] = {}
    rules: tuple[FailureRule, ...] = ()
    memory_factor: float = 2.0
    memory_limit_bytes: int | None = None
    """The most that is asked for after running out of memory: four times the definition's, unless said."""
