"""The trace of a seed, as a hash to compare runs, and as lines to read."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from tests.sim.loop import VirtualLoop


class Trace:
    """All events, in order."""

    def __init__(self, loop: VirtualLoop, *, verbose: bool) -> None:
        self.faults: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.verbose = verbose
        self._loop = loop
        self._hash = blake2b(digest_size=16)

    def note(self, what: str, detail: str) -> None:
        """Record an event."""
        self.events[what] += 1
        line = f"{self._loop.now:.6f} {what} {detail}"
        self._hash.update(line.encode("utf-8", "replace"))
        if self.verbose:
            print(line)

    def say(self, what: str, fields: dict[str, object]) -> None:
        """Print a line that is not part of the trace."""
        if self.verbose:
            print(f"{self._loop.now:.6f} {what}", " ".join(f"{key}={value}" for key, value in fields.items()))

    def fault(self, kind: str, detail: str = "") -> None:
        """Record an injected fault."""
        self.faults[kind] += 1
        self.note("fault", f"{kind} {detail}")

    def digest(self) -> str:
        """Hash of the trace: equal for two runs of a seed if the simulation is deterministic."""
        return self._hash.hexdigest()
