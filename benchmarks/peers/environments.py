"""One environment per system: created once, kept between runs, recreated when its packages change.

Packages come from the indexes that pip and npm are configured for. A kept environment is not updated: to measure newer
versions, delete its directory.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import mainspring
from benchmarks.peers.peer import Peer
from benchmarks.peers.processes import SystemFailure

ROOT = Path(__file__).parents[2]
_STAMP = "installed.json"
_MAX_SECONDS = 900
_ASK_VERSIONS = (
    "import importlib.metadata as m, json, sys; "
    "print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
)  # fmt: skip
_UNTOLD = {"DO_NOT_TRACK": "1", "SCARF_ANALYTICS": "false"}
"""Opt out of telemetry of some packages."""
_LAST_LETTERS = 2_000


class Environment(NamedTuple):
    """Where a system is installed."""

    folder: Path
    seconds: float
    """Duration of the installation."""
    versions: dict[str, str]

    @property
    def programs(self) -> Path:
        """Directory of its commands."""
        return self.folder / "bin"

    @property
    def modules(self) -> Path:
        """Directory of its npm packages."""
        return self.folder / "node_modules"


def default_folder() -> Path:
    """Default directory of environments, in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mainspring" / "peers"


def environment_of(peer: Peer, under: Path) -> Environment:
    """Return the environment of a system; create it if needed. Raises Trouble with the last output of pip or npm."""
    folder = under / peer.name
    wanted = [*peer.packages, *peer.modules, *([(ROOT / peer.lock).read_text()] if peer.lock else [])]
    stamp = folder / _STAMP
    if stamp.exists() and json.loads(stamp.read_text())["wanted"] == wanted:
        seconds = float(json.loads(stamp.read_text())["seconds"])
    else:
        shutil.rmtree(folder, ignore_errors=True)
        began = time.monotonic()
        _install(peer, folder)
        seconds = time.monotonic() - began
        # Written last: an interrupted installation is repeated.
        stamp.write_text(json.dumps({"wanted": wanted, "seconds": round(seconds, 1)}))
    return Environment(folder, seconds, _versions(peer, folder))


def bare_name(requirement: str) -> str:
    """Return the name of a package, without extras and versions: `celery` for `celery[redis]>=5`."""
    found = re.match(r"(@[\w.-]+/)?[\w.-]+", requirement)
    if found is None:
        raise ValueError(f"not a package: {requirement}")
    return found[0]


def _install(peer: Peer, folder: Path) -> None:
    if shutil.which("npm") is None and peer.modules:
        raise SystemFailure("npm is not here. It comes with Node: as root, apt-get install npm")
    folder.mkdir(parents=True)
    _run([sys.executable, "-m", "venv", str(folder)])
    packages = [*peer.packages, *(["--requirement", str(ROOT / peer.lock)] if peer.lock else [])]
    if packages:
        options = ["--quiet", "--disable-pip-version-check"]
        _run([str(folder / "bin" / "python"), "-m", "pip", "install", *options, *packages])
    if peer.modules:
        (folder / "package.json").write_text(json.dumps({"name": "measured", "private": True}))
        options = ["--omit-lockfile-registry-resolved=true", "--no-audit", "--no-fund", "--prefix", str(folder)]
        _run(["npm", "install", *options, *peer.modules], folder)


def _run(words: Sequence[str], folder: Path | None = None) -> None:
    ended = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=folder, timeout=_MAX_SECONDS,
        stdin=subprocess.DEVNULL, env={**os.environ, **_UNTOLD},
    )  # fmt: skip
    if ended.returncode != 0:
        raise SystemFailure(f"{' '.join(words)} ended with {ended.returncode}: {ended.stderr.strip()[-_LAST_LETTERS:]}")


def _versions(peer: Peer, folder: Path) -> dict[str, str]:
    asked = subprocess.run(
        [str(folder / "bin" / "python"), "-c", _ASK_VERSIONS, *map(bare_name, peer.packages)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str] = json.loads(asked.stdout)
    for name in map(bare_name, peer.modules):
        found[name] = str(json.loads((folder / "node_modules" / name / "package.json").read_text())["version"])
    return found | ({"mainspring": mainspring.__version__} if peer.lock else {})
