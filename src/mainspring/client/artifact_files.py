"""Download artifacts from where workers stored them: a disk, or S3-compatible storage (WRK-11).

    file:///srv/artifacts/<key>        a disk that the reader shares
    s3://bucket/prefix/<key>           with the reader's credentials: AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ..

1. A location is read only if it ends in the artifact's key (`core/model/artifacts.py`): workers report locations, and
   must not be able to make a reader open another file.
2. The content is verified by size and SHA-256. Raises Refused on a mismatch.
3. A file is never in memory as a whole.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from mainspring.client.server_urls import is_loopback
from mainspring.core.model.artifacts import storage_key
from mainspring.protocol.errors import NotFound, Refused, Unavailable
from mainspring.protocol.rest.artifacts import ArtifactView

if TYPE_CHECKING:
    from obstore.store import S3Store

CHUNK_BYTES = 4 * 1024 * 1024
SCHEMES = ("file", "s3")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_RETRIES = 5
_RETRY_SECONDS = 60.0
_CONNECT_SECONDS = 5.0
_REQUEST_SECONDS = 120.0


def copy_artifact(artifact: ArtifactView, write: Callable[[bytes], object]) -> None:
    """Pass the content of an artifact to `write`, in chunks.

    Raises NotFound if it was deleted, Unavailable if it can't be read from here, Refused if it does not match what was
    stored: discard what was written until then.
    """
    scheme, bucket, path = _split(artifact)
    chunks = _read_file(path, artifact.location) if scheme == "file" else _read_bucket(bucket, path, artifact)
    digest = hashlib.sha256()
    size_bytes = 0
    for chunk in chunks:
        size_bytes += len(chunk)
        if size_bytes > artifact.size_bytes:
            break
        digest.update(chunk)
        write(chunk)
    if size_bytes != artifact.size_bytes or digest.hexdigest() != artifact.sha256:
        raise Refused(f"{artifact.path} does not match what was stored: the content of {artifact.location} has changed")


def place_of(root: str, key: str) -> str:
    """Return the URL of a key in a storage."""
    return f"{root.rstrip('/')}/{quote(key)}"


@lru_cache(maxsize=64)
def open_bucket(name: str) -> S3Store:
    """Open a bucket with the credentials, region and endpoint of the environment. Raises Refused."""
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "")
    is_here = is_loopback(urlsplit(endpoint).hostname or "")
    more = {"endpoint": endpoint} if endpoint else {}
    try:
        return S3Store(
            name,
            client_options={
                "allow_http": is_here or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true",
                "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
                "timeout": timedelta(seconds=_REQUEST_SECONDS),
            },
            retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
            **more,  # type: ignore[arg-type]  # a name of its own for every option
        )
    except (BaseError, ValueError) as error:
        raise Refused(f"the bucket {name} can't be used: {first_line(error)}") from None


def first_line(error: BaseException) -> str:
    """Return the first line of a storage error: the rest is debug output of the library."""
    return str(error).partition("\n")[0][:500] or type(error).__name__


def _split(artifact: ArtifactView) -> tuple[str, str, str]:
    """Split a location into scheme, bucket and path. Raises Refused if it is not valid for this artifact."""
    parts = urlsplit(artifact.location)
    path = unquote(parts.path)
    key = storage_key(artifact.tenant, artifact.run_id, artifact.task_id, artifact.attempt_id, artifact.path)
    is_bare = not parts.query and not parts.fragment
    if parts.scheme not in SCHEMES or not is_bare or not path.endswith(f"/{key}") or "/../" in path:
        raise Refused(f"{artifact.location} is not a valid location of {artifact.path}: it must end in {key}")
    if parts.scheme == "file" and parts.netloc not in {"", "localhost"}:
        raise Refused(f"{artifact.location} is on another machine")
    return parts.scheme, parts.netloc, path


def _read_file(path: str, location: str) -> Iterator[bytes]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound(
            f"{location} does not exist on this machine: it was deleted, or is on its worker's machine"
        ) from None
    except OSError as error:
        raise Unavailable(f"{location} can't be read from here: {error.strerror}") from None
    with open(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise Refused(f"{location} is not a regular file")
        try:
            while chunk := opened.read(CHUNK_BYTES):
                yield chunk
        except OSError as error:
            raise Unavailable(f"{location} can't be read from here: {error.strerror}") from None


def _read_bucket(bucket: str, path: str, artifact: ArtifactView) -> Iterator[bytes]:
    """Read an object in ranges, so that no request is long."""
    from obstore.exceptions import BaseError

    store = open_bucket(bucket)
    key = path.lstrip("/")
    try:
        if not artifact.size_bytes:
            store.head(key)
        for start in range(0, artifact.size_bytes, CHUNK_BYTES):
            length = min(CHUNK_BYTES, artifact.size_bytes - start)
            yield bytes(store.get_range(key, start=start, length=length))
    except FileNotFoundError:
        raise NotFound(f"{artifact.location} does not exist: it was deleted") from None
    except (BaseError, ValueError, OSError) as error:
        raise Unavailable(f"{artifact.location} can't be read from here: {first_line(error)}") from None
