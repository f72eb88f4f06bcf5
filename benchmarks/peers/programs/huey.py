"""Huey: its tasks. Its own command is the worker and finds `huey` here; the driver is in `huey_driver.py`.

They are apart because a message names the module of its task, and a program that is run has another name.
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
    """The same after a group, whose results it is given."""
    mark(number)
