"""Failure policy of a job: failure classes, rules that assign them, and backoff (RTY-1, RTY-2).

`core/lifecycle/failures.py` classifies a failure, `core/lifecycle/retry_policy.py` decides what follows.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class FailureClass(StrEnum):
    """Class of a failure, which decides how it is retried (RTY-1)."""

    TRANSIENT = "transient"
    """Retried with backoff."""
    PERMANENT = "permanent"
    """Not retried: it would fail the same way."""
    RESOURCE = "resource"
    """Retried with more memory."""
    TIMEOUT = "timeout"
    """Retried with a longer limit."""
    RATE_LIMITED = "rate_limited"
    """Retried after a long delay."""
    INFRASTRUCTURE = "infrastructure"
    """Its worker was lost: not a failure of the task."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Exponential backoff: the base, times the factor per attempt, up to the cap, with jitter (RTY-2).

    A missing field takes the value for all classes, and then the default in `core/lifecycle/retry_policy.py`.
    """

    base_seconds: float | None = None
    factor: float | None = None
    cap_seconds: float | None = None
    max_attempts: int | None = None
    """Lower limit of attempts for failures of one class."""


class FailureRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A job's rule that assigns a failure class. All given conditions must hold; the first matching rule decides."""

    failure: FailureClass
    exit_codes: tuple[int, ...] = ()
    types: tuple[str, ...] = ()
    """Names of exceptions or error types, such as `TimeoutError` or `RATE_LIMIT_EXCEEDED`."""
    contains: str = ""
    """Substring of the message, case-insensitive."""


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Retry policy, besides `max_attempts` and `retry_delay_seconds` of the task."""

    factor: float | None = None
    """None, here and below: the installation's default (`core/model/settings.py`)."""
    cap_seconds: float | None = None
    linear: bool = False
    """The delay is the base times the attempt number, without jitter, as in pipeline files (RTY-2). It applies to every
    class without its own backoff, and is bounded only by a cap given here."""
    classes: dict[FailureClass, Backoff] = {}
    rules: tuple[FailureRule, ...] = ()
    memory_factor: float = 2.0
    memory_limit_bytes: int | None = None
    """Maximum memory request after running out of memory. Default: four times the definition's."""
