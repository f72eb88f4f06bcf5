"""Huey: its tasks. Its own command is the worker and finds `huey` here; the driver is in `huey_driver.py`.

They are separate files because a message contains the module name of its task, which differs in a main program.
"""

from __future__ import annotations

from huey import RedisHuey

from benchmarks.peers.marks import mark
from benchmarks.peers.programs import given

huey = RedisHuey("peers", url=given.redis(), results=False)


@huey.task(name="noop")
def noop(number: int) -> None:
    """Record the start."""
    mark(number)


@huey.task(name="last")
def last(number: int, _results: object = None) -> None:
    """The same after a group, with its results."""
    mark(number)
