"""The worker's spool: one append-only file of blocks, and a lock, below the state directory.

    block = length (4 bytes), CRC-32 (4 bytes), msgpack list of records

1. `append` returns when its records are in the file, all of them or (after a crash) none: an agent that is killed
   later loses none of them. Results are also fsynced and survive a power loss. The other records need not: received and
   started attempts end with the machine, and the server reschedules them (a result costs 0.2 ms, the others 0.02).
2. A torn last block is truncated at startup and saved next to the spool for inspection.
3. Two agents never share a directory: the kernel holds the lock for as long as the process lives.
4. When most of the file concerns forgotten attempts, it is rewritten and replaced by a rename.
5. It is bounded: `spool_full` says when the worker must not accept more work (I-53). It never drops anything.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from mainspring.atomic_files import sync_path
from mainspring.protocol.errors import Refused
from mainspring.worker.agent.instructions import Mark, Record
from mainspring.worker.agent.state_machine import MAX_UNKNOWN_RESULTS
from mainspring.worker.supervisor.supervisor_settings import try_lock

log = structlog.get_logger()

MAX_SPOOL_BYTES = 256 * 1024 * 1024
FULL_ABOVE = 0.8
RESUME_BELOW = 0.5
SMALL_BYTES = 1024 * 1024
"""A smaller file is not worth compacting."""
_HEADER_BYTES = 8
_ARRAY = b"\xdd"
"""msgpack marker of a list with a length of four bytes."""
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[list[Record]] = msgspec.msgpack.Decoder(list[Record])


class Spool:
    """Records of one worker, and the size of those that still matter."""

    def __init__(self, directory: Path, limit_bytes: int = MAX_SPOOL_BYTES) -> None:
        """Open the spool below `directory`. Raises Refused if another process uses it."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._path = directory / "spool"
        self._limit = limit_bytes
        self._lock = _lock(directory / "lock")
        self._current: dict[str, dict[Mark, bytes]] = {}
        self._unknown: dict[str, dict[Mark, bytes]] = {}
        self._current_bytes = 0
        self.spool_full = False
        """Whether the spool is too full to accept new work."""
        (directory / "spool.new").unlink(missing_ok=True)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = 0
        self._found = self._read()

    def found(self) -> list[Record]:
        """Return the records that were in the spool at startup, once."""
        found, self._found = self._found, []
        return found

    def append(self, records: Sequence[Record]) -> None:
        """Write records; results durably. Raises OSError, having written nothing, if the disk fails."""
        encoded = [_ENCODER.encode(record) for record in records]
        block = _block(encoded)
        try:
            _write(self._file, block, self._size)
            if any(record.mark is Mark.ENDED for record in records):
                os.fdatasync(self._file)
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(block)
        for record, text in zip(records, encoded, strict=True):
            self._account(record, text)
        if self._size > max(SMALL_BYTES, 2 * self._current_bytes):
            self._compact()
        self._update_full()

    def close(self) -> None:
        """Close the file and release the lock."""
        os.close(self._file)
        os.close(self._lock)

    def _read(self) -> list[Record]:
        data = self._path.read_bytes()
        records: list[Record] = []
        while (block := _block_at(data, self._size)) is not None:
            payload, self._size = block
            for record in _DECODER.decode(payload):
                records.append(record)
                self._account(record, _ENCODER.encode(record))
        if self._size < len(data):
            cut = data[self._size :]
            (self._directory / "spool.cut").write_bytes(cut)
            log.warning("spool.torn", path=str(self._path), at=self._size, cut_bytes=len(cut))
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)
        self._update_full()
        return records

    def _account(self, record: Record, text: bytes) -> None:
        """Track the records that a compacted file would contain."""
        attempt = record.attempt
        if record.mark is Mark.FORGOTTEN:
            self._current_bytes -= _size(self._current.pop(attempt, {}))
            return
        lines = self._current.setdefault(attempt, {})
        self._current_bytes += len(text) - len(lines.get(record.mark, b""))
        lines[record.mark] = text
        if record.mark is Mark.UNKNOWN:
            self._unknown[attempt] = self._current.pop(attempt)
            while len(self._unknown) > MAX_UNKNOWN_RESULTS:
                self._current_bytes -= _size(self._unknown.pop(next(iter(self._unknown))))

    def _compact(self) -> None:
        """Write the current records to a new file, and replace the old one."""
        encoded = [text for lines in (*self._unknown.values(), *self._current.values()) for text in lines.values()]
        block = _block(encoded) if encoded else b""
        new = self._directory / "spool.new"
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write(file, block, 0)
            os.fsync(file)
            new.rename(self._path)
        except OSError as error:
            # The old file is complete: the next append tries again.
            os.close(file)
            log.warning("spool.not_compacted", path=str(self._path), error=str(error))
            return
        sync_path(self._directory)
        os.close(self._file)
        self._file, self._size = file, len(block)

    def _update_full(self) -> None:
        """Update `spool_full`, with hysteresis."""
        share = self._current_bytes / self._limit
        if not self.spool_full and share > FULL_ABOVE:
            self.spool_full = True
            log.error("spool.full", path=str(self._path), bytes=self._current_bytes, limit_bytes=self._limit)
        elif self.spool_full and share < RESUME_BELOW:
            self.spool_full = False
            log.info("spool.available", path=str(self._path), bytes=self._current_bytes)


def _block(encoded: Sequence[bytes]) -> bytes:
    payload = b"".join((_ARRAY, len(encoded).to_bytes(4, "big"), *encoded))
    return b"".join((len(payload).to_bytes(4, "big"), zlib.crc32(payload).to_bytes(4, "big"), payload))


def _block_at(data: bytes, at: int) -> tuple[bytes, int] | None:
    """Return the block at an offset and where it ends; None if there is none, or it is incomplete."""
    begin = at + _HEADER_BYTES
    end = begin + int.from_bytes(data[at : at + 4], "big")
    payload = data[begin:end]
    if begin >= len(data) or len(payload) < end - begin or not payload:
        return None
    if zlib.crc32(payload) != int.from_bytes(data[at + 4 : begin], "big"):
        return None
    return payload, end


def _size(lines: dict[Mark, bytes]) -> int:
    return sum(map(len, lines.values()))


def _write(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written


def _lock(path: Path) -> int:
    """Hold the lock of a state directory for as long as this process lives."""
    file = try_lock(path)
    if file is None:
        holder = path.read_text("ascii", "replace").strip() or "unknown"
        raise Refused(
            f"{path.parent} is in use by another worker (process {holder}); each worker needs its own\n"
            "hint: set another name with --name, or another directory with --state-dir"
        )
    os.ftruncate(file, 0)
    os.pwrite(file, str(os.getpid()).encode(), 0)
    return file
