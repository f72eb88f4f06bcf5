"""docs/requirements.md: every id mentioned in code, tests and docs has one line."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "requirements.md"
_LINE = re.compile(r"^- \*\*([A-Z]+-\d+|F\d\d)\*\*", re.MULTILINE)


def test_every_requirement_that_is_mentioned_has_one_line() -> None:
    listed = _LINE.findall(PAGE.read_text(encoding="utf-8"))
    areas = "|".join(sorted({one.partition("-")[0] for one in listed if "-" in one}))
    mention = re.compile(rf"\b(?:(?:{areas})-\d+|F\d\d)\b")
    files = [
        path
        for folder in ("src", "tests", "docs", "benchmarks", "tools")
        for path in (PROJECT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".sql"}
    ]
    mentioned = {one for path in files for one in mention.findall(path.read_text(encoding="utf-8"))}

    assert len(listed) == len(set(listed))
    assert mentioned - set(listed) == set()
    assert len(mentioned) > 80
