"""Circuit breakers open after many failures, and close after a success (RTY-4)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.lifecycle.circuit_breakers import (
    IDLE_CLOSE_SECONDS,
    JOB_PROBE_INTERVAL_SECONDS,
    MAX_SIGNATURES,
    PROBE_INTERVAL_SECONDS,
    PROBE_ONE_IN,
    SIGNATURE_FAILURE_THRESHOLD,
    JobBreakers,
    SignatureBreakers,
    is_idle,
)

START = 1_000_000.0


def an_open_signature() -> SignatureBreakers:
    """A circuit that opened at START."""
    circuits = SignatureBreakers()
    for _ in range(SIGNATURE_FAILURE_THRESHOLD):
        circuits.failed("e", "boom", START)
    return circuits


def an_open_job() -> JobBreakers:
    """The same for a job."""
    circuits = JobBreakers()
    for _ in range(20):
        circuits.failed("acme/etl", START)
    return circuits


def test_a_hundred_failures_with_one_signature_within_a_minute_open_the_breaker() -> None:
    """The hundredth does, once."""
    circuits = SignatureBreakers()
    opened = [circuits.failed("e", "boom", START + n * 0.6) is not None for n in range(SIGNATURE_FAILURE_THRESHOLD + 1)]
    assert opened == [False] * (SIGNATURE_FAILURE_THRESHOLD - 1) + [True, False]
    assert list(circuits.open) == ["e"]


def test_a_hundred_failures_over_a_longer_time_do_not() -> None:
    """One per second may continue forever."""
    circuits = SignatureBreakers()
    assert not any(circuits.failed("e", "boom", START + n) for n in range(1000))


@given(st.lists(st.floats(0, 20), max_size=300))
def test_the_breaker_opens_exactly_if_a_hundred_failures_are_within_a_minute(waits: list[float]) -> None:
    """For any times."""
    circuits, times, now = SignatureBreakers(), [], START
    for wait in [*waits, *([0.3] * 50)]:
        now += wait / 20
        times.append(now)
        opens = len(times) >= SIGNATURE_FAILURE_THRESHOLD and now - times[-SIGNATURE_FAILURE_THRESHOLD] <= 60
        assert (circuits.failed("e", "boom", now) is not None) is opens
        if opens:
            return


def test_the_number_of_counted_signatures_is_bounded() -> None:
    """Failures that all differ don't fill the memory."""
    circuits = SignatureBreakers()
    for number in range(MAX_SIGNATURES + 50):
        circuits.failed(f"e{number}", "boom", START)
    assert len(circuits._failures) == MAX_SIGNATURES


def test_a_closed_breaker_lets_everything_through() -> None:
    """The common case."""
    assert all(an_open_signature().allows("other", START) for _ in range(200))
    assert all(an_open_job().allows("acme/other", START) for _ in range(200))


def test_one_in_a_hundred_is_a_probe() -> None:
    circuits = an_open_signature()
    through = [circuits.allows("e", START + 1) for _ in range(10 * PROBE_ONE_IN)]
    assert [n + 1 for n, lets in enumerate(through) if lets] == [PROBE_ONE_IN * n for n in range(1, 11)]


def test_at_least_one_probe_every_thirty_seconds() -> None:
    """Also with few tasks."""
    circuits = an_open_signature()
    times = [START + n for n in range(1, 200)]
    probed = [now for now in times if circuits.allows("e", now)]
    assert probed == [START + PROBE_INTERVAL_SECONDS * n for n in range(1, 7)]


def test_closing_resets_the_counter_of_a_signature() -> None:
    """Another hundred failures are needed."""
    circuits = an_open_signature()
    assert circuits.close("e") is not None
    assert circuits.close("e") is None
    assert not any(circuits.failed("e", "boom", START + 1) for _ in range(SIGNATURE_FAILURE_THRESHOLD - 1))
    assert circuits.failed("e", "boom", START + 1) is not None


def test_the_breaker_of_a_job_opens_when_over_half_of_twenty_failed() -> None:
    """Half is not over half, and nineteen are too few."""
    circuits = JobBreakers()
    assert not any(circuits.failed("acme/etl", START) for _ in range(10))
    for _ in range(10):
        circuits.succeeded("acme/etl", START)
    circuit = circuits.failed("acme/etl", START)
    assert circuit is not None
    assert (circuit.subject, circuit.opened_at) == ("acme/etl", START)

    few = JobBreakers()
    assert not any(few.failed("acme/etl", START) for _ in range(19))


def test_attempts_older_than_an_hour_do_not_count() -> None:
    """In either direction."""
    circuits = JobBreakers()
    for _ in range(1000):
        circuits.succeeded("acme/etl", START)
    opened = [circuits.failed("acme/etl", START + 4000 + n) is not None for n in range(20)]
    assert opened == [False] * 19 + [True]


def test_one_task_of_a_held_job_is_let_through_every_ten_minutes() -> None:
    """From the opening on."""
    circuits = an_open_job()
    probed = [n for n in range(3000) if circuits.allows("acme/etl", START + n)]
    assert probed == [600, 1200, 1800, 2400]


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=50))
def test_one_task_is_held_until_the_next_probe_and_the_others_longer(bulk_operations: list[float]) -> None:
    """So that there is a probe in time, and no crowd when the breaker closes."""
    circuits = an_open_job()
    probe_at = START + JOB_PROBE_INTERVAL_SECONDS
    first, *others = [circuits.held_until("acme/etl", spread, START + 5) for spread in bulk_operations]
    assert first == probe_at
    assert all(probe_at <= until <= probe_at + JOB_PROBE_INTERVAL_SECONDS for until in others)


def test_closing_resets_the_counter_of_a_job() -> None:
    """Another twenty attempts are needed."""
    circuits = an_open_job()
    assert circuits.close("acme/etl") is not None
    assert not any(circuits.failed("acme/etl", START) for _ in range(19))


def test_a_breaker_without_activity_closes() -> None:
    """All of its tasks may have been cancelled."""
    circuits = an_open_signature()
    circuits.allows("e", START + 100)
    circuit = circuits.open["e"]
    assert not is_idle(circuit, START + IDLE_CLOSE_SECONDS)
    assert is_idle(circuit, START + 100 + IDLE_CLOSE_SECONDS)
