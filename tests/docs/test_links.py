"""Links between pages resolve, headings included, and the index lists every page."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
INDEX = DOCS / "README.md"
PAGES = sorted([*DOCS.rglob("*.md"), *PROJECT.glob("*.md")])
UNLISTED = {INDEX, DOCS / "adr" / "0000-template.md"}

_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


@cache
def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """The targets of the links of a page, without other sites."""
    return [link for link in _LINK.findall(prose(page)) if "://" not in link and not link.startswith("mailto:")]


@cache
def anchors(page: Path) -> frozenset[str]:
    """The names of the headings of a page, as Markdown renderers create them."""
    found: set[str] = set()
    for heading in _HEADING.findall(prose(page)):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(next(one for one in [name, *(f"{name}-{n}" for n in range(1, 1000))] if one not in found))
    return frozenset(found)


def broken(page: Path) -> list[str]:
    """The broken links of a page."""
    found = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_link_resolves(page: Path) -> None:
    assert broken(page) == []


def test_the_index_has_every_page() -> None:
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in links(INDEX)}

    assert set(DOCS.rglob("*.md")) - UNLISTED - listed == set()


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n[a](gone.md) [b](#a-page) [c](#gone)\n\n```\n[d](code.md)\n```\n")

    assert links(page) == ["gone.md", "#a-page", "#gone"]
    assert anchors(page) == {"a-page"}
    assert broken(page) == ["gone.md", "#gone"]
