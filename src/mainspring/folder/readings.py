"""Pipeline files that were read before, so that a start with a thousand of them does not read them all again.

Reading a file takes about a millisecond, finding it here 50 µs. The key is everything that the reading follows from; a
file that can't be read, or anything that is wrong with this one, means only that pipelines are read again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec
import structlog

from mainspring import __version__
from mainspring.errors import InvalidFile
from mainspring.folder import kept_files
from mainspring.folder.records import OWN_DIRECTORY
from mainspring.sdk.pipelines import Pipeline, read_pipeline

READINGS_FILE = "pipelines.msgpack"
_LARGEST_BYTES = 1024 * 1024 * 1024

log = structlog.get_logger()


class Readings:
    """What pipeline files say, kept from one process to the next."""

    def __init__(self, root: Path) -> None:
        self._path = root / OWN_DIRECTORY / READINGS_FILE
        self._kept: dict[str, Pipeline] = {}
        self._is_changed = False

    def load(self) -> None:
        """Take up what an earlier process read."""
        try:
            data = kept_files.read(self._path, most_bytes=_LARGEST_BYTES)
            self._kept = {} if data is None else msgspec.msgpack.decode(data, type=dict[str, Pipeline])
        except (InvalidFile, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            log.info("readings.not_used", path=str(self._path), because=str(error))

    def read(self, text: str, file: str, *, id: str, directory: str, zone: str) -> Pipeline:
        """The pipeline in a file's text. Raises InvalidFile, with all its flaws and their lines."""
        key = hashlib.sha256(msgspec.msgpack.encode((__version__, zone, directory, id, file, text))).hexdigest()
        if key not in self._kept:
            self._kept[key] = read_pipeline(text, file, id=id, directory=directory, local_zone=zone)
            self._is_changed = True
        return self._kept[key]

    def save(self, used: Iterable[Pipeline]) -> None:
        """Keep these for the next process, if there is something new."""
        ids = {id(pipeline) for pipeline in used}
        if not self._is_changed and len(ids) == len(self._kept):
            return
        self._is_changed = False
        self._kept = {key: pipeline for key, pipeline in self._kept.items() if id(pipeline) in ids}
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            kept_files.replace(self._path, msgspec.msgpack.encode(self._kept))
        except OSError as error:
            log.warning("readings.not_written", path=str(self._path), error=error.strerror)
