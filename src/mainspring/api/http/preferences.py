"""What a caller would like, and may not get (RFC 7240): `Prefer: wait=30` answers when a run is over, or 30 s later."""

from __future__ import annotations

import re
from typing import Annotated

from mainspring.api.http.routing import Header

Prefer = Annotated[str | None, Header("Prefer")]
LONGEST_WAIT_SECONDS = 60
_WAIT = re.compile(r'(?:^|[,;])\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?=$|[,;])', re.IGNORECASE)


def seconds_to_wait(prefer: str | None) -> int:
    """How long somebody wants to wait: at most a minute, and not at all unless they say so."""
    match = _WAIT.search(prefer or "")
    return min(int(match[1]), LONGEST_WAIT_SECONDS) if match is not None else 0


def applied(seconds: int) -> dict[str, str]:
    """The header that says how long it was waited at most, if it was."""
    return {"Preference-Applied": f"wait={seconds}"} if seconds else {}
