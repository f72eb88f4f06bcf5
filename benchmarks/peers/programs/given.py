"""Parameters of a program, from the environment."""

from __future__ import annotations

import os
from pathlib import Path

VARIANT = os.environ.get("PEERS_VARIANT", "")
"""The variant."""


def postgres() -> str:
    """URL of an empty database."""
    return os.environ["PEERS_POSTGRES"]


def postgres_for(driver: str) -> str:
    """The same URL for SQLAlchemy, with the driver's name."""
    return postgres().replace("postgresql://", f"postgresql+{driver}://", 1)


def redis() -> str:
    """URL of an empty Redis."""
    return os.environ["PEERS_REDIS"]


def folder() -> Path:
    """Directory for files."""
    return Path(os.environ["PEERS_FOLDER"])


def port(number: int = 0) -> int:
    """A free port of this machine."""
    return int(os.environ["PEERS_PORTS"].split(",")[number])


def cores() -> int:
    """Number of cores for workers."""
    return int(os.environ["PEERS_CORES"])
