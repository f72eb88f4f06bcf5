"""What a program is given by whoever starts it, all of it in the environment."""

from __future__ import annotations

import os
from pathlib import Path

VARIANT = os.environ.get("PEERS_VARIANT", "")
"""Which of several ways to run the system is meant."""


def postgres() -> str:
    """The address of an empty database."""
    return os.environ["PEERS_POSTGRES"]


def postgres_for(driver: str) -> str:
    """The same address as SQLAlchemy wants it, with the driver's name."""
    return postgres().replace("postgresql://", f"postgresql+{driver}://", 1)


def redis() -> str:
    """The address of an empty Redis."""
    return os.environ["PEERS_REDIS"]


def folder() -> Path:
    """Where files may be left."""
    return Path(os.environ["PEERS_FOLDER"])


def port(number: int = 0) -> int:
    """A port of this machine that was free a moment ago."""
    return int(os.environ["PEERS_PORTS"].split(",")[number])


def cores() -> int:
    """How many cores there are for workers."""
    return int(os.environ["PEERS_CORES"])
