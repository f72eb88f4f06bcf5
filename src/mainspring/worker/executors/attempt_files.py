"""Files of an attempt that runs as a command: its inputs and outputs (WRK-6, WRK-7).

    attempts/<attempt>/          mode 0700, owned by the user that it runs as
      work/                      working directory
      context.json               identity, deadline, parameters, upstream outputs, last checkpoint
      token                      API token of the attempt
      output                     written by the task: `key=value` lines or a JSON object
      checkpoint                 written by the task: JSON for its next attempt
      progress                   written by the task: `40 loading`, or {"percent": 40, "note": "loading"}
      extend                     written by the task: seconds that it needs from now on
      artifacts/                 written by the task: files for the worker to store
      inputs/                    fetched artifacts, by upstream task

All of it is removed before the end of the attempt is reported. The directory is untrusted: links in it are never
followed, and only files owned by its user are read.
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
from msgspec.structs import asdict

from mainspring.atomic_files import write_atomically
from mainspring.core.model.trace_ids import traceparent
from mainspring.core.work.work import MAX_CHECKPOINT_BYTES
from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import Assignment
from mainspring.task_context.task_context import Identity, SavedContext
from mainspring.worker.sandbox.task_user import TaskUser, change_owner
from mainspring.worker.supervisor.supervisor_settings import log_path

ARTIFACTS, INPUTS = "artifacts", "inputs"
MAX_OUTPUT_BYTES = 1024 * 1024
MAX_PROGRESS_BYTES = 4_096
MAX_NOTE_LENGTH = 200
MAX_REQUEST_BYTES = 64
MAX_VARIABLE_BYTES = 64 * 1024
"""A larger item is only in the context: no system supports variables above 128 KiB."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress reported by an attempt."""

    percent: float | None = None
    note: str = ""


class AttemptFiles:
    """Directory of one attempt."""

    def __init__(
        self, state_dir: Path, assignment: Assignment, deadline: datetime | None, user: TaskUser | None = None
    ) -> None:
        self._assignment = assignment
        self._user = user
        self._deadline = deadline
        self._seen: dict[Path, tuple[int, int]] = {}
        self._checkpoint = b""
        self._exists = False
        self.root = state_dir / "attempts" / assignment.attempt
        self.work = self.root / "work"
        self.artifacts = self.root / ARTIFACTS
        self.inputs = self.root / INPUTS
        self.log = log_path(state_dir, assignment.attempt)

    def make(self) -> None:
        """Create the directory with its input files."""
        self.work.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.root.chmod(0o700)
        for folder in (self.artifacts, self.inputs):
            folder.mkdir(exist_ok=True, mode=0o700)
        self._write_context()
        write_atomically(self.root / "token", self._assignment.token.encode(), mode=0o600)
        self._exists = True

    def release_to_user(self) -> None:
        """Change the owner of the directory to the task's user. Raises OSError."""
        if self._user is not None:
            change_owner(self.root, self._user)

    def directory(self, wanted: str | None) -> Path:
        """Return the working directory: an absolute path, or one created below the attempt's own. Raises OSError."""
        directory = Path(os.path.normpath(self.work / (wanted or "")))
        if directory.is_relative_to(self.work):
            directory.mkdir(parents=True, exist_ok=True)
        return directory

    def prolong(self, until: datetime) -> None:
        """Write the new deadline to the context file."""
        self._deadline = until
        if self._exists:
            # If the disk is full, or the task replaced the file, it does not learn the new deadline.
            with suppress(OSError):
                self._write_context()

    def environment(self) -> dict[str, str]:
        """Return the variables that identify the attempt and locate its files."""
        files = {"CONTEXT": "context.json", "TOKEN_FILE": "token"}
        files |= {name.upper(): name for name in ("output", "checkpoint", "progress", "extend", ARTIFACTS, INPUTS)}
        located = {f"MAINSPRING_{name}": str(self.root / file) for name, file in files.items()}
        return identity_variables(self._assignment, self._deadline) | located

    def output(self) -> str:
        """Return the output as JSON. Raises Refused if it is too large or malformed."""
        text = self.read_plain_file("output", MAX_OUTPUT_BYTES)
        if text is None:
            if os.path.lexists(self.root / "output"):
                raise Refused(f"the output must be a plain file of at most {MAX_OUTPUT_BYTES} bytes")
            return "null"
        return parse_output(text)

    def write_inputs(self, name: str, content: bytes) -> Path:
        """Write one more input file. Raises OSError."""
        path = self.root / name
        write_atomically(path, content, mode=0o600)
        return path

    def new_checkpoint(self) -> str | None:
        """Return a new checkpoint, if there is one. An incomplete one is found later."""
        text = self._read_if_changed("checkpoint", MAX_CHECKPOINT_BYTES)
        if text is None or text == self._checkpoint:
            return None
        try:
            document = msgspec.json.encode(msgspec.json.decode(text)).decode()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        self._checkpoint = text
        return document

    def new_progress(self) -> Progress | None:
        """Return the progress if it has changed."""
        text = self._read_if_changed("progress", MAX_PROGRESS_BYTES)
        return parse_progress(text.decode(errors="replace")) if text else None

    def new_extension_request(self) -> float | None:
        """Return the requested extension in seconds, if there is a new one."""
        text = self._read_if_changed("extend", MAX_REQUEST_BYTES)
        try:
            return float(text) if text else None
        except ValueError:
            return None  # Incomplete, or not a number.

    async def clear(self) -> None:
        """Remove the directory."""
        self._exists = False
        for entry in list(self.root.iterdir()) if self.root.exists() else ():
            if entry.is_dir() and not entry.is_symlink():
                try:
                    entry.rmdir()  # Most are empty: a thread costs ten times as much.
                except OSError:
                    await asyncio.to_thread(shutil.rmtree, entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        shutil.rmtree(self.root, ignore_errors=True)

    def _write_context(self) -> None:
        """Replace the context file atomically: the attempt may be reading it."""
        owner = (self._user.uid, self._user.gid) if self._user is not None and self._exists else None
        document = context_document(self._assignment, self._deadline)
        write_atomically(self.root / "context.json", document, mode=0o600, owner=owner)

    def _read_if_changed(self, name: str, max_bytes: int) -> bytes | None:
        path = self.root / name
        try:
            status = path.stat()
        except OSError:
            return None
        stamp = (status.st_mtime_ns, status.st_size)
        if self._seen.get(path) == stamp:
            return None
        self._seen[path] = stamp
        return self.read_plain_file(name, max_bytes)

    def read_plain_file(self, name: str, max_bytes: int) -> bytes | None:
        """Return the content of a plain file; None if it is missing, too large or not a plain file."""
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
                content = opened.read(max_bytes + 1)
        finally:
            os.close(file)
        return content if len(content) <= max_bytes else None


def identity_variables(one: Assignment, deadline: datetime | None) -> dict[str, str]:
    """Return the variables that identify an attempt, wherever it runs."""
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
    if one.item is not None and len(one.item.encode()) <= MAX_VARIABLE_BYTES:
        variables["MAINSPRING_ITEM"] = one.item
    if one.partition is not None:
        variables |= {"MAINSPRING_PARTITION": str(one.partition), "MAINSPRING_TOTAL": str(one.total)}
    if one.window:
        variables |= {"MAINSPRING_WINDOW": one.window, "MAINSPRING_SCHEDULED_FOR": one.window}
    if one.memory_bytes:
        variables["MAINSPRING_MEMORY_BYTES"] = str(one.memory_bytes)
    return variables


def identity_of(one: Assignment) -> Identity:
    """Return what a task's context says about its attempt."""
    return Identity(
        run_id=one.run,
        task_id=one.task,
        task_name=one.name,
        attempt=one.number,
        attempt_id=one.attempt,
        tenant=one.tenant,
        failed_upstreams=one.failed_upstreams,
        partition=one.partition,
        total=one.total,
        window=msgspec.convert(one.window, datetime) if one.window else None,
        memory_bytes=one.memory_bytes,
    )


def context_document(one: Assignment, deadline: datetime | None) -> bytes:
    """Return the content of the context file: JSON."""
    context = SavedContext(
        **asdict(identity_of(one)),
        deadline=deadline,
        params=msgspec.Raw(one.params.encode()),
        outputs={name: msgspec.Raw(output.encode()) for name, output in one.inputs.items()},
        checkpoint=msgspec.Raw((one.checkpoint or "null").encode()),
        item=msgspec.Raw((one.item or "null").encode()),
    )
    return msgspec.json.encode(context)


def clear_leftovers(state_dir: Path) -> None:
    """Remove the files of a supervisor that was killed, except logs. No attempt may be running."""
    for name in ("children", "attempts"):
        shutil.rmtree(state_dir / name, ignore_errors=True)


def parse_output(text: bytes) -> str:
    """Parse an output file: a JSON object, or `key=value` lines. Raises Refused."""
    stripped = text.strip()
    if not stripped:
        return "null"
    try:
        if stripped.startswith(b"{"):
            return msgspec.json.encode(msgspec.json.decode(stripped, type=dict[str, object])).decode()
        lines = [line for line in stripped.decode().splitlines() if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"invalid output: {error}") from None
    output: dict[str, str] = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise Refused("invalid output: neither a JSON object nor key=value lines")
        output[key.strip()] = value
    return msgspec.json.encode(output).decode()


def parse_progress(text: str) -> Progress | None:
    """Parse `40 loading`, `loading`, or a JSON object with `percent` and `note`. None if it is incomplete."""
    text = text.strip()
    if text.startswith("{"):
        try:
            parsed = msgspec.json.decode(text, type=Progress)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return bounded_progress(parsed.percent, parsed.note)
    first, _, rest = text.partition(" ")
    try:
        return bounded_progress(float(first.removesuffix("%")), rest)
    except ValueError:
        return bounded_progress(None, text) if text else None


def bounded_progress(percent: float | None, note: str) -> Progress:
    """Clamp progress to 0..100 and one short line."""
    if percent is not None:
        percent = min(100.0, max(0.0, percent)) if percent == percent else None  # noqa: PLR0124 - a NaN is not itself
    return Progress(percent=percent, note=" ".join(note.split())[:MAX_NOTE_LENGTH])
