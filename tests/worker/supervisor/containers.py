"""An image made of local programs, and a podman with its own storage."""

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
    """Provide an engine with the image; remove everything on exit."""
    # Podman accepts no path above 50 characters, and test directories are longer.
    directory = Path(tempfile.mkdtemp(prefix="ms-podman-"))
    engine = find_engine(f"podman --storage-driver vfs --root {directory}/root --runroot {directory}/run")
    assert engine is not None
    tell(engine, "import", "--quiet", str(_rootfs(directory / "image.tar")), IMAGE)
    try:
        yield engine
    finally:
        tell(engine, "rm", "--force", "--all", "--time", "0")
        shutil.rmtree(directory, ignore_errors=True)


def tell(engine: Engine, *argv: str) -> str:
    """Run an engine command; return its output."""
    done = subprocess.run([*engine.argv, *argv], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _rootfs(path: Path) -> Path:
    """Write a tar with a few programs and their libraries."""
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
