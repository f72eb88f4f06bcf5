"""IANA name of this machine's time zone."""

from __future__ import annotations

import os
from pathlib import Path

from mainspring.core.schedules.time_zones import find_zone

_ZONES = "zoneinfo/"


def system_zone(root: Path = Path("/")) -> str:
    """Return the zone of TZ, /etc/localtime or /etc/timezone; UTC if none of them is valid."""
    for name in (os.environ.get("TZ", "").removeprefix(":"), _linked(root / "etc/localtime"), _written(root)):
        name = name.rpartition(_ZONES)[2]  # noqa: PLW2901 - TZ may be a path as well
        if name and find_zone(name) is not None:
            return name
    return "UTC"


def _linked(path: Path) -> str:
    try:
        target = str(path.readlink())
    except OSError:
        return ""  # A copy of a zone file, not a link: the name is unknown.
    return target if _ZONES in target else ""


def _written(root: Path) -> str:
    try:
        return (root / "etc/timezone").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
