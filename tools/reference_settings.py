"""Generate the page of settings."""

from __future__ import annotations

from mainspring.core.model.settings import SETTINGS, Number, Retention, Setting, Tuning
from tools.markdown import code, table

_BEGINNING = """\
# Settings

Each is given to a server as `--set NAME=VALUE`, or changed on all servers while they run:
`mainspring settings set NAME VALUE`. What was changed goes before `--set`, and that before the default;
`mainspring settings` says which it is. What a job says of its own goes before all of them. Lengths are in the unit that
ends the name.
"""


def settings_page() -> str:
    """Return the text of the page."""
    lines = [_BEGINNING]
    for heading, kind in (("Measures of the scheduling", Tuning), ("What is kept for how long", Retention)):
        rows = [_row(SETTINGS[name]) for name in kind.__struct_fields__]
        lines += [f"## {heading}", "", *table(["Name", "Default", "From", "To", "What it is"], rows)]
    return "\n".join(lines)


def _row(setting: Setting) -> list[str]:
    numbers = map(_written, (setting.default, setting.least, setting.most))
    return [code(setting.name), *numbers, setting.about]


def _written(number: Number) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.12g}"
