"""What people call things, as the names of jobs."""

from __future__ import annotations

import re
import unicodedata

LONGEST_NAME = 120
"""Of a job whose name is made here: what is put behind it has to fit as well."""
_FOREIGN = re.compile(r"[^a-z0-9._-]+")
_EDGES = "-."


def job_name(text: str) -> str:
    """A text as the name of a job: in lower case, without accents, other characters as hyphens.

    It begins and ends with neither a hyphen nor a dot. Empty if nothing of it is left.
    """
    letters = unicodedata.normalize("NFKD", text).casefold()
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return _FOREIGN.sub("-", bare).strip(_EDGES)[:LONGEST_NAME].rstrip(_EDGES)
