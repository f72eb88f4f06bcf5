"""The diagnosis page lists every reason and every what-if change."""

from __future__ import annotations

import re
from pathlib import Path

from mainspring.core.explain.diagnosis import Reason
from mainspring.core.explain.what_if import parse_hypothesis

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "diagnosis.md").read_text(encoding="utf-8")


def test_every_reason_has_a_line() -> None:
    lines = re.findall(r"^\| `([A-Z_]+)` \| .+ \| .+ \|$", PAGE, re.MULTILINE)

    assert sorted(lines) == sorted(reason.value for reason in Reason)


def test_every_change_on_the_page_is_a_what_if_change() -> None:
    table = PAGE.partition("| words | assumption |")[2].partition("\n\n")[0]
    words = [word for row in table.splitlines() for word in re.findall(r"`([^`]+)`", row.partition(" | ")[0])]

    assert len(words) > 10
    for word in words:
        parse_hypothesis([word])
