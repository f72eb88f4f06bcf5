"""A submission is validated as a whole, and every fault is reported (ADM-1, SEC-6)."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.admission.validate_submission import Limits, check_job, decode_job
from mainspring.core.model.job import Edge, JobSpec, TaskSpec, compile_job
from mainspring.protocol.errors import Fault, Refused
from tests.core.submissions import LIMITS, Value, a_big_job, body_of, refusal_of


def test_decoding_a_job_is_lossless() -> None:
    """ADM-1: nothing is lost or added."""
    job = decode_job(
        b"""{ "name": "nightly", "on_failure": "skip_failed", "timeout_seconds": 3600,
              "tasks": [ {"name": "extract", "work": {"run": ["x", "1"]}, "labels": {"disk": "ssd"}, "zone": "eu-1"},
                         {"name": "load", "needs": [{"task": "extract", "when": "output.rows > 0"}],
                          "max_attempts": 5, "retry_delay_seconds": 0, "on_skip": "run", "expected_seconds": 0.5,
                          "resources": {"cpu_millis": 0, "memory_bytes": 1}} ] }""",
        LIMITS,
    )
    assert (job.name, job.on_failure, job.timeout_seconds) == ("nightly", "skip_failed", 3600)
    assert bytes(job.tasks[0].work) == b'{"run": ["x", "1"]}'
    assert job.tasks[1].needs == (Edge("extract", when="output.rows > 0"),)
    assert check_job(job, LIMITS) == []
    assert compile_job("job_1", job).upstream == ((), (0,))


@pytest.mark.parametrize(
    ("body", "where", "why"),
    [
        (b"", "body", "is not JSON"),
        (b"{", "body", "is not JSON"),
        (b"\xff", "body", "not UTF-8 (byte 0)"),
        (b'{"name":"\xed\xa0\x80","tasks":[]}', "body", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "body", "is not JSON"),
        (b"[]", "body", "must be an object"),
        (b"null", "body", "must be an object"),
        (b'"job"', "body", "must be an object"),
        (b"{}", "tasks", "has 0 entries"),
        (b"{}", "name", "is missing"),
        (b'{"name":"a","tasks":{}}', "tasks", "must be a list"),
        (b'{"name":"a","tasks":[]}', "tasks", "has 0 entries"),
        (b'{"name":"a","name":"b","tasks":[{"name":"x"}]}', "body", "'name' more than once"),
        (b'{"tasks":[],"name":"a","tasks":[{"name":"x"}]}', "body", "'tasks' more than once"),
        (b'{"name":"a","tasks":[{"name":"x","name":"x"}]}', "tasks[0]", "'name' more than once"),
        (b'{"name":"a","tasks":[{"name":"x","work":{"a":1,"a":1}}]}', "tasks[0].work", "'a' more than once"),
        (b'{"name":"a","tasks":[{"name":"x","work":NaN}]}', "tasks[0].work", "NaN"),
        (b'{"name":"a","tasks":[{"name":"x","timeout_seconds":Infinity}]}', "tasks[0].timeout_seconds", "Infinity"),
        (b'{"name":"a","tasks":[{"name":"x","timeout_seconds":1e999}]}', "tasks[0].timeout_seconds", "too large"),
        (b'{"name":"a","tasks":[{"name":"x","work":[' + b"9" * 6_000 + b"]}]}", "tasks[0].work[0]", "6000 digits"),
        (b'{"name":"a","tasks":[{"name":"x","max_attempts":' + b"9" * 30 + b"}]}", "tasks[0].max_attempts", "30 digi"),
        (b'{"name":"a","tasks":[{"name":"x","work":"\\u0000"}]}', "tasks[0].work", "NUL"),
        (b'{"name":"a","tasks":[{"name":"x","work":{"\\u0000":1}}]}', "tasks[0].work['\\x00']", "NUL"),
        (b'{"name":"a\\u0000","tasks":[{"name":"x"}]}', "name", "NUL"),
        (b'{"name":"a","tasks":[{"name":"x","work":"\\ud800"}]}', "tasks[0].work", "lone surrogate"),
        (b'{"name":"\\udfff","tasks":[{"name":"x"}]}', "name", "lone surrogate"),
        (b'{"name":"a","tasks":[{"name":"x","work":' + b"[" * 65 + b"]" * 65 + b"}]}", "tasks[0].work[0][0]", "64"),
        (b'{"name":"a","tasks":[{"name":"x","work":' + b"[" * 9_999 + b"]" * 9_999 + b"}]}", "body", "deeper than 64"),
        (b'{"name":"a","tasks":[' + b"[" * 9_999 + b"]" * 9_999 + b"]}", "body", "deeper than 64"),
        (b'{"name":"a","tasks":[1]}', "tasks[0]", "must be an object, not an integer"),
        (b'{"name":"a","tasks":[null]}', "tasks[0]", "must be an object, not null"),
        (b'{"name":1,"tasks":[{"name":"x"}]}', "name", "expected `str`, got `int`"),
        (b'{"name":"a","on_failure":"panic","tasks":[{"name":"x"}]}', "on_failure", "fail_fast, fail_after_all"),
        (b'{"name":"a","' + b"x" * 9_999 + b'":1,"tasks":[{"name":"x"}]}', "x" * 40, "is unknown"),
        (b'{"name":"' + b"x" * 9_999 + b'","tasks":[{"name":"x"}]}', "name", "larger than"),
    ],
)  # fmt: skip
def test_invalid_job_is_refused_with_path_and_reason(body: bytes, where: str, why: str) -> None:
    """F70, F77: hostile and careless JSON."""
    with pytest.raises(Refused) as raised:
        decode_job(body, LIMITS)
    reasons = [fault.why for fault in raised.value.faults if fault.where.startswith(where)]
    assert why in " ".join(reasons)
    assert refusal_of(body)


def test_every_fault_is_reported_and_no_bad_task_hides_another() -> None:
    """ADM-1: the answer lists every fault, not just the first."""
    found = refusal_of(
        body_of(
            {"name": "A", "max_attempts": 9, "work": {"x": [1]}, "labels": {"a": "?"}},
            7,
            {"name": "b", "max_attempts": "x", "timeout_seconds": [], "needs": [{"task": 1}, {"taks": "b"}, 3]},
            {"name": "c", "needs": [{"task": "b"}, {"task": "ghost"}, {"task": "e", "when": "1 +"}]},
            {"name": "e", "needs": [{"task": "c"}], "resources": {"cpu_millis": -1, "gpus": -2, "ram": 1}},
            {"name": "c"},
            on_failure="never",
            timeout_seconds=-1,
            color="red",
        )
    )
    assert list(found) == [
        "color",
        "on_failure",
        "timeout_seconds",
        "tasks[0].work",
        "tasks[1]",
        "tasks[2].needs[0].task",
        "tasks[2].needs[1].taks",
        "tasks[2].needs[1].task",
        "tasks[2].needs[2]",
        "tasks[2].max_attempts",
        "tasks[2].timeout_seconds",
        "tasks[4].resources.ram",
        "tasks[0].name",
        "tasks[0].max_attempts",
        "tasks[0].labels.a",
        "tasks[5].name",
        "tasks[3].needs[1].task",
        "tasks[3].needs[2].when",
    ]
    assert found["tasks[5].name"] == "is already used by tasks[3]"


def test_name_of_an_undecodable_task_is_known_to_others() -> None:
    """ADM-1: one fault does not cause others."""
    assert list(refusal_of(body_of({"name": "a", "max_attempts": "x"}, {"name": "b", "needs": [{"task": "a"}]}))) == [
        "tasks[0].max_attempts"
    ]


def test_a_hundred_faults_are_listed_and_the_rest_counted() -> None:
    """SEC-6: the response is bounded, too."""
    with pytest.raises(Refused, match="the job has 20000 faults") as raised:
        decode_job(body_of(*({"name": f"t{n}", "max_attempts": 0} for n in range(20_000))), LIMITS)
    assert len(raised.value.faults) == 101
    assert raised.value.faults[-1] == Fault(where="body", why="at least 19900 more faults")


def test_a_million_tasks_are_refused_before_decoding() -> None:
    """ADM-1: at most 250,000; it takes a tenth of a second, and a test is not a benchmark."""
    body = b'{"name":"x","tasks":[' + b",".join(b'{"name":"t%d"}' % n for n in range(1_000_000)) + b"]}"
    started = time.thread_time()
    assert refusal_of(body) == {"tasks": "has 1000000 entries; a job needs 1 to 250000"}
    assert time.thread_time() - started < 2


def test_a_job_of_a_million_tasks_built_by_code_is_refused() -> None:
    """ADM-1: the same limit for internal callers."""
    [fault] = check_job(JobSpec(name="x", tasks=(TaskSpec(name="a"),) * 1_000_000), LIMITS)
    assert fault.where == "tasks"


@pytest.mark.parametrize(
    ("tasks", "needs"),
    [
        (100_000, lambda number: sorted({number - 1, number // 2}) if number else []),
        (50_000, lambda number: [number - 1] if number else []),
        (20_000, lambda number: [0] if number else []),
        (20_000, lambda number: list(range(number)) if number == 19_999 else []),
    ],
    ids=["diamonds", "chain", "fan-out", "fan-in"],
)
def test_large_graphs_are_accepted(tasks: int, needs: Callable[[int], list[int]]) -> None:
    """ADM-1: 100,000 in about a second; deeper than any recursion limit. A busy machine may be slower."""
    body = a_big_job(tasks, needs)
    started = time.thread_time()
    job = decode_job(body, LIMITS)
    assert time.thread_time() - started < 10
    assert len(job.tasks) == tasks


def test_body_size_is_checked_before_parsing() -> None:
    """F70: a limit in bytes before parsing."""
    with pytest.raises(Refused, match="has 5000 bytes; the maximum is 100"):
        decode_job(b"[" * 5_000, Limits(max_body_bytes=100))


@pytest.mark.parametrize("junk", [b"[],", b'{"a":1},', b'"x",', b"1,"])
def test_a_huge_invalid_body_is_refused_without_decoding_to_objects(junk: bytes) -> None:
    """F70: a few megabytes in a work, in a task, in an unknown field."""
    much = b"[" + junk * 1_000_000 + b"1]"
    for body in (
        b'{"name":"a","tasks":[{"name":"x","work":' + much + b"}]}",
        b'{"name":"a","tasks":[{"name":"x","wrok":' + much + b"}]}",
        b'{"name":"a","junk":' + much + b',"tasks":[{"name":"x"}]}',
        b'{"name":"a","tasks":' + much + b"}",
        much,
    ):
        started = time.thread_time()
        assert refusal_of(body)
        assert time.thread_time() - started < 2


@given(st.binary(max_size=200))
def test_any_bytes_are_a_job_or_refused(body: bytes) -> None:
    """F70: 400, never 500."""
    with pytest.raises(Refused):
        decode_job(body, LIMITS)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_FIELDS = [field.name for field in msgspec.structs.fields(TaskSpec)]


@given(st.lists(st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=4), min_size=1, max_size=3))
def test_any_json_in_any_field_is_accepted_or_refused_and_accepted_jobs_are_valid(
    tasks: list[dict[str, Value]],
) -> None:
    """ADM-1: what passes here passes everything after it."""
    try:
        job = decode_job(body_of(*({"name": f"t{n}", **task} for n, task in enumerate(tasks))), LIMITS)
    except Refused as refused:
        named = refused.faults
        assert named, "a refusal has a reason"
        return
    assert check_job(job, LIMITS) == []
    compile_job("job_1", job)


@pytest.mark.parametrize(("start", "piece"), [(b'"tasks":[0', b",0"), (b'"x":0', b',"x":0')], ids=["numbers", "keys"])
def test_a_large_body_of_small_values_is_not_decoded_to_objects(start: bytes, piece: bytes) -> None:
    """They would take thirty times as much memory as their bytes."""
    body = b'{"name":"many",' + start + piece * 1_000_000
    body += b"]}" if b"[" in start else b"}"
    tracemalloc.start()
    try:
        with pytest.raises(Refused):
            decode_job(body, Limits())
        assert tracemalloc.get_traced_memory()[1] < 3 * len(body)
    finally:
        tracemalloc.stop()
