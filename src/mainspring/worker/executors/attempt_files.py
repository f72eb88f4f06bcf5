"""The files of an attempt that runs as a command: what it finds, and what it may leave (WRK-6, WRK-7).

    attempts/<attempt>/          0700, of the user that it runs as
      work/                      where it runs
      context.json               who it is, its deadline, its parameters, its upstream's outputs, its last checkpoint
      token                      lets it speak to the API about itself
      output                     it writes: `key=value` lines or a JSON object
      checkpoint                 it writes: JSON for its next attempt
      progress                   it writes: `40 loading`, or {"percent": 40, "note": "loading"}
      extend                     it writes: so many seconds it needs from now on
      artifacts/                 it writes: files that its worker is to store
      inputs/                    what was fetched for it, by task

All of it is removed before the end of the attempt is said. What the attempt makes of its directory, others never
follow: links in it are not gone after, and what is read of it belongs to its user.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from mainspring.core.model.trace_ids import traceparent
from mainspring.core.work.work import LARGEST_CHECKPOINT_BYTES
from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import Assignment
from mainspring.task_context.task_context import SavedContext, parse_window
from mainspring.worker.sandbox.task_user import TaskUser, give
from mainspring.worker.supervisor.supervisor_settings import log_path

ARTIFACTS, INPUTS = "artifacts", "inputs"
LARGEST_OUTPUT_BYTES = 1024 * 1024
LARGEST_PROGRESS_BYTES = 4_096
LONGEST_NOTE = 200
LARGEST_REQUEST_BYTES = 64
LARGEST_VARIABLE_BYTES = 64 * 1024
"""A larger item is only in the context: no system takes a variable of more than 128 KiB."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far an attempt says it is."""

    percent: float | None = None
    note: str = ""


class AttemptFiles:
    """The directory of one attempt."""

    def __init__(
        self, state_dir: Path, assignment: Assignment, deadline: datetime | None, user: TaskUser | None = None
    ) -> None:
        self._assignment = assignment
        self._user = user
        self._deadline = deadline
        self._seen: dict[Path, tuple[int, int]] = {}
        self._checkpoint = b""
        self._is_there = False
        self.root = state_dir / "attempts" / assignment.attempt
        self.work = self.root / "work"
        self.artifacts = self.root / ARTIFACTS
        self.inputs = self.root / INPUTS
        self.log = log_path(state_dir, assignment.attempt)

    def make(self) -> None:
        """Make the directory, with what the attempt finds in it."""
        self.work.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.root.chmod(0o700)
        for folder in (self.artifacts, self.inputs):
            folder.mkdir(exist_ok=True, mode=0o700)
        self._write_context()
        _write_private(self.root / "token", self._assignment.token.encode(), None)
        self._is_there = True

    def hand_over(self) -> None:
        """From now on it is the attempt's: all that was left in it belongs to its user. Raises OSError."""
        if self._user is not None:
            give(self.root, self._user)

    def prolong(self, until: datetime) -> None:
        """The attempt will be ended then, and not earlier: it may look into its context for that."""
        self._deadline = until
        if self._is_there:
            # If its disk is full, or it made something else of the file, it only goes on without knowing.
            with suppress(OSError):
                self._write_context()

    def environment(self) -> dict[str, str]:
        """The variables that tell the attempt who it is and where its files are."""
        return identity_variables(self._assignment, self._deadline) | {
            "MAINSPRING_CONTEXT": str(self.root / "context.json"),
            "MAINSPRING_OUTPUT": str(self.root / "output"),
            "MAINSPRING_CHECKPOINT": str(self.root / "checkpoint"),
            "MAINSPRING_PROGRESS": str(self.root / "progress"),
            "MAINSPRING_EXTEND": str(self.root / "extend"),
            "MAINSPRING_ARTIFACTS": str(self.artifacts),
            "MAINSPRING_INPUTS": str(self.inputs),
            "MAINSPRING_TOKEN_FILE": str(self.root / "token"),
        }

    def output(self) -> str:
        """What the attempt left as its output, as JSON. Raises Refused if it is too large, or no output."""
        text = self.left("output", LARGEST_OUTPUT_BYTES)
        if text is None:
            if os.path.lexists(self.root / "output"):
                raise Refused(f"the output must be a plain file of at most {LARGEST_OUTPUT_BYTES} bytes")
            return "null"
        return parse_output(text)

    def leave(self, name: str, content: bytes) -> Path:
        """Leave one more file for the attempt to find. Raises OSError."""
        path = self.root / name
        _write_private(path, content, None)
        return path

    def new_checkpoint(self) -> str | None:
        """A checkpoint that was not there before. One that is not whole yet is found later."""
        text = self._read_if_changed("checkpoint", LARGEST_CHECKPOINT_BYTES)
        if text is None or text == self._checkpoint:
            return None
        try:
            document = msgspec.json.encode(msgspec.json.decode(text)).decode()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        self._checkpoint = text
        return document

    def new_progress(self) -> Progress | None:
        """What the attempt says of its progress, if that is new."""
        text = self._read_if_changed("progress", LARGEST_PROGRESS_BYTES)
        return parse_progress(text.decode(errors="replace")) if text else None

    def new_request(self) -> float | None:
        """So many seconds the attempt asks for, if that is new."""
        text = self._read_if_changed("extend", LARGEST_REQUEST_BYTES)
        try:
            return float(text) if text else None
        except ValueError:
            return None  # It is not whole yet, or no number: there is nobody to tell but the author of the command.

    async def clear(self) -> None:
        """Remove everything."""
        self._is_there = False
        for entry in list(self.root.iterdir()) if self.root.exists() else ():
            if entry.is_dir() and not entry.is_symlink():
                try:
                    entry.rmdir()  # Most are empty: a thread would cost ten times as much.
                except OSError:
                    await asyncio.to_thread(shutil.rmtree, entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        shutil.rmtree(self.root, ignore_errors=True)

    def _write_context(self) -> None:
        """Write what the attempt finds, whole: it may be reading."""
        beside = self.root / "context.json.new"
        user = self._user if self._is_there else None
        _write_private(beside, context_document(self._assignment, self._deadline), user)
        beside.replace(self.root / "context.json")

    def _read_if_changed(self, name: str, most_bytes: int) -> bytes | None:
        path = self.root / name
        try:
            status = path.stat()
        except OSError:
            return None
        stamp = (status.st_mtime_ns, status.st_size)
        if self._seen.get(path) == stamp:
            return None
        self._seen[path] = stamp
        return self.left(name, most_bytes)

    def left(self, name: str, most_bytes: int) -> bytes | None:
        """The content of a plain file; None if it is not there, too large, or something else than a file."""
        try:
            file = os.open(self.root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            status = os.fstat(file)
            is_own = self._user is None or status.st_uid == self._user.uid
            if not stat.S_ISREG(status.st_mode) or not is_own:
                return None
            with open(file, "rb", closefd=False) as opened:
                content = opened.read(most_bytes + 1)
        finally:
            os.close(file)
        return content if len(content) <= most_bytes else None


def identity_variables(one: Assignment, deadline: datetime | None) -> dict[str, str]:
    """The variables that tell an attempt who it is, wherever it runs."""
    variables = {
        "MAINSPRING_RUN_ID": one.run,
        "MAINSPRING_TASK_ID": one.task,
        "MAINSPRING_TASK_NAME": one.name,
        "MAINSPRING_ATTEMPT": str(one.number),
        "MAINSPRING_ATTEMPT_ID": one.attempt,
        "MAINSPRING_TENANT": one.tenant,
        "TRACEPARENT": traceparent(one.run, one.attempt),
    }
    if deadline is not None:
        variables["MAINSPRING_DEADLINE"] = msgspec.to_builtins(deadline)
    if one.item is not None and len(one.item.encode()) <= LARGEST_VARIABLE_BYTES:
        variables["MAINSPRING_ITEM"] = one.item
    if one.partition is not None:
        variables |= {"MAINSPRING_PARTITION": str(one.partition), "MAINSPRING_TOTAL": str(one.total)}
    if one.window:
        variables |= {"MAINSPRING_WINDOW": one.window, "MAINSPRING_SCHEDULED_FOR": one.window}
    if one.memory_bytes:
        variables["MAINSPRING_MEMORY_BYTES"] = str(one.memory_bytes)
    return variables


def context_document(one: Assignment, deadline: datetime | None) -> bytes:
    """What an attempt finds in its context file: JSON."""
    context = SavedContext(
        run_id=one.run,
        task_id=one.task,
        task_name=one.name,
        attempt=one.number,
        attempt_id=one.attempt,
        tenant=one.tenant,
        deadline=deadline,
        params=msgspec.Raw(one.params.encode()),
        outputs={name: msgspec.Raw(output.encode()) for name, output in one.inputs.items()},
        failed_upstreams=one.failed_upstreams,
        checkpoint=msgspec.Raw((one.checkpoint or "null").encode()),
        item=msgspec.Raw((one.item or "null").encode()),
        partition=one.partition,
        total=one.total,
        window=parse_window(one.window),
        memory_bytes=one.memory_bytes,
    )
    return msgspec.json.encode(context)


def clear_leftovers(state_dir: Path) -> None:
    """Remove what a guard that was killed has left: all but the logs. Nothing may run here."""
    for name in ("children", "attempts"):
        shutil.rmtree(state_dir / name, ignore_errors=True)


def parse_output(text: bytes) -> str:
    """The output in a file: a JSON object, or `key=value` lines. Raises Refused."""
    stripped = text.strip()
    if not stripped:
        return "null"
    try:
        if stripped.startswith(b"{"):
            return msgspec.json.encode(msgspec.json.decode(stripped, type=dict[str, object])).decode()
        lines = [line for line in stripped.decode().splitlines() if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"the output can't be read: {error}") from None
    output: dict[str, str] = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise Refused("the output can't be read: it is neither a JSON object nor lines of key=value")
        output[key.strip()] = value
    return msgspec.json.encode(output).decode()


def parse_progress(text: str) -> Progress | None:
    """`40 loading`, `loading`, or a JSON object with `percent` and `note`. None if it is not whole."""
    text = text.strip()
    if text.startswith("{"):
        try:
            said = msgspec.json.decode(text, type=Progress)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return bounded_progress(said.percent, said.note)
    first, _, rest = text.partition(" ")
    try:
        return bounded_progress(float(first.removesuffix("%")), rest)
    except ValueError:
        return bounded_progress(None, text) if text else None


def bounded_progress(percent: float | None, note: str) -> Progress:
    """Progress as it can be passed on: from 0 to 100, one short line."""
    if percent is not None:
        percent = min(100.0, max(0.0, percent)) if percent == percent else None  # noqa: PLR0124 - a NaN is not itself
    return Progress(percent=percent, note=" ".join(note.split())[:LONGEST_NOTE])


def _write_private(path: Path, content: bytes, user: TaskUser | None) -> None:
    """A new file that only this user can read. What is there under its name is removed, never written through."""
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(file, "wb") as opened:
        opened.write(content)
        if user is not None:
            os.fchown(file, user.uid, user.gid)
