"""An image that is made of what this machine has, and a podman whose storage is a test's own."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mainspring.worker.executors.container_engine import Engine, find_engine

IMAGE = "localhost/mainspring-test:1"
PROGRAMS = ("sh", "cat", "sleep", "id", "touch", "env", "ls")


@contextmanager
def podman() -> Iterator[Engine]:
    """An engine that has the image. Nothing of it is left."""
    # Podman takes no directory whose path is longer than 50 characters, and those of tests are.
    directory = Path(tempfile.mkdtemp(prefix="ms-podman-"))
    engine = find_engine(f"podman --storage-driver vfs --root {directory}/root --runroot {directory}/run")
    assert engine is not None
    tell(engine, "import", "--quiet", str(_rootfs(directory / "image.tar")), IMAGE)
    try:
        yield engine
    finally:
        tell(engine, "rm", "--force", "--all", "--time", "0")
        shutil.rmtree(directory, ignore_errors=True)


def tell(engine: Engine, *words: str) -> str:
    """What an engine answers to a command."""
    done = subprocess.run([*engine.words, *words], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _rootfs(path: Path) -> Path:
    """A tar with a few programs and their libraries."""
    with tarfile.open(path, "w") as image:
        for name in ("bin", "tmp", "etc", "proc", "sys", "dev"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            image.addfile(entry)
        libraries: set[str] = set()
        for program in PROGRAMS:
            found = shutil.which(program)
            assert found is not None
            image.add(Path(found).resolve(), f"bin/{program}")
            listed = subprocess.run(["ldd", found], capture_output=True, check=True, text=True).stdout
            libraries |= {word for word in listed.split() if word.startswith("/")}
        for library in sorted(libraries):
            image.add(Path(library).resolve(), library.lstrip("/"))
    return path
