"""Artifact storage of a worker: a directory or an S3 bucket (WRK-11).

A file is read once; its SHA-256 is computed while it is stored. Objects appear completely or not at all. All calls
block: call them in threads.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from mainspring.atomic_files import sync_path
from mainspring.client.artifact_files import CHUNK_BYTES, SCHEMES, first_line, open_bucket, place_of
from mainspring.core.model.artifacts import storage_key
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.protocol.wire import Artifact, Assignment
from mainspring.worker.artifacts.artifact_folder import ArtifactFile
from mainspring.worker.executors.attempt_files import ARTIFACTS

if TYPE_CHECKING:
    from obstore.store import LocalStore, S3Store

_MAX_CONCURRENT_PARTS = 2
"""Parts of one file in flight, which bounds memory."""
_LIST_PAGE_SIZE = 1_000


class ArtifactStore:
    """A storage by URL: `file:///srv/artifacts` or `s3://bucket/prefix`."""

    def __init__(self, url: str, *, keep_seconds: int = 0) -> None:
        """Raises Refused if the URL is invalid."""
        fault = fault_in_storage(url)
        if fault is not None:
            raise Refused(f"{url} {fault}")
        self.url = url.rstrip("/")
        self._keep_seconds = keep_seconds
        self._directory = directory_of(self.url)
        parts = urlsplit(self.url)
        self._bucket = parts.netloc
        self._prefix = unquote(parts.path).strip("/")

    def store(self, source: ArtifactFile, one: Assignment, is_wanted: Callable[[], bool]) -> Artifact:
        """Store a file of an attempt. Raises Unavailable, also when it is no longer wanted."""
        import obstore
        from obstore.exceptions import BaseError

        key = storage_key(one.tenant, one.run, one.task, one.attempt, source.path)
        digest = hashlib.sha256()
        try:
            store = self._open()
            obstore.put(
                store, self._full(key), _pieces(source, digest, is_wanted), max_concurrency=_MAX_CONCURRENT_PARTS
            )
            self._sync(key)
        except (BaseError, ValueError, OSError) as error:
            raise Unavailable(f"cannot store {source.path} at {self.url}: {first_line(error)}") from None
        return Artifact(source.path, source.size_bytes, digest.hexdigest(), place_of(self.url, key), self._keep_seconds)

    def objects(self) -> Iterator[tuple[str, datetime]]:
        """Yield the keys of all objects, relative to the prefix, and when they were stored. Raises Unavailable."""
        from obstore.exceptions import BaseError

        try:
            for page in self._open().list(self._full("") or None, chunk_size=_LIST_PAGE_SIZE):
                for found in page:
                    key = found["path"].removeprefix(self._full(""))
                    yield key.lstrip("/"), found["last_modified"]
        except FileNotFoundError:
            return
        except (BaseError, ValueError, OSError) as error:
            raise Unavailable(f"cannot list {self.url}: {first_line(error)}") from None

    def remove(self, keys: list[str]) -> None:
        """Delete objects; missing ones are ignored. Raises Unavailable."""
        from obstore.exceptions import BaseError

        try:
            self._open().delete([self._full(key) for key in keys])
        except FileNotFoundError:
            return
        except (BaseError, ValueError, OSError) as error:
            raise Unavailable(f"cannot delete from {self.url}: {first_line(error)}") from None

    def _open(self) -> LocalStore | S3Store:
        from obstore.store import LocalStore

        if self._directory is None:
            return open_bucket(self._bucket)
        return LocalStore(self._directory, mkdir=True, automatic_cleanup=True)

    def _full(self, key: str) -> str:
        """Return the key including the prefix, as the opened store names it."""
        return key if self._directory is not None or not self._prefix else f"{self._prefix}/{key}"

    def _sync(self, key: str) -> None:
        """Fsync the file and its directory: the result that refers to it is durable as well."""
        if self._directory is None:
            return
        path = self._directory / key
        sync_path(path)
        sync_path(path.parent)


def storage_of(state_dir: Path, url: str, *, keep_seconds: int = 0) -> ArtifactStore:
    """Return a worker's storage: the configured one, else a directory below its state directory."""
    return ArtifactStore(url or f"file://{quote(str(state_dir.resolve() / ARTIFACTS))}", keep_seconds=keep_seconds)


def fault_in_storage(url: str) -> str | None:
    """Return why a storage URL is invalid; None if it is valid."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or parts.query or parts.fragment or ".." in parts.path.split("/"):
        return "is not a storage URL: use file:///directory or s3://bucket/prefix"
    if parts.scheme == "file" and (parts.netloc or len(parts.path) < 2):
        return "is not a storage URL: use file:///directory"
    if parts.scheme == "s3" and not parts.netloc:
        return "is not a storage URL: use s3://bucket/prefix"
    return None


def directory_of(url: str) -> Path | None:
    """Return the directory of a storage; None if it is a bucket."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _pieces(source: ArtifactFile, digest: hashlib._Hash, is_wanted: Callable[[], bool]) -> Iterator[bytes]:
    """Yield the content of an open file while it is wanted, up to the size at the time of the check."""
    at = 0
    while at < source.size_bytes:
        if not is_wanted():
            raise Unavailable("the attempt is being stopped")
        piece = os.pread(source.file, min(CHUNK_BYTES, source.size_bytes - at), at)
        if not piece:
            raise OSError(f"{source.path} was truncated while it was read")
        digest.update(piece)
        at += len(piece)
        yield piece
