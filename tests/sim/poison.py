"""Poisoned jobs: an exception at a chosen place in the handling of their events.

They simulate bugs that only some data triggers. The name of a poisoned job states the place. When the faults end, the
bug counts as fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from mainspring.core.model.batch import Batch
from mainspring.core.model.job import Job
from mainspring.shard.placement import dispatch
from mainspring.shard.shard import Shard
from mainspring.shard.tasks import adoption, progress


class Stumbled(Exception):
    """The bug that a poisoned job triggers."""


@contextmanager
def poisoned(
    is_active: Callable[[], bool],
    met: Callable[[str, str], None],
    made: Callable[[str, Shard, Batch], None],
    loaded: Callable[[], None],
) -> Iterator[None]:
    """Make the shard fail on poisoned jobs while `is_active`, and report that to `met`.

    `made` gets each batch, with its cause (`handle_alone`: made from a single event, after a failed commit),
    `loaded` each shard that is loaded from its rows.
    """

    def stumble(job: Job, where: str) -> None:
        if job.spec.name.endswith(f"-poison-{where}") and is_active():
            met(where, job.id)
            raise Stumbled(f"the bug in {where} that only {job.spec.name} meets")

    def before(real: Callable[..., Any], where: str, job_of: Callable[..., Job]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            stumble(job_of(*args), where)
            return real(*args, **kwargs)

        return wrapper

    def load(self: Shard, *args: Any, **kwargs: Any) -> None:
        loaded()
        real_load(self, *args, **kwargs)

    real_load = Shard.load

    def about_run(_turn: Any, run: Any, *_: Any) -> Job:
        return run.job

    with ExitStack() as stack:
        patch = mock.patch.object
        stack.enter_context(patch(adoption, "take_in", before(adoption.take_in, "adopt", lambda t, r, job: job)))
        stack.enter_context(patch(progress, "create_task", before(progress.create_task, "create_task", about_run)))
        stack.enter_context(patch(progress, "_decide", before(progress._decide, "decide", lambda run, task: run.job)))
        place = before(dispatch._assignment, "place", lambda memory, task, *_: memory.runs[task.run_id].job)
        stack.enter_context(patch(dispatch, "_assignment", place))
        stack.enter_context(patch(Shard, "load", load))
        for name in ("begin", "take", "finish", "handle_alone", "reject"):
            stack.enter_context(patch(Shard, name, _marking(getattr(Shard, name), name, made)))
        yield


def _marking(real: Callable[..., Any], name: str, made: Callable[[str, Shard, Batch], None]) -> Callable[..., Any]:
    """After an exception a shard's memory is invalid: the host drops it, and no check reads it."""

    def wrapper(self: Shard, *args: Any, **kwargs: Any) -> Any:
        try:
            result = real(self, *args, **kwargs)
        except Exception:
            self.memory.is_spoiled = True  # type: ignore[attr-defined]
            raise
        if isinstance(result, Batch):
            made(name, self, result)
        return result

    return wrapper
