"""Artifact transfer: store the files of an attempt, fetch the files of its upstream tasks (WRK-11).

    before the start   list upstream artifacts (with the attempt's token) ─► copy, verified by hash ─► inputs/<task>/..
    after the end      artifacts/.. ─► storage, hashed while copied ─► listed in the result

1. All or nothing: if a file can't be stored, the attempt fails and no file is listed.
2. A few threads copy; the supervisor's event loop is not blocked.
3. An attempt that is being stopped does not wait for its files.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from mainspring.client.artifact_files import copy_artifact
from mainspring.core.model.artifacts import MAX_FETCHED_FILES, fault_in_path, is_fetched, task_of
from mainspring.protocol.errors import MainspringError, NotFound, Refused, Unauthenticated, Unavailable
from mainspring.protocol.rest.artifacts import ArtifactView
from mainspring.protocol.wire import Artifact, Assignment, Outcome
from mainspring.worker.artifacts.artifact_folder import artifact_files
from mainspring.worker.artifacts.artifact_store import storage_of
from mainspring.worker.executors.attempt_handle import AttemptHandle, AttemptResult, failure
from mainspring.worker.supervisor.supervisor_settings import SupervisorSettings

log = structlog.get_logger(__name__)
_T = TypeVar("_T")

_THREADS = 4
_RETRY_SECONDS = 30.0


class Artifacts:
    """Artifact transfer of one supervisor."""

    def __init__(self, state_dir: Path, settings: SupervisorSettings) -> None:
        self._store = storage_of(state_dir, settings.artifacts, keep_seconds=settings.keep_artifacts_seconds)
        self._max_file_bytes, self._max_total_bytes = settings.max_artifact_bytes, settings.max_artifacts_bytes
        self._servers = settings.servers
        self._ca_cert = settings.ca_cert or None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="artifacts")

    async def keep(self, handle: AttemptHandle, folder: Path, result: AttemptResult) -> AttemptResult:
        """Store the artifacts of an ended attempt; return its result including them.

        A success whose files can't be stored becomes a failure; a failure keeps its error.
        """
        if result.outcome is Outcome.STOPPED or not _has_any(folder):
            return result
        try:
            stored = await self._in_thread(lambda: self._store_all(handle, folder))
        except (Refused, Unavailable, OSError) as error:
            log.warning("artifacts.not_stored", attempt=handle.attempt, because=str(error))
            if handle.stop_requested():
                return AttemptResult(outcome=Outcome.STOPPED)
            if result.outcome is Outcome.FAILED:
                return result
            error_class = "permanent" if isinstance(error, Refused) else "infrastructure"
            return AttemptResult(
                outcome=Outcome.FAILED, error=failure("Artifacts", str(error), error_class=error_class)
            )
        return msgspec.structs.replace(result, artifacts=stored)

    async def fetch(self, handle: AttemptHandle, folder: Path) -> str | None:
        """Fetch the attempt's inputs into its folder; return the error if that fails."""
        fetches = handle.work.fetch if handle.work is not None else ()
        if not fetches:
            return None
        try:
            found = await self._list(handle.assignment, fetches)
            _check(found, fetches, handle.assignment)
            await self._in_thread(lambda: _copy_all(found, folder, lambda: not handle.stop_requested()))
        except (Refused, NotFound) as error:
            return failure("Fetch", str(error), error_class="permanent")
        except (MainspringError, OSError) as error:
            log.warning("artifacts.not_fetched", attempt=handle.attempt, because=str(error))
            return failure("Fetch", str(error), error_class="infrastructure")
        return None

    def _store_all(self, handle: AttemptHandle, folder: Path) -> tuple[Artifact, ...]:
        files = artifact_files(
            folder,
            file_bytes=self._max_file_bytes,
            all_bytes=self._max_total_bytes,
            secret=lambda path: handle.mask.text(path) != path,
        )
        return tuple(self._store.store(file, handle.assignment, lambda: not handle.stop_requested()) for file in files)

    async def _list(self, one: Assignment, fetches: Iterable[str]) -> list[ArtifactView]:
        """Return the wanted upstream artifacts, as listed by a server. Raises MainspringError."""
        from mainspring.client.aio.client import AsyncClient

        tasks = sorted({task_of(fetch) for fetch in fetches})
        fault: MainspringError = Unavailable("no server is configured to list artifacts")
        for server in self._servers:
            try:
                client = AsyncClient(
                    server, token=one.token, retry_timeout_seconds=_RETRY_SECONDS, ca_cert=self._ca_cert
                )
                async with client:
                    listed = client.run_artifacts(one.run, tasks=tasks, limit=MAX_FETCHED_FILES + 1)
                    return [view async for view in listed if is_fetched(fetches, view.task, view.path)]
            except (Unavailable, Unauthenticated) as error:
                fault = Unavailable(f"cannot list the artifacts to fetch: {error}")
        raise fault

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _has_any(folder: Path) -> bool:
    """Whether the folder has entries; False if it is empty or missing."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except FileNotFoundError:
        return False
    except OSError:
        return True  # Storing it reports the error.


def _check(found: list[ArtifactView], fetches: Iterable[str], one: Assignment) -> None:
    """Raises Refused if an artifact can't be fetched, NotFound if nothing matches."""
    if len(found) > MAX_FETCHED_FILES:
        raise Refused(f"more than {MAX_FETCHED_FILES} artifacts to fetch")
    for fetch in fetches:
        of_failed = any(name.partition("[")[0] == task_of(fetch) for name in one.failed_upstreams)
        if not of_failed and not any(is_fetched([fetch], view.task, view.path) for view in found):
            raise NotFound(f"{task_of(fetch)} has no artifact that matches {fetch}")
    for view in found:
        if (fault := fault_in_path(view.path)) is not None:
            raise Refused(f"the path of an artifact of {view.task} {fault}")
        if view.is_expired:
            raise NotFound(f"{view.path} of {view.task} expired at {view.kept_until}")


def _copy_all(found: Iterable[ArtifactView], folder: Path, is_wanted: Callable[[], bool]) -> None:
    """Copy artifacts to `<task>/<path>`, in a fan-out to `<task>/<partition>/<path>`."""
    for view in found:
        location = folder / view.task if view.partition is None else folder / view.task / str(view.partition)
        path = location / view.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:

            def write(piece: bytes) -> None:
                if not is_wanted():
                    raise Unavailable("the attempt is being stopped")
                file.write(piece)

            copy_artifact(view, write)
