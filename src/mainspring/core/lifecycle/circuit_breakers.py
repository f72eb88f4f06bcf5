"""Circuits: when so many failures are alike, or so much of a job fails, that trying again only does harm (RTY-4).

    signature   closed ── 100 alike within 60 s ──► open ── a task that had failed so succeeds ──► closed
                while open its retries are put off by about 30 s, but for 1 % of them and one every 30 s: probes
    job         closed ── over half of at least 20 within an hour failed ──► open ── a probe succeeds ──► closed
                while open nothing of the job is placed, but for one task every 10 min: the probe

What was put off comes back at its own time, spread out, and not when the circuit closes. A circuit of which nothing was
heard for long closes by itself: whatever it was open for has gone.

These classes count and answer; `shard/tasks/circuit_breakers.py` asks them, moves tasks, and keeps a row of each
circuit that is open. Times are seconds of the store's clock. What is counted is in memory only, and bounded.
"""

from __future__ import annotations

from collections import deque

import msgspec

ALIKE = 100
ALIKE_WITHIN_SECONDS = 60.0
PUT_OFF_SECONDS = 30.0
PROBE_EVERY_SECONDS = 30.0
PROBE_ONE_IN = 100
LEAST_ATTEMPTS = 20
JOB_WITHIN_SECONDS = 3_600.0
JOB_PROBE_EVERY_SECONDS = 600.0
FORGOTTEN_AFTER_SECONDS = 3_600.0
"""A circuit that held nothing and heard of nothing for so long closes."""
MOST_SIGNATURES = 2_000
MOST_JOBS = 20_000
_BUCKETS = 12
_BUCKET_SECONDS = JOB_WITHIN_SECONDS / _BUCKETS


class Circuit(msgspec.Struct, kw_only=True):
    """One circuit that is open."""

    subject: str
    """The signature, or tenant and job."""
    because: str
    opened_at: float
    probed_at: float
    """When something was last let through; at first when it was opened."""
    heard_at: float
    """When something of it was last held, let through, or failed."""
    held: int = 0
    """How often something was held since the last probe."""
    has_prober: bool = False
    """Something is held until just the time of the next probe."""


class SignatureCircuits:
    """Retries of failures that are alike."""

    def __init__(self) -> None:
        self.open: dict[str, Circuit] = {}
        self._failures: dict[str, deque[float]] = {}
        """The latest failures of each signature; the signature heard of last comes last."""

    def failed(self, signature: str, because: str, now: float) -> Circuit | None:
        """An attempt failed so; the circuit if that opens it."""
        circuit = self.open.get(signature)
        if circuit is not None:
            circuit.heard_at = now
            return None
        latest = self._failures.pop(signature, None) or deque(maxlen=ALIKE)
        latest.append(now)
        self._failures[signature] = latest
        if len(self._failures) > MOST_SIGNATURES:
            del self._failures[next(iter(self._failures))]
        if len(latest) < ALIKE or now - latest[0] > ALIKE_WITHIN_SECONDS:
            return None
        circuit = Circuit(subject=signature, because=because, opened_at=now, probed_at=now, heard_at=now)
        self.open[signature] = circuit
        return circuit

    def lets_through(self, signature: str, now: float) -> bool:
        """Whether a retry that is due may be made: always if the circuit is closed, else as a probe."""
        circuit = self.open.get(signature)
        if circuit is None:
            return True
        circuit.heard_at = now
        circuit.held += 1
        if circuit.held < PROBE_ONE_IN and now - circuit.probed_at < PROBE_EVERY_SECONDS:
            return False
        circuit.held, circuit.probed_at = 0, now
        return True

    def close(self, signature: str) -> Circuit | None:
        """It is better by now; the circuit if it was open."""
        self._failures.pop(signature, None)
        return self.open.pop(signature, None)


class JobCircuits:
    """All work of a job of a tenant."""

    def __init__(self) -> None:
        self.open: dict[str, Circuit] = {}
        self._tallies: dict[str, _Tally] = {}

    def succeeded(self, job: str, now: float) -> None:
        """An attempt of the job succeeded."""
        (self._tallies.get(job) or self._tally(job)).add(now, 0)

    def failed(self, job: str, now: float) -> Circuit | None:
        """An attempt of the job failed by its own fault; the circuit if that opens it."""
        tally = self._tally(job)
        tally.add(now, 1)
        circuit = self.open.get(job)
        if circuit is not None:
            circuit.heard_at = now
            return None
        ended, failed = tally.totals()
        if ended < LEAST_ATTEMPTS or 2 * failed <= ended:
            return None
        because = f"{failed} of the latest {ended} attempts failed"
        circuit = Circuit(subject=job, because=because, opened_at=now, probed_at=now, heard_at=now)
        self.open[job] = circuit
        return circuit

    def lets_through(self, job: str, now: float) -> bool:
        """Whether a task of the job may start: always if the circuit is closed, else as a probe."""
        circuit = self.open.get(job)
        if circuit is None:
            return True
        circuit.heard_at = now
        if now - circuit.probed_at < JOB_PROBE_EVERY_SECONDS:
            return False
        circuit.probed_at, circuit.has_prober = now, False
        return True

    def probe_at(self, job: str) -> float | None:
        """When the next task of a job may start, if its circuit is open."""
        circuit = self.open.get(job)
        return None if circuit is None else circuit.probed_at + JOB_PROBE_EVERY_SECONDS

    def held_until(self, job: str, spread: float, now: float) -> float:
        """Until when a task is held: one until the next probe, the others until a while after it.

        `spread`, from 0 to 1, is the task's own, so that they don't come back together.
        """
        circuit = self.open[job]
        probe_at = max(circuit.probed_at + JOB_PROBE_EVERY_SECONDS, now)
        if not circuit.has_prober:
            circuit.has_prober = True
            return probe_at
        return probe_at + JOB_PROBE_EVERY_SECONDS * spread

    def close(self, job: str) -> Circuit | None:
        """It is better by now; the circuit if it was open. What was counted before counts no more."""
        self._tallies.pop(job, None)
        return self.open.pop(job, None)

    def _tally(self, job: str) -> _Tally:
        tally = self._tallies.get(job)
        if tally is None:
            if len(self._tallies) >= MOST_JOBS:
                del self._tallies[next(iter(self._tallies))]
            tally = self._tallies[job] = _Tally()
        return tally


def is_forgotten(circuit: Circuit, now: float) -> bool:
    """Whether nothing was heard of a circuit for so long that it closes by itself."""
    return now - circuit.heard_at >= FORGOTTEN_AFTER_SECONDS


class _Tally:
    """How many attempts of a job ended within the last hour, and how many of them failed, in pieces of 5 min."""

    def __init__(self) -> None:
        self._ended = [0] * _BUCKETS
        self._failed = [0] * _BUCKETS
        self._bucket = 0

    def add(self, now: float, failed: int) -> None:
        """One more has ended, and perhaps failed."""
        bucket = int(now / _BUCKET_SECONDS)
        if bucket > self._bucket:
            for passed in range(max(self._bucket + 1, bucket - _BUCKETS + 1), bucket + 1):
                self._ended[passed % _BUCKETS] = self._failed[passed % _BUCKETS] = 0
            self._bucket = bucket
        self._ended[self._bucket % _BUCKETS] += 1
        self._failed[self._bucket % _BUCKETS] += failed

    def totals(self) -> tuple[int, int]:
        """How many have ended, and how many of them failed."""
        return sum(self._ended), sum(self._failed)
