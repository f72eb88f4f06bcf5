"""Classification and signatures of failures (RTY-1, RTY-4)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.lifecycle.failure_policy import FailureClass, FailureRule
from mainspring.core.lifecycle.failures import (
    MAX_MESSAGE_LENGTH,
    MAX_SUMMARY_LENGTH,
    classify,
    format_failure,
    normalize,
    stalled,
    timed_out,
)

C = FailureClass
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def error(**said: object) -> str:
    """An error as a worker writes it."""
    said = {("class" if name == "kind" else name): value for name, value in said.items()}
    return msgspec.json.encode(said).decode()


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"type": "RATE_LIMIT_EXCEEDED"}, C.RATE_LIMITED),
        ({"type": "TRANSIENT_NETWORK"}, C.TRANSIENT),
        ({"type": "SERVICE_UNAVAILABLE"}, C.TRANSIENT),
        ({"type": "TIMEOUT"}, C.TIMEOUT),
        ({"type": "AUTHENTICATION_FAILED"}, C.PERMANENT),
        ({"type": "AUTHORIZATION_FAILED"}, C.PERMANENT),
        ({"type": "INVALID_CONFIGURATION"}, C.PERMANENT),
        ({"type": "RESOURCE_NOT_FOUND"}, C.PERMANENT),
        ({"type": "MemoryError", "message": ""}, C.RESOURCE),
        ({"type": "PermissionError", "message": "no"}, C.PERMANENT),
        ({"type": "ConnectionResetError", "message": "access denied"}, C.TRANSIENT),
        ({"type": "TimeoutError"}, C.TRANSIENT),
        ({"type": "ValueError", "message": "bad"}, C.TRANSIENT),
        ({"type": "exit", "exit_code": 1}, C.TRANSIENT),
        ({"type": "exit", "exit_code": 75}, C.TRANSIENT),
        ({"type": "exit", "exit_code": 78}, C.PERMANENT),
        ({"type": "exit", "exit_code": 126}, C.PERMANENT),
        ({"type": "exit", "exit_code": 127}, C.PERMANENT),
        ({"type": "exit", "exit_code": 137}, C.RESOURCE),
        ({"type": "signal", "signal": "SIGKILL"}, C.RESOURCE),
        ({"type": "signal", "signal": "SIGSEGV"}, C.TRANSIENT),
        ({"type": "exit", "exit_code": 1, "last_lines": "ok\npsql: connection refused\n\n"}, C.TRANSIENT),
        ({"type": "exit", "exit_code": 1, "last_lines": "rm: Permission denied"}, C.PERMANENT),
        ({"type": "exit", "exit_code": 1, "last_lines": "Permission denied, continuing\nlater trouble"}, C.TRANSIENT),
        ({"type": "HTTPError", "message": "429 Too Many Requests"}, C.RATE_LIMITED),
        ({"type": "Error", "message": "java.lang: Out of memory"}, C.RESOURCE),
        ({"kind": "permanent", "type": "TRANSIENT_NETWORK"}, C.PERMANENT),
        ({"kind": "infrastructure", "type": "child"}, C.INFRASTRUCTURE),
        ({"kind": "transient", "type": "PermissionError"}, C.PERMANENT),
        ({"kind": "transient", "type": "TaskError", "message": "access denied for now"}, C.TRANSIENT),
        ({"type": "billing.errors.PermissionError"}, C.PERMANENT),
        ({"kind": "what is this", "type": "exit"}, C.TRANSIENT),
    ],
)  # fmt: skip
def test_each_source_decides_in_its_turn(said: dict[str, object], kind: FailureClass) -> None:
    """RTY-1: types, exceptions, exit codes, signals and words, after the worker's own class."""
    assert classify(error(**said)).kind is kind


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (FailureRule(failure=C.PERMANENT, exit_codes=(3,)), True),
        (FailureRule(failure=C.PERMANENT, exit_codes=(4,)), False),
        (FailureRule(failure=C.PERMANENT, types=("exit",)), True),
        (FailureRule(failure=C.PERMANENT, types=("exit",), exit_codes=(4,)), False),
        (FailureRule(failure=C.PERMANENT, types=("shell.exit",)), False),
        (FailureRule(failure=C.PERMANENT, contains="NO SUCH table"), True),
        (FailureRule(failure=C.PERMANENT, contains="no such file", exit_codes=(3,)), False),
        (FailureRule(failure=C.PERMANENT), True),
    ],
)
def test_all_conditions_of_a_rule_must_hold(rule: FailureRule, fits: bool) -> None:
    """RTY-1: a job can add its own rules."""
    said = error(kind="resource", type="exit", exit_code=3, message="exited with 3", last_lines="no such table: x")
    assert classify(said, [rule]).kind is (C.PERMANENT if fits else C.RESOURCE)


def test_the_first_matching_rule_decides() -> None:
    """Before any built-in knowledge."""
    rules = [FailureRule(failure=C.RATE_LIMITED, contains="slow"), FailureRule(failure=C.PERMANENT, contains="down")]
    assert classify(error(type="MemoryError", message="slow down"), rules).kind is C.RATE_LIMITED


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("can't reach 10.0.0.7:5432", "can't reach 10.1.20.9:6000"),
        ("no row 'oslo' in table", "no row 'rome' in table"),
        ('bad value "a b"', 'bad value "c"'),
        ("run run_018f3c2e9a41-9d2c failed", "run run_018f3c2e9b00-0000 failed"),
        ("at deadbeefdeadbeef", "at cafebabecafebabe"),
        ("no file /data/oslo/x.csv here", "no file /data/rome/yy/z.csv here"),
        ("get https://a.example/x", "get https://b.example/y?z"),
        ("took  3 s", "took 4 s"),
    ],
)
def test_variable_parts_do_not_change_the_signature(one: str, other: str) -> None:
    """RTY-4: these are similar."""
    assert classify(error(type="E", message=one)).signature == classify(error(type="E", message=other)).signature


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"type": "E", "message": "a"}, {"type": "E", "message": "b"}),
        ({"type": "E", "message": "a"}, {"type": "F", "message": "a"}),
        ({"kind": "resource", "type": "E"}, {"kind": "timeout", "type": "E"}),
        ({"type": "exit", "exit_code": 1, "last_lines": "x"}, {"type": "exit", "exit_code": 2, "last_lines": "x"}),
    ],
)
def test_what_changes_the_signature(one: dict[str, object], other: dict[str, object]) -> None:
    """Class, type, exit code and words."""
    assert classify(error(**one)).signature != classify(error(**other)).signature


def test_an_error_without_a_message_is_similar_only_within_its_job() -> None:
    """Exit code 1 alone does not make failures similar."""
    bare = error(type="exit", exit_code=1, message="exited with 1")
    assert classify(bare, job="acme/a1").signature != classify(bare, job="acme/a2").signature
    assert classify(None, job="acme/a").signature != classify(None, job="acme/b").signature
    assert timed_out(5, job="acme/a").signature != timed_out(5, job="acme/b").signature
    telling = error(type="exit", exit_code=1, message="exited with 1", last_lines="db: connection refused")
    assert classify(telling, job="acme/a").signature == classify(telling, job="acme/b").signature


@pytest.mark.parametrize(("said", "seconds"), [(60, 60.0), (0.5, 0.5), (-1, None), (1e9, None), ("60", None)])
def test_retry_after_is_accepted_within_a_week(said: object, seconds: float | None) -> None:
    """RTY-2: any other value is ignored."""
    assert classify(error(kind="rate_limited", type="E", retry_after_seconds=said)).retry_after_seconds == seconds


def test_exceeded_limits_are_timeouts() -> None:
    """LIV-2, LIV-4: similar, whatever the limit."""
    assert timed_out(5, job="a/b").kind is stalled(5, job="a/b").kind is C.TIMEOUT
    assert timed_out(5, job="a/b").signature == timed_out(7, job="a/b").signature != stalled(5, job="a/b").signature


@given(st.none() | st.text() | JSON.map(lambda value: msgspec.json.encode(value).decode()) | st.text().map(repr))
def test_any_error_can_be_classified(said: str | None) -> None:
    """SEC-6: a report may be anything; the result is bounded and storable."""
    failure = classify(said, [FailureRule(failure=C.PERMANENT, contains="x", exit_codes=(1,))], job="acme/job")
    assert failure == classify(said, [FailureRule(failure=C.PERMANENT, contains="x", exit_codes=(1,))], job="acme/job")
    assert len(failure.message) <= MAX_MESSAGE_LENGTH
    for text in (failure.signature, failure.summary):
        assert len(text) <= MAX_SUMMARY_LENGTH + len(" in acme/job")
        assert "\0" not in text
        assert text.encode()


@given(st.fixed_dictionaries(dict.fromkeys(("class", "type", "message", "exit_code", "signal", "last_lines"), JSON)))
def test_each_field_can_have_any_type(said: dict[str, object]) -> None:
    """Workers in any language report errors."""
    assert classify(msgspec.json.encode(said).decode()).kind in FailureClass


@pytest.mark.parametrize("text", ["a" * 300_000, "'" * 300_000, "/a" * 100_000, "1:" * 100_000, '{"message":"' * 9999])
def test_only_the_beginning_of_a_long_error_matters(text: str) -> None:
    """The rest is not examined."""
    assert classify(text) == classify(text + "x")
    assert len(normalize(text)) <= MAX_MESSAGE_LENGTH


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, ""),
        ('{"type": "KeyError", "message": "\'price\'"}', "KeyError: 'price'"),
        ('{"type": "Exit", "message": "exited with 1", "exit_code": 1}', "exited with 1"),
        (
            '{"type": "Exit", "message": "exited with 1", "exit_code": 1, "last_lines": "Oslo:\\nHTTP 503\\n\\n"}',
            'exited with 1; its last line was "HTTP 503"',
        ),
        ('{"type": "Boom"}', "Boom"),
        ('["not", "ours"]', '["not", "ours"]'),
    ],
)
def test_an_error_is_formatted_as_reported(error: str | None, words: str) -> None:
    assert format_failure(error) == words
