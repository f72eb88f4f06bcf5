"""A process of the fleet simulation: `python -m mainspring.simulation.capacity`, started by `processes.py`."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress

from mainspring.simulation.capacity.processes import serve

if __name__ == "__main__":
    # Nearly nothing here is in a cycle, and hundreds of thousands of things stay: collecting often is for nothing.
    gc.set_threshold(100_000, 50, 100)
    with suppress(BrokenPipeError):  # whoever asked has gone
        serve(sys.stdin.buffer, sys.stdout.buffer)
