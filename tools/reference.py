"""Generate the reference pages from the code: `make reference`.

    docs/reference/commands.md     every command, from the command tree
    docs/reference/routes.md       every route, from the OpenAPI document
    docs/reference/settings.md     every setting, from `core/model/settings.py`
    docs/reference/pipeline.md     every field of a `pipeline.yaml`, from its schema
    docs/reference/sdk.md          the exports of `mainspring` and `mainspring.testing`, from docstrings

A test in tests/docs fails if a page is out of date. The pages do not depend on the machine, the terminal or the time.
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
"""Generated pages with their generators."""

_HEAD = "<!-- Made from the code by tools/reference.py: change the code, then run `make reference`. -->\n\n"


def target_of(page: str) -> Path:
    """Return the path of a generated page."""
    return REFERENCE / f"{page}.md"


def made(page: str) -> str:
    """Return the text of a page."""
    return _HEAD + PAGES[page]()


def make() -> None:
    """Write all generated pages."""
    for page in PAGES:
        target_of(page).write_text(made(page), encoding="utf-8")


if __name__ == "__main__":
    make()
