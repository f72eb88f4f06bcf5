"""Job names made from free text."""

from __future__ import annotations

import re
import unicodedata

MAX_NAME_LENGTH = 120
"""Maximum length of a generated name, which leaves space for suffixes."""
_FOREIGN = re.compile(r"[^a-z0-9._-]+")
_EDGES = "-."


def job_name(text: str) -> str:
    """Convert a text to a job name: lower case, no accents, other characters replaced by hyphens.

    The name neither starts nor ends with a hyphen or dot. It is empty if no character is usable.
    """
    letters = unicodedata.normalize("NFKD", text).casefold()
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return _FOREIGN.sub("-", bare).strip(_EDGES)[:MAX_NAME_LENGTH].rstrip(_EDGES)
