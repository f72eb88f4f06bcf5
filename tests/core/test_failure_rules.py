"""Validation of retry policies (RTY-1, RTY-2)."""

from __future__ import annotations

import pytest

from mainspring.core.admission.failure_rules import MAX_RETRIES
from mainspring.core.admission.validate_submission import Limits, decode_job
from mainspring.core.lifecycle.failure_policy import FailureClass, RetryPolicy
from mainspring.core.model.resources import Resources
from tests.core.submissions import LIMITS, Value, body_of, refusal_of

GOOD = {
    "factor": 2,
    "cap_seconds": 3600,
    "memory_factor": 1.5,
    "memory_limit_bytes": 2**31,
    "classes": {"rate_limited": {"base_seconds": 60, "max_attempts": 4}, "timeout": {"cap_seconds": 5, "factor": 1}},
    "rules": [{"failure": "permanent", "exit_codes": [3, 4], "types": ["ValueError"], "contains": "no such table"}],
}


def test_a_job_and_a_task_can_have_a_policy() -> None:
    """Given values are used, missing ones have defaults."""
    spec = decode_job(body_of({"name": "a", "retry": GOOD}, {"name": "b"}, retry=GOOD, max_retries=7), LIMITS)
    policy = spec.tasks[0].retry
    assert policy == spec.retry
    assert policy is not None
    assert policy.classes[FailureClass.RATE_LIMITED].max_attempts == 4
    assert spec.tasks[1].retry is None
    assert spec.max_retries == 7
    assert decode_job(body_of({"name": "a"}), LIMITS).retry == RetryPolicy()


@pytest.mark.parametrize("of_task", [True, False])
@pytest.mark.parametrize(
    ("policy", "where", "why"),
    [
        ({"factor": 0.5}, "factor", "must be from 1 to 100, not 0.5"),
        ({"factor": 1e9}, "factor", "must be from 1 to 100"),
        ({"cap_seconds": 0}, "cap_seconds", "must be from more than 0"),
        ({"memory_factor": 17}, "memory_factor", "must be from 1 to 16"),
        ({"memory_limit_bytes": 0}, "memory_limit_bytes", "must be from 1 to"),
        ({"memory_limit_bytes": 2**60}, "memory_limit_bytes", "must be from 1 to"),
        ({"classes": {"timeout": {"base_seconds": -1}}}, "classes.timeout.base_seconds", "must be from 0"),
        ({"classes": {"timeout": {"cap_seconds": 1e9}}}, "classes.timeout.cap_seconds", "must be from more than 0"),
        ({"classes": {"timeout": {"factor": 0}}}, "classes.timeout.factor", "must be from 1"),
        ({"linear": True, "factor": 2}, "factor", "no effect with a linear policy"),
        ({"linear": True, "classes": {"timeout": {"factor": 2}}}, "classes.timeout.factor", "with a linear policy"),
        ({"classes": {"timeout": {"max_attempts": 6}}}, "classes.timeout.max_attempts", "must be from 1 to 5"),
        ({"rules": [{"failure": "permanent"}] * 33}, "rules", "has 33 entries; the maximum is 32"),
        ({"rules": [{"failure": "permanent", "exit_codes": [256]}]}, "rules[0].exit_codes", "must be from 0 to 255"),
        ({"rules": [{"failure": "permanent", "exit_codes": [1] * 65}]}, "rules[0].exit_codes", "has 65 entries"),
        ({"rules": [{"failure": "permanent", "types": [""]}]}, "rules[0].types", "1 to 200 characters"),
        ({"rules": [{"failure": "permanent", "types": ["x"] * 65}]}, "rules[0].types", "has 65 entries"),
        ({"rules": [{"failure": "permanent", "contains": "x" * 201}]}, "rules[0].contains", "at most 200"),
    ],
)
def test_each_rule_is_reported_with_its_path(policy: Value, where: str, why: str, of_task: bool) -> None:
    """ADM-1: one wrong thing, one fault."""
    body = body_of({"name": "a", "retry": policy}) if of_task else body_of({"name": "a"}, retry=policy)
    [(path, reason)] = refusal_of(body).items()
    assert path == f"{'tasks[0].' if of_task else ''}retry.{where}"
    assert why in reason


@pytest.mark.parametrize("max_retries", [-1, 10_001])
def test_the_retry_budget_of_a_run_is_at_most_ten_thousand(max_retries: int) -> None:
    """RTY-3."""
    assert set(refusal_of(body_of({"name": "a"}, max_retries=max_retries))) == {"max_retries"}
    assert max_retries in (-1, MAX_RETRIES + 1)


def test_the_soft_limit_must_be_below_the_hard_limit() -> None:
    """LIV-4: an alert after the end is useless."""
    refused = refusal_of(body_of({"name": "a", "soft_timeout_seconds": 60, "timeout_seconds": 60}))
    assert set(refused) == {"tasks[0].soft_timeout_seconds"}


def test_the_memory_limit_is_bounded_by_the_tenants_limit() -> None:
    """Also after running out of memory."""
    limits = Limits(max_resources=Resources(cpu_millis=10**6, memory_bytes=2**30, gpus=0, disk_bytes=2**40))
    refused = refusal_of(body_of({"name": "a"}, retry={"memory_limit_bytes": 2**31}), limits)
    assert set(refused) == {"retry.memory_limit_bytes"}
    assert str(2**30) in refused["retry.memory_limit_bytes"]
