"""Mainspring: runs of tasks, decided in memory, remembered in fenced batches.

Start reading at `host/loop.py`, the loop that everything else serves.
"""

from __future__ import annotations

__version__ = "0.1.0"
