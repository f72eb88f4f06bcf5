"""The watcher reports relevant changes, soon and once (FLD-5)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn

import pytest
from structlog.testing import capture_logs
from watchfiles import awatch
from watchfiles.main import FileChange

from mainspring.folder import watcher as watching
from mainspring.folder.state.records import LOCK_FILE, PIPELINE_FILE, STATE_FILE
from mainspring.folder.watcher import Watcher
from mainspring.protocol.clock import SystemClock

DEADLINE_SECONDS = 60


class Changes:
    """Collects the changes that a watcher reports."""

    def __init__(self, watcher: Watcher) -> None:
        self._told = aiter(watcher)
        self.watcher = watcher

    async def next(self) -> set[str]:
        """The next set of changes."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            return set(await anext(self._told))

    async def until(self, *paths: str) -> set[str]:
        """Collect changes until all of these are reported."""
        told: set[str] = set()
        while not told >= set(paths):
            told |= await self.next()
        return told


def put(directory: Path, text: str = "name: a\n") -> None:
    """A pipeline."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / PIPELINE_FILE).write_text(text)


@pytest.fixture(params=["told", "polled"])
async def changes(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Changes]:
    """A folder with the pipelines a, b, b/c, d and d/e, watched: once with file notifications, once by polling.

    Delays are shorter than in production: the tests accept changes together or one by one.
    """
    for name, seconds in (("QUIET_SECONDS", 0.1), ("MAX_GATHER_SECONDS", 0.2), ("POLL_SECONDS", 0.1)):
        monkeypatch.setattr(watching, name, seconds)
    if request.param == "polled":
        monkeypatch.setattr(watching, "awatch", no_watches)
    for name in ("a", "b", "b/c", "d", "d/e"):
        put(tmp_path / name)
        (tmp_path / name / STATE_FILE).write_text("{}")
    async with Watcher(tmp_path, SystemClock()) as watcher:
        assert watcher.polls == (request.param == "polled")
        yield Changes(watcher)


def no_watches(*_paths: str, **_options: object) -> NoReturn:
    """A system that has reached its limit of watches."""
    raise OSError("OS file watch limit reached")


async def test_changed_files_are_reported(tmp_path: Path, changes: Changes) -> None:
    """Written, replaced, deleted; also the state file."""
    put(tmp_path)
    put(tmp_path / "a", "name: other\n")
    (tmp_path / "b" / STATE_FILE).unlink()
    (tmp_path / "b/c/pipeline.yaml.tmp").write_text("name: other\n")
    (tmp_path / "b/c/pipeline.yaml.tmp").rename(tmp_path / "b/c" / PIPELINE_FILE)
    (tmp_path / "d" / PIPELINE_FILE).unlink()
    (tmp_path / "d/e" / STATE_FILE).write_text("garbage")
    assert await changes.until(".", "a", "b", "b/c", "d", "d/e") == {".", "a", "b", "b/c", "d", "d/e"}


async def test_added_and_removed_directories_are_reported(tmp_path: Path, changes: Changes) -> None:
    """Created, copied, moved with subdirectories, removed."""
    put(tmp_path / "new/deep")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    (tmp_path / "b").rename(tmp_path / "moved")
    shutil.rmtree(tmp_path / "d")
    told = {"new", "new/deep", "copy", "b", "b/c", "moved", "moved/c", "d", "d/e"}
    assert await changes.until(*told) == told


async def test_new_directories_are_watched(tmp_path: Path, changes: Changes) -> None:
    """A new directory, and one that replaced another."""
    put(tmp_path / "new")
    assert await changes.until("new") == {"new"}
    put(tmp_path / "new", "name: other\n")
    assert await changes.until("new") == {"new"}

    shutil.rmtree(tmp_path / "a")
    (tmp_path / "b" / "c").rename(tmp_path / "a")
    assert await changes.until("a", "b/c") == {"a", "b/c"}
    put(tmp_path / "a", "name: another\n")
    assert await changes.until("a") == {"a"}


async def test_irrelevant_changes_are_not_reported(tmp_path: Path, changes: Changes) -> None:
    """Our own files, editors' files, results, data, tool directories: only the edit after them is reported."""
    for name in (".mainspring", "a/.results", "node_modules", "a/__pycache__"):
        put(tmp_path / name)
    for name in (LOCK_FILE, "a/.pipeline.yaml.swp", "a/pipeline.yaml~", "a/input.csv", f"a/{STATE_FILE}.new", "a/4913"):
        (tmp_path / name).write_text("x")
        (tmp_path / name).unlink()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    put(tmp_path / "b", "name: other\n")
    assert await changes.next() == {"b"}


async def test_stop_ends_the_iterator(changes: Changes) -> None:
    """While a consumer waits for the next change."""
    waiting = asyncio.create_task(changes.next())
    await asyncio.sleep(0)
    changes.watcher.stop()
    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_changes_within_a_short_time_are_reported_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file written in steps is read once complete, even if a busy machine pauses between writes."""
    monkeypatch.setattr(watching, "QUIET_SECONDS", 1.5)
    monkeypatch.setattr(watching, "MAX_GATHER_SECONDS", 60)
    for number in range(20):
        put(tmp_path / f"p{number}")
    async with Watcher(tmp_path, SystemClock()) as watcher:
        changes = Changes(watcher)
        for number in range(20):
            put(tmp_path / f"p{number}", "name: ")
            await asyncio.sleep(0)
            put(tmp_path / f"p{number}", "name: other\n")
        assert await changes.next() == {f"p{number}" for number in range(20)}


async def test_continuous_changes_are_reported_meanwhile(tmp_path: Path) -> None:
    """Writes without a pause do not delay the report."""
    put(tmp_path / "a")
    async with Watcher(tmp_path, SystemClock()) as watcher:
        changes = Changes(watcher)

        async def write() -> None:
            for number in range(100_000):
                put(tmp_path / "a", f"name: {number}\n")
                await SystemClock().sleep(0.02)

        writing = asyncio.create_task(write())
        assert await changes.next() == {"a"}
        assert not writing.done()
        writing.cancel()


async def test_missing_file_notifications_are_logged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason and the fallback."""
    monkeypatch.setattr(watching, "awatch", no_watches)
    with capture_logs() as logs:
        async with Watcher(tmp_path, SystemClock()) as watcher:
            changes = Changes(watcher)
            put(tmp_path / "a")
            assert await changes.until("a") == {"a"}
            put(tmp_path / "a" / "b")
            assert await changes.until("a/b") == {"a/b"}
    assert [(entry["event"], entry["because"]) for entry in logs] == [("folder.polled", "OS file watch limit reached")]


async def test_a_broken_watcher_falls_back_to_polling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new directory exceeds the limit of watches."""

    def for_one(*paths: str, stop_event: asyncio.Event, **_options: object) -> AsyncIterator[set[FileChange]]:
        return awatch(*paths, stop_event=stop_event, recursive=False) if len(paths) == 1 else no_watches()

    monkeypatch.setattr(watching, "awatch", for_one)
    async with Watcher(tmp_path, SystemClock()) as watcher:
        changes = Changes(watcher)
        put(tmp_path / "a")
        assert await changes.until("a") == {"a"}
        put(tmp_path / "a", "name: other\n")
        assert await changes.until("a") == {"a"}
        assert watcher.polls


async def test_missed_notifications_are_found_by_scanning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network file system, when another machine writes."""
    monkeypatch.setattr(watching, "RESCAN_SECONDS", 0.05)

    async def silent(*_paths: str, stop_event: asyncio.Event, **_options: object) -> AsyncIterator[set[FileChange]]:
        while not stop_event.is_set():
            await stop_event.wait()
        if not stop_event.is_set():
            yield set()

    monkeypatch.setattr(watching, "awatch", silent)
    put(tmp_path / "a")
    async with Watcher(tmp_path, SystemClock()) as watcher:
        put(tmp_path / "a", "name: other\n")
        assert await Changes(watcher).until("a") == {"a"}
        assert not watcher.polls


async def test_a_folder_that_is_removed_and_returns_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler loses its lock and stops; the watcher does not fail."""
    monkeypatch.setattr(watching, "RESCAN_SECONDS", 0.05)
    root = tmp_path / "folder"
    put(root / "a")
    async with Watcher(root, SystemClock()) as watcher:
        changes = Changes(watcher)
        shutil.rmtree(root)
        assert await changes.until(".", "a") == {".", "a"}
        put(root / "b")
        assert await changes.until(".", "b") == {".", "b"}
