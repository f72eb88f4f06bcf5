"""Makes the pages of the reference that say what the code says: `make reference`.

    docs/reference/commands.md     every command, from the tree that `mainspring` walks
    docs/reference/routes.md       every route, from the OpenAPI document
    docs/reference/settings.md     every setting, from `core/model/settings.py`
    docs/reference/pipeline.md     every field of a `pipeline.yaml`, from its schema
    docs/reference/sdk.md          what `mainspring` and `mainspring.testing` export, from their docstrings

A test in tests/docs fails if a page is not what this makes. Nothing on a page depends on the machine, on a terminal or
on the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.reference_commands import commands_page
from tools.reference_pipeline import pipeline_page
from tools.reference_routes import routes_page
from tools.reference_sdk import sdk_page
from tools.reference_settings import settings_page

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
PAGES: Mapping[str, Callable[[], str]] = {
    "commands": commands_page,
    "routes": routes_page,
    "pipeline": pipeline_page,
    "settings": settings_page,
    "sdk": sdk_page,
}
"""Each made page, and who makes its text."""

_HEAD = "<!-- Made from the code by tools/reference.py: change the code, then run `make reference`. -->\n\n"


def target_of(page: str) -> Path:
    """Where a made page is."""
    return REFERENCE / f"{page}.md"


def made(page: str) -> str:
    """A page's text."""
    return _HEAD + PAGES[page]()


def make() -> None:
    """Write every made page."""
    for page in PAGES:
        target_of(page).write_text(made(page), encoding="utf-8")


if __name__ == "__main__":
    make()
