"""The time zone of this machine, by its IANA name."""

from __future__ import annotations

import os
from pathlib import Path

from mainspring.core.schedules.time_zones import find_zone

_ZONES = "zoneinfo/"


def system_zone(root: Path = Path("/")) -> str:
    """What TZ says, or what /etc/localtime leads to, or what /etc/timezone says; UTC if none of them is a zone."""
    for name in (os.environ.get("TZ", "").removeprefix(":"), _linked(root / "etc/localtime"), _written(root)):
        name = name.rpartition(_ZONES)[2]  # noqa: PLW2901 - TZ may be a path as well
        if name and find_zone(name) is not None:
            return name
    return "UTC"


def _linked(path: Path) -> str:
    try:
        target = str(path.readlink())
    except OSError:
        return ""  # No link: a copy of a zone says no name.
    return target if _ZONES in target else ""


def _written(root: Path) -> str:
    try:
        return (root / "etc/timezone").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
