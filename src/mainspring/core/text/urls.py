"""Syntax check of URLs from users. Where a URL leads is checked when it is used (`egress/`)."""

from __future__ import annotations

import re

MAX_URL_LENGTH = 2_000
_LAST_PORT = 65_535
_URL = re.compile(
    r"https?://(?:(?P<user>[^/?#]*)@)?(?:\[[0-9a-f:.]+\]|[^/?#@:\[\]\\]+)(?::(?P<port>[0-9]*))?(?:[/?#].*)?",
    re.IGNORECASE,
)


def fault_of_url(url: str) -> str | None:
    """Return what is wrong with a URL, without quoting it, or None."""
    if len(url) > MAX_URL_LENGTH or not url.isascii() or not url.isprintable() or " " in url:
        return f"must be at most {MAX_URL_LENGTH} printable ASCII characters"
    found = _URL.fullmatch(url)
    if found is None or not 0 < int(found["port"] or 1) <= _LAST_PORT:
        return "must begin with https:// or http:// and a host"
    return None if found["user"] is None else "must not contain a user or password"
