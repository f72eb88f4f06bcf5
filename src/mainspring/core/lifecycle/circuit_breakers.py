"""Circuit breakers: stop retrying when many failures share a signature, or when most attempts of a job fail (RTY-4).

    signature   closed ── 100 failures within 60 s ──► open ── a task with that signature succeeds ──► closed
                while open, its retries are delayed by about 30 s, except for probes: 1 %, and one every 30 s
    job         closed ── over half of at least 20 attempts in an hour failed ──► open ── a probe succeeds ──► closed
                while open, no task of the job is placed, except for a probe every 10 min

Delayed tasks return at their own times, spread out, not when the breaker closes. A breaker without activity for an hour
closes: its cause has gone.

These classes count and decide; `shard/tasks/circuit_breakers.py` calls them, moves tasks, and keeps a row per open
breaker. Times are seconds of the store's clock. Counters are in memory only, and bounded.
"""

from __future__ import annotations

from collections import deque

import msgspec

SIGNATURE_FAILURE_THRESHOLD = 100
SIGNATURE_WINDOW_SECONDS = 60.0
RETRY_HOLD_SECONDS = 30.0
PROBE_INTERVAL_SECONDS = 30.0
PROBE_ONE_IN = 100
MIN_ATTEMPTS = 20
JOB_WINDOW_SECONDS = 3_600.0
JOB_PROBE_INTERVAL_SECONDS = 600.0
IDLE_CLOSE_SECONDS = 3_600.0
"""A breaker without activity for this long closes."""
MAX_SIGNATURES = 2_000
MAX_JOBS = 20_000
_BUCKETS = 12
_BUCKET_SECONDS = JOB_WINDOW_SECONDS / _BUCKETS


class CircuitBreaker(msgspec.Struct, kw_only=True):
    """An open circuit breaker."""

    subject: str
    """The signature, or tenant and job."""
    because: str
    opened_at: float
    probed_at: float
    """When the last probe was let through; initially when it opened."""
    last_seen_at: float
    """Last activity: a task was held or let through, or failed."""
    held: int = 0
    """Tasks held since the last probe."""
    has_probe: bool = False
    """A task is held until exactly the time of the next probe."""


class _Breakers:
    """The open breakers, by subject."""

    def __init__(self) -> None:
        self.open: dict[str, CircuitBreaker] = {}

    def _active(self, subject: str, now: float) -> CircuitBreaker | None:
        """Return the breaker if it is open, and record the activity."""
        circuit = self.open.get(subject)
        if circuit is not None:
            circuit.last_seen_at = now
        return circuit

    def _open(self, subject: str, because: str, now: float) -> CircuitBreaker:
        circuit = CircuitBreaker(subject=subject, because=because, opened_at=now, probed_at=now, last_seen_at=now)
        self.open[subject] = circuit
        return circuit


class SignatureBreakers(_Breakers):
    """Breakers for retries, one per error signature."""

    def __init__(self) -> None:
        super().__init__()
        self._failures: dict[str, deque[float]] = {}
        """Latest failures of each signature, in order of last activity."""

    def failed(self, signature: str, because: str, now: float) -> CircuitBreaker | None:
        """Record a failed attempt; return the breaker if it opened."""
        if self._active(signature, now) is not None:
            return None
        latest = self._failures.pop(signature, None) or deque(maxlen=SIGNATURE_FAILURE_THRESHOLD)
        latest.append(now)
        self._failures[signature] = latest
        if len(self._failures) > MAX_SIGNATURES:
            del self._failures[next(iter(self._failures))]
        if len(latest) < SIGNATURE_FAILURE_THRESHOLD or now - latest[0] > SIGNATURE_WINDOW_SECONDS:
            return None
        return self._open(signature, because, now)

    def allows(self, signature: str, now: float) -> bool:
        """Return whether a due retry may run: always if the breaker is closed, else as a probe."""
        circuit = self._active(signature, now)
        if circuit is None:
            return True
        circuit.held += 1
        if circuit.held < PROBE_ONE_IN and now - circuit.probed_at < PROBE_INTERVAL_SECONDS:
            return False
        circuit.held, circuit.probed_at = 0, now
        return True

    def close(self, signature: str) -> CircuitBreaker | None:
        """Close the breaker after a success; return it if it was open."""
        self._failures.pop(signature, None)
        return self.open.pop(signature, None)


class JobBreakers(_Breakers):
    """Breakers for all tasks of a tenant's job."""

    def __init__(self) -> None:
        super().__init__()
        self._counters: dict[str, _AttemptCounter] = {}

    def succeeded(self, job: str, now: float) -> None:
        """Record a successful attempt."""
        (self._counters.get(job) or self._counter(job)).add(now, 0)

    def failed(self, job: str, now: float) -> CircuitBreaker | None:
        """Record an attempt that failed by the job's own fault; return the breaker if it opened."""
        counter = self._counter(job)
        counter.add(now, 1)
        if self._active(job, now) is not None:
            return None
        ended, failed = counter.totals()
        if ended < MIN_ATTEMPTS or 2 * failed <= ended:
            return None
        return self._open(job, f"{failed} of the latest {ended} attempts failed", now)

    def allows(self, job: str, now: float) -> bool:
        """Return whether a task of the job may start: always if the breaker is closed, else as a probe."""
        circuit = self._active(job, now)
        if circuit is None:
            return True
        if now - circuit.probed_at < JOB_PROBE_INTERVAL_SECONDS:
            return False
        circuit.probed_at, circuit.has_probe = now, False
        return True

    def probe_at(self, job: str) -> float | None:
        """Return when the next probe may start, if the breaker is open."""
        circuit = self.open.get(job)
        return None if circuit is None else circuit.probed_at + JOB_PROBE_INTERVAL_SECONDS

    def held_until(self, job: str, jitter: float, now: float) -> float:
        """Return until when a task is held: one task until the next probe, the others until some time after it.

        `jitter`, from 0 to 1, is the task's own jitter, so that they don't return together.
        """
        circuit = self.open[job]
        probe_at = max(circuit.probed_at + JOB_PROBE_INTERVAL_SECONDS, now)
        if not circuit.has_probe:
            circuit.has_probe = True
            return probe_at
        return probe_at + JOB_PROBE_INTERVAL_SECONDS * jitter

    def close(self, job: str) -> CircuitBreaker | None:
        """Close the breaker after a success, and reset its counter; return it if it was open."""
        self._counters.pop(job, None)
        return self.open.pop(job, None)

    def _counter(self, job: str) -> _AttemptCounter:
        counter = self._counters.get(job)
        if counter is None:
            if len(self._counters) >= MAX_JOBS:
                del self._counters[next(iter(self._counters))]
            counter = self._counters[job] = _AttemptCounter()
        return counter


def is_idle(circuit: CircuitBreaker, now: float) -> bool:
    """Return whether a breaker closes for lack of activity."""
    return now - circuit.last_seen_at >= IDLE_CLOSE_SECONDS


class _AttemptCounter:
    """Attempts of a job that ended within the last hour, and failures among them, in 5 min buckets."""

    def __init__(self) -> None:
        self._ended = [0] * _BUCKETS
        self._failed = [0] * _BUCKETS
        self._bucket = 0

    def add(self, now: float, failed: int) -> None:
        """Count an ended attempt."""
        bucket = int(now / _BUCKET_SECONDS)
        if bucket > self._bucket:
            for passed in range(max(self._bucket + 1, bucket - _BUCKETS + 1), bucket + 1):
                self._ended[passed % _BUCKETS] = self._failed[passed % _BUCKETS] = 0
            self._bucket = bucket
        self._ended[self._bucket % _BUCKETS] += 1
        self._failed[self._bucket % _BUCKETS] += failed

    def totals(self) -> tuple[int, int]:
        """Return the number of ended attempts, and of failed ones."""
        return sum(self._ended), sum(self._failed)
