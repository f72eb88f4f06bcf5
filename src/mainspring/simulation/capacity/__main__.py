"""A process of the capacity simulator: `python -m mainspring.simulation.capacity`, started by `processes.py`."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress

from mainspring.simulation.capacity.processes import serve

if __name__ == "__main__":
    # Few objects are in cycles, and hundreds of thousands are long-lived: frequent collections are wasted.
    gc.set_threshold(100_000, 50, 100)
    with suppress(BrokenPipeError):  # the parent process is gone
        serve(sys.stdin.buffer, sys.stdout.buffer)
