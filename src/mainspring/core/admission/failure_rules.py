"""Validation of retry policies (RTY-1, RTY-2). `validate_submission.py` applies it."""

from __future__ import annotations

from mainspring.core.admission.validate_job import (
    MAX_ATTEMPTS,
    MAX_DELAY_SECONDS,
    MAX_PLAUSIBLE,
    Faults,
    Limits,
    check_count,
    check_range,
    check_seconds,
)
from mainspring.core.lifecycle.failure_policy import Backoff, FailureRule, RetryPolicy

MAX_RETRIES = 10_000
"""Of all tasks of a run together."""
MAX_RULES = 32
MAX_NAMES = 64
MAX_TEXT_LENGTH = 200
MAX_FACTOR = 100.0
MAX_MEMORY_FACTOR = 16.0
_MAX_EXIT_CODE = 255
_NO_FACTOR = "has no effect with a linear policy: the delay is the base times the attempt number"


def check_policy(policy: RetryPolicy, where: str, limits: Limits, faults: Faults) -> None:
    """Check the policy of a job or task."""
    check_range(policy.factor, f"{where}.factor", faults, least=1, most=MAX_FACTOR)
    if policy.linear and policy.factor is not None:
        faults.add(f"{where}.factor", _NO_FACTOR)
    check_seconds(policy.cap_seconds, f"{where}.cap_seconds", faults, longest=MAX_DELAY_SECONDS)
    check_range(policy.memory_factor, f"{where}.memory_factor", faults, least=1, most=MAX_MEMORY_FACTOR)
    most = limits.max_resources.memory_bytes if limits.max_resources is not None else MAX_PLAUSIBLE.memory_bytes
    check_range(policy.memory_limit_bytes, f"{where}.memory_limit_bytes", faults, least=1, most=most)
    for kind, backoff in policy.classes.items():
        _check_backoff(backoff, f"{where}.classes.{kind}", faults)
        if policy.linear and backoff.factor is not None:
            faults.add(f"{where}.classes.{kind}.factor", _NO_FACTOR)
    if check_count(policy.rules, MAX_RULES, f"{where}.rules", faults):
        for number, rule in enumerate(policy.rules):
            _check_rule(rule, f"{where}.rules[{number}]", faults)


def _check_backoff(backoff: Backoff, where: str, faults: Faults) -> None:
    longest = MAX_DELAY_SECONDS
    check_seconds(backoff.base_seconds, f"{where}.base_seconds", faults, longest=longest, zero=True)
    check_seconds(backoff.cap_seconds, f"{where}.cap_seconds", faults, longest=longest)
    check_range(backoff.factor, f"{where}.factor", faults, least=1, most=MAX_FACTOR)
    check_range(backoff.max_attempts, f"{where}.max_attempts", faults, least=1, most=MAX_ATTEMPTS)


def _check_rule(rule: FailureRule, where: str, faults: Faults) -> None:
    codes, types = f"{where}.exit_codes", f"{where}.types"
    are_exit_codes = all(0 <= code <= _MAX_EXIT_CODE for code in rule.exit_codes)
    if check_count(rule.exit_codes, MAX_NAMES, codes, faults) and not are_exit_codes:
        faults.add(codes, f"must be from 0 to {_MAX_EXIT_CODE}")
    are_names = all(0 < len(name) <= MAX_TEXT_LENGTH for name in rule.types)
    if check_count(rule.types, MAX_NAMES, types, faults) and not are_names:
        faults.add(types, f"must be names of 1 to {MAX_TEXT_LENGTH} characters")
    if len(rule.contains) > MAX_TEXT_LENGTH:
        faults.add(f"{where}.contains", f"must have at most {MAX_TEXT_LENGTH} characters")
