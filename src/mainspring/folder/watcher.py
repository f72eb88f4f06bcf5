"""Watch a folder for changes while a scheduler runs on it (FLD-5).

File notifications only trigger a scan, which decides what changed: directories that were added or removed, or whose
pipeline file or state file differs. So a lost, duplicate or misleading notification is harmless, and the same scan
polls where notifications are unavailable (watch limits, some network file systems).

    1. Changes are gathered until 500 ms pass without one, at most 700 ms: an edit is seen within a second.
    2. Each directory that may have pipelines has its own, non-recursive watch: `node_modules` costs no watch, and the
       database in `.mainspring` causes no notifications.
    3. After a directory was added or removed, the watches are renewed, and the folder is scanned again.
    4. Without notifications, the folder is scanned twice a minute.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Self, TypeAlias

import msgspec
import structlog
from watchfiles import awatch

from mainspring.folder import discover
from mainspring.folder.state.records import PIPELINE_FILE, STATE_FILE
from mainspring.protocol.clock import Clock

QUIET_SECONDS = 0.5
MAX_GATHER_SECONDS = 0.7
RESCAN_SECONDS = 30.0
POLL_SECONDS = 0.5

_STEP_MILLIS = 50
"""How often notifications are collected."""
_POLL_SHARE = 20
"""Polling takes at most a twentieth of the time."""
_FILES = frozenset({PIPELINE_FILE, STATE_FILE})

log = structlog.get_logger()

_File: TypeAlias = "tuple[int, int, int] | None"


class _Fingerprint(msgspec.Struct, frozen=True):
    """Fingerprint of a directory."""

    inode: int
    pipeline: _File
    state: _File


_Fingerprints: TypeAlias = dict[str, _Fingerprint]


class Watcher:
    """The changes of one folder, as an asynchronous iterator:

        async with Watcher(root, clock) as watcher:
            scan(root)
            async for directories in watcher:
                ...

    No change after entering the `async with` is missed. Each set has the paths of directories, as in
    `discover.FoundPipeline`, that were added or removed, or whose pipeline file or state file changed, including files
    that we wrote. A removed directory is listed with all directories below it. `stop` ends the iterator.
    """

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root = root.absolute()
        self._clock = clock
        self._fingerprints: _Fingerprints = {}
        self._watched: dict[str, int] = {}
        self._notifications: _Notifications | None = None
        self._touched: set[str] = set()
        self._is_all_touched = False
        self._changed = asyncio.Event()
        self._stopping = False
        self.polls = False
        """Whether file notifications are unavailable and the folder is polled."""
        self._pause_seconds = RESCAN_SECONDS

    async def __aenter__(self) -> Self:
        """Start watching."""
        await self._scan_all()
        await self._renew()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop, and wait for the background task."""
        self.stop()
        await self._close_notifications()

    def stop(self) -> None:
        """End the iterator."""
        self._stopping = True
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[frozenset[str]]:
        """Yield sets of changed directories."""
        while True:
            await self._gather()
            if self._stopping:
                return
            if changed := await self._scan():
                yield changed
            if self._is_outdated():
                await self._renew()

    def _notify(self, path: str | None) -> None:
        """Record a change of files in `path`, or of directories (None)."""
        if path is None:
            self._is_all_touched = True
        else:
            self._touched.add(path)
        self._changed.set()

    async def _gather(self) -> None:
        """Wait until changes happened and settled, or until the next scan is due."""
        if not await self._wait_for_change(self._pause_seconds):
            self._is_all_touched = True
            return
        until = self._clock.monotonic() + MAX_GATHER_SECONDS
        while not self._stopping:
            self._changed.clear()
            left = until - self._clock.monotonic()
            if left <= 0 or not await self._wait_for_change(min(QUIET_SECONDS, left)):
                return

    async def _wait_for_change(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _scan(self) -> frozenset[str]:
        """Return the directories that changed since the last scan."""
        touched, self._touched = self._touched, set()
        if self._is_all_touched:
            self._is_all_touched = False
            return await self._scan_all()
        found = {path: fingerprint for path in touched if (fingerprint := _fingerprint(self._root, path))}
        return self._update(found, touched)

    async def _scan_all(self) -> frozenset[str]:
        began = self._clock.monotonic()
        fingerprints = await asyncio.to_thread(_all_fingerprints, self._root)
        if self.polls:
            self._pause_seconds = max(POLL_SECONDS, _POLL_SHARE * (self._clock.monotonic() - began))
        return self._update(fingerprints, self._fingerprints.keys() | fingerprints.keys())

    def _update(self, fingerprints: _Fingerprints, paths: Iterable[str]) -> frozenset[str]:
        """Store the fingerprints of `paths`, or their removal; return those that changed."""
        changed = frozenset(path for path in paths if self._fingerprints.get(path) != fingerprints.get(path))
        for path in changed:
            if path in fingerprints:
                self._fingerprints[path] = fingerprints[path]
            else:
                del self._fingerprints[path]
        return changed

    def _is_outdated(self) -> bool:
        """Whether the watched directories differ from the existing ones."""
        return self._notifications is not None and (
            self._notifications.has_ended or self._watched != _inodes(self._fingerprints)
        )

    async def _renew(self) -> None:
        """Watch the existing directories. The next scan sees changes from before the watches were set."""
        await self._close_notifications()
        self._watched = _inodes(self._fingerprints)
        self._notifications = _Notifications(self._root, self._watched, self._notify)
        await self._notifications.open()
        if self._notifications.failure is not None:
            log.warning(
                "folder.polled", path=str(self._root), because=self._notifications.failure, seconds=POLL_SECONDS
            )
            await self._close_notifications()
            self.polls = True
        self._notify(None)

    async def _close_notifications(self) -> None:
        if self._notifications is not None:
            await self._notifications.close()
            self._notifications = None


class _Notifications:
    """File notifications of directories, each with its own watch."""

    def __init__(self, root: Path, paths: Iterable[str], notify: Callable[[str | None], None]) -> None:
        self._paths = {str(root / path): path for path in paths}
        self._notify = notify
        self._end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.has_ended = False
        """No more notifications will come."""
        self.failure: str | None = None
        """Why notifications are unavailable, if they are."""

    async def open(self) -> None:
        """Start. On return every watch is set, or `failure` has the reason."""
        self._task = asyncio.create_task(self._collect())
        # `awatch` sets the watches before it first waits, so in the first step of the task.
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Stop, and wait for the task."""
        self._end.set()
        if self._task is not None:
            await self._task

    async def _collect(self) -> None:
        try:
            async for batch in awatch(
                *self._paths,
                watch_filter=None,
                debounce=2 * _STEP_MILLIS,
                step=_STEP_MILLIS,
                rust_timeout=0,
                stop_event=self._end,
                recursive=False,
                ignore_permission_denied=True,
            ):
                for _, path in batch:
                    self._handle_path(path)
        except FileNotFoundError:
            pass  # a directory was removed before its watch was set: the next scan sees it
        except Exception as error:  # noqa: BLE001 - on any error, fall back to polling
            self.failure = str(error)
        self.has_ended = True
        if not self._end.is_set():
            self._notify(None)

    def _handle_path(self, path: str) -> None:
        parent, name = os.path.split(path)
        if name in _FILES and parent in self._paths:
            self._notify(self._paths[parent])
        elif path in self._paths or (not discover.is_ignored(name) and _is_directory(path)):
            self._notify(None)


def _all_fingerprints(root: Path) -> _Fingerprints:
    fingerprints = ((listing.path, _fingerprint(root, listing.path)) for listing in discover.walk(root, _FILES))
    return {path: fingerprint for path, fingerprint in fingerprints if fingerprint is not None}


def _fingerprint(root: Path, path: str) -> _Fingerprint | None:
    """Return the fingerprint of a directory; None if it does not exist."""
    directory = root / path
    try:
        inode = directory.stat(follow_symlinks=path == discover.ROOT).st_ino
    except OSError:
        return None
    return _Fingerprint(inode, _file(directory / PIPELINE_FILE), _file(directory / STATE_FILE))


def _file(path: Path) -> _File:
    try:
        seen = path.stat()
    except OSError:
        return None
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns)


def _inodes(fingerprints: _Fingerprints) -> dict[str, int]:
    return {path: fingerprint.inode for path, fingerprint in fingerprints.items()}


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
