"""Generate the page of settings."""

from __future__ import annotations

from mainspring.core.model.settings import SETTINGS, Number, Retention, SchedulerSettings, Setting
from tools.markdown import code, table

_BEGINNING = """\
# Settings

Settings are set per server with `--set NAME=VALUE`, or on all servers at runtime with
`mainspring settings set NAME VALUE`. Precedence: a job's own options, runtime changes, `--set`, the default;
`mainspring settings` shows the origin of each value. The unit is the suffix of the name.
"""


def settings_page() -> str:
    """Return the text of the page."""
    lines = [_BEGINNING]
    for heading, kind in (("Scheduling", SchedulerSettings), ("Retention", Retention)):
        rows = [_row(SETTINGS[name]) for name in kind.__struct_fields__]
        lines += [f"## {heading}", "", *table(["Name", "Default", "Min", "Max", "Description"], rows)]
    return "\n".join(lines)


def _row(setting: Setting) -> list[str]:
    numbers = map(_written, (setting.default, setting.minimum, setting.maximum))
    return [code(setting.name), *numbers, setting.about]


def _written(number: Number) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.12g}"
