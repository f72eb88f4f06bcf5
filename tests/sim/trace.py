"""The trace of a seed, as a hash to compare runs, and as lines to read."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from tests.sim.loop import VirtualLoop


class Trace:
    """Everything that happened, in order."""

    def __init__(self, loop: VirtualLoop, *, verbose: bool) -> None:
        self.faults: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.verbose = verbose
        self._loop = loop
        self._hash = blake2b(digest_size=16)

    def note(self, what: str, detail: str) -> None:
        """Something happened."""
        self.events[what] += 1
        line = f"{self._loop.now:.6f} {what} {detail}"
        self._hash.update(line.encode("utf-8", "replace"))
        if self.verbose:
            print(line)

    def say(self, what: str, fields: dict[str, object]) -> None:
        """Something for a reader, and no part of the trace."""
        if self.verbose:
            print(f"{self._loop.now:.6f} {what}", " ".join(f"{key}={value}" for key, value in fields.items()))

    def fault(self, kind: str, detail: str = "") -> None:
        """A fault was injected."""
        self.faults[kind] += 1
        self.note("fault", f"{kind} {detail}")

    def digest(self) -> str:
        """Equal for two runs of a seed, if the simulation is deterministic."""
        return self._hash.hexdigest()
