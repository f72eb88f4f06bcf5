"""What changes in a folder while a scheduler runs on it (FLD-5).

The system tells us that something happened, and a look at the directories decides what: which of them came, went, or
have another pipeline file or state file than before. So a lost, doubled or misleading message does no harm, and the
same look serves where the system can't tell (limits on watches, some network file systems).

    1. Changes are gathered until 500 ms are quiet, or 700 ms after the first: an edit is seen within a second.
    2. Only directories that may have pipelines are watched, each by itself: no watch is spent on `node_modules`, and
       the database that writes in `.mainspring` wakes nobody.
    3. A directory that comes or goes is told, then the watches are renewed, and everything is looked at once they do.
    4. Without any message, everything is looked at twice a minute.
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
LONGEST_SECONDS = 0.7
LOOK_SECONDS = 30.0
POLL_SECONDS = 0.5

_STEP_MILLIS = 50
"""How often the system's messages are collected."""
_POLL_SHARE = 20
"""Without the system's help, looking takes at most a twentieth of the time."""
_FILES = frozenset({PIPELINE_FILE, STATE_FILE})

log = structlog.get_logger()

_File: TypeAlias = "tuple[int, int, int] | None"


class _Mark(msgspec.Struct, frozen=True):
    """How a directory looked."""

    inode: int
    pipeline: _File
    state: _File


_Marks: TypeAlias = dict[str, _Mark]


class Watcher:
    """The changes of one folder, as an asynchronous iterator:

        async with Watcher(root, clock) as watcher:
            scan(root)
            async for directories in watcher:
                ...

    What changes after the `async with` is entered is not missed. Each set has the paths of directories, as in
    `discovery.Found`, which came, went, or have another pipeline file or state file: also one that we wrote ourselves.
    A directory that goes is named together with every one that was below it. `stop` lets the iterator end.
    """

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root = root.absolute()
        self._clock = clock
        self._marks: _Marks = {}
        self._watched: dict[str, int] = {}
        self._messages: _Messages | None = None
        self._touched: set[str] = set()
        self._is_all_touched = False
        self._told = asyncio.Event()
        self._stopping = False
        self._polls = False
        self._pause_seconds = LOOK_SECONDS

    @property
    def polls(self) -> bool:
        """Whether the system's watcher can't be used, so that we look by ourselves."""
        return self._polls

    async def __aenter__(self) -> Self:
        """Begin to watch."""
        await self._look_at_all()
        await self._renew()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End, and wait until nothing is left of it."""
        self.stop()
        await self._close_messages()

    def stop(self) -> None:
        """Let the iterator end."""
        self._stopping = True
        self._told.set()

    async def __aiter__(self) -> AsyncIterator[frozenset[str]]:
        """The directories that changed, as often as some do."""
        while True:
            await self._gather()
            if self._stopping:
                return
            if changed := await self._look():
                yield changed
            if self._is_outdated():
                await self._renew()

    def _tell(self, path: str | None) -> None:
        """Something happened to the files in `path`; None: to directories."""
        if path is None:
            self._is_all_touched = True
        else:
            self._touched.add(path)
        self._told.set()

    async def _gather(self) -> None:
        """Wait until something happened and is over, or until it is time to look anyway."""
        if not await self._is_told_within(self._pause_seconds):
            self._is_all_touched = True
            return
        until = self._clock.monotonic() + LONGEST_SECONDS
        while not self._stopping:
            self._told.clear()
            left = until - self._clock.monotonic()
            if left <= 0 or not await self._is_told_within(min(QUIET_SECONDS, left)):
                return

    async def _is_told_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._told.wait()
        except TimeoutError:
            return False
        return True

    async def _look(self) -> frozenset[str]:
        """Which directories have changed since the last look."""
        touched, self._touched = self._touched, set()
        if self._is_all_touched:
            self._is_all_touched = False
            return await self._look_at_all()
        return self._take({path: mark for path in touched if (mark := _mark(self._root, path))}, touched)

    async def _look_at_all(self) -> frozenset[str]:
        began = self._clock.monotonic()
        marks = await asyncio.to_thread(_all_marks, self._root)
        if self._polls:
            self._pause_seconds = max(POLL_SECONDS, _POLL_SHARE * (self._clock.monotonic() - began))
        return self._take(marks, self._marks.keys() | marks.keys())

    def _take(self, marks: _Marks, paths: Iterable[str]) -> frozenset[str]:
        """These `paths` look so, or are gone; which of them are not as before."""
        changed = frozenset(path for path in paths if self._marks.get(path) != marks.get(path))
        for path in changed:
            if path in marks:
                self._marks[path] = marks[path]
            else:
                del self._marks[path]
        return changed

    def _is_outdated(self) -> bool:
        """Whether the watches are on other directories than those that are there."""
        return self._messages is not None and (self._messages.is_over or self._watched != _inodes(self._marks))

    async def _renew(self) -> None:
        """Watch the directories that are there. The look that follows sees what changed before the watches stood."""
        await self._close_messages()
        self._watched = _inodes(self._marks)
        self._messages = _Messages(self._root, self._watched, self._tell)
        await self._messages.open()
        if self._messages.failure is not None:
            await self._poll_from_now_on(self._messages.failure)
        self._tell(None)

    async def _poll_from_now_on(self, because: str) -> None:
        await self._close_messages()
        self._polls = True
        log.warning("folder.polled", path=str(self._root), because=because, seconds=POLL_SECONDS)

    async def _close_messages(self) -> None:
        if self._messages is not None:
            await self._messages.close()
            self._messages = None


class _Messages:
    """What the system says of some directories, each watched by itself."""

    def __init__(self, root: Path, paths: Iterable[str], tell: Callable[[str | None], None]) -> None:
        self._paths = {str(root / path): path for path in paths}
        self._tell = tell
        self._end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_over = False
        """Nothing more will be said."""
        self.failure: str | None = None
        """Why the system can't say anything, if that is so."""

    async def open(self) -> None:
        """Begin. Once this comes back every watch stands, or `failure` says why not."""
        self._task = asyncio.create_task(self._collect())
        # The watches are made before `awatch` waits for the first time, so in the first step of the task.
        await asyncio.sleep(0)

    async def close(self) -> None:
        """End, and wait for it."""
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
                    self._sort(path)
        except FileNotFoundError:
            pass  # a directory went before its watch stood: the look that follows sees it
        except Exception as error:  # noqa: BLE001 - whatever it is: the folder is polled from now on
            self.failure = str(error)
        self.is_over = True
        if not self._end.is_set():
            self._tell(None)

    def _sort(self, path: str) -> None:
        parent, name = os.path.split(path)
        if name in _FILES and parent in self._paths:
            self._tell(self._paths[parent])
        elif path in self._paths or (not discover.is_left_out(name) and _is_directory(path)):
            self._tell(None)


def _all_marks(root: Path) -> _Marks:
    marks = ((listing.path, _mark(root, listing.path)) for listing in discover.walk(root, _FILES))
    return {path: mark for path, mark in marks if mark is not None}


def _mark(root: Path, path: str) -> _Mark | None:
    """How a directory looks; None if it is gone."""
    directory = root / path
    try:
        inode = directory.stat(follow_symlinks=path == discover.ROOT).st_ino
    except OSError:
        return None
    return _Mark(inode, _file(directory / PIPELINE_FILE), _file(directory / STATE_FILE))


def _file(path: Path) -> _File:
    try:
        seen = path.stat()
    except OSError:
        return None
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns)


def _inodes(marks: _Marks) -> dict[str, int]:
    return {path: mark.inode for path, mark in marks.items()}


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
