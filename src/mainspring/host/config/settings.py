"""Settings at run time (OPS-5), by precedence: built-in defaults, options of this server, changes in the store.

    core/model/settings.py   <   --set of this server   <   the table `setting_overrides`

Every server reads the table every POLL_SECONDS, and the server that makes a change reads it at once: all servers follow
within 5 s. A server keeps its values and logs a warning if it can't use the table, because another version wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from mainspring.background import repeat
from mainspring.core.model.settings import (
    SETTINGS,
    Number,
    Retention,
    SchedulerSettings,
    Setting,
    read_values,
    retention_of,
    scheduler_settings_of,
)
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused
from mainspring.store.ports.admin import SettingOverride, SettingOverrides

log = structlog.get_logger()

POLL_SECONDS = 2.0


class Settings:
    """The effective settings of one server."""

    def __init__(
        self, store: SettingOverrides, clock: Clock, given: Mapping[str, str] | None = None,
        on_change: Callable[[SchedulerSettings], None] = lambda scheduler_settings: None,
    ) -> None:  # fmt: skip
        """`given` has the values of `--set`. `on_change` is called with the settings after each change.

        Raises Refused.
        """
        self._store = store
        self._clock = clock
        self._given = dict(given or {})
        self._changed: dict[str, str] = {}
        self._values = self._defaults = read_values(self._given)
        self.scheduler_settings = scheduler_settings_of(self._values)
        """The current scheduler settings."""
        self._on_change = on_change

    @property
    def retention(self) -> Retention:
        """The current retention."""
        return retention_of(self._values)

    def value(self, setting: Setting) -> Number:
        """Return the effective value of a setting."""
        return self._values.get(setting.name, setting.default)

    def default(self, setting: Setting) -> Number:
        """Return the default of a setting on this server."""
        return self._defaults.get(setting.name, setting.default)

    def is_given(self, setting: Setting) -> bool:
        """Return whether this server was started with a value for it."""
        return setting.name in self._defaults

    def check(self, name: str, text: str | None) -> None:
        """Raise Refused if a value, or the default if it is None, is invalid together with the other settings."""
        changed = {other: value for other, value in self._changed.items() if other != name}
        read_values({**self._given, **changed, **({} if text is None else {name: text})})

    async def run(self) -> None:
        """Follow changes until cancelled."""
        await repeat(self.refresh, self._clock, POLL_SECONDS, "settings.unavailable")

    async def refresh(self) -> dict[str, SettingOverride]:
        """Read the changes and apply them; return the rows by name."""
        rows = {row.name: row for row in await self._store.setting_overrides()}
        changed = {name: row.value for name, row in rows.items() if name in SETTINGS}
        if changed != self._changed:
            self._changed = changed
            self._apply()
        return rows

    def _apply(self) -> None:
        before = self.scheduler_settings
        try:
            self._values = read_values({**self._given, **self._changed})
        except Refused as refused:
            log.warning("settings.refused", fault=str(refused), settings=self._changed)
            return
        self.scheduler_settings = scheduler_settings_of(self._values)
        log.info("settings.changed", settings=self._changed)
        if self.scheduler_settings != before:
            self._on_change(self.scheduler_settings)
