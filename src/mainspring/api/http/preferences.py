"""Client preferences (RFC 7240): `Prefer: wait=30` waits until a run has ended, at most 30 s."""

from __future__ import annotations

import re
from typing import Annotated

from mainspring.api.http.routing import Header

Prefer = Annotated[str | None, Header("Prefer")]
MAX_WAIT_SECONDS = 60
_WAIT = re.compile(r'(?:^|[,;])\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?=$|[,;])', re.IGNORECASE)


def wait_seconds_of(prefer: str | None) -> int:
    """Return the seconds to wait, at most a minute; 0 if not requested."""
    match = _WAIT.search(prefer or "")
    return min(int(match[1]), MAX_WAIT_SECONDS) if match is not None else 0


def applied(seconds: int) -> dict[str, str]:
    """Return the response header for an applied wait."""
    return {"Preference-Applied": f"wait={seconds}"} if seconds else {}
