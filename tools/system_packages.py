"""Install programs that tests need and that no wheel provides: `python3 -m tools.system_packages`.

As root with apt-get, missing packages are installed; otherwise they are listed, and the exit code is 1. Uses only the
standard library: it runs before anything is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PACKAGES = {"bwrap": "bubblewrap", "curl": "curl", "jq": "jq", "podman": "podman", "runc": "runc"}
"""Debian and Ubuntu packages, by program."""
_APT = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]


def main() -> None:
    """Install missing packages, or list them."""
    _say(f"Checking for programs that tests need: {', '.join(PACKAGES)}")
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        sys.exit(f"The tests need missing programs. As root, run: apt-get install {' '.join(missing)}")
    _say(f"Installing {', '.join(missing)} with apt-get (about a minute)")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
        subprocess.run([*_APT, *words], env=environment, stdout=subprocess.DEVNULL, check=True)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
