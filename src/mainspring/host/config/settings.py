"""What is set while everything runs (OPS-5): built in, under what this server was given, under what somebody changed.

    core/tuning.SETTINGS   <   --set of this server   <   the table `measures`

Every server reads the table every LOOK_SECONDS, and whoever changes something there reads it at once: all of them
follow within 5 s. What a server can't use, because another version wrote it, it leaves as it was, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from mainspring.core.model.settings import (
    SETTINGS,
    Number,
    Retention,
    Setting,
    Tuning,
    read_values,
    retention_of,
    tuning_of,
)
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.store.ports.admin import MeasureRow, Measures

log = structlog.get_logger()

LOOK_SECONDS = 2.0


class Settings:
    """What is set on one server."""

    def __init__(self, store: Measures, clock: Clock, given: Mapping[str, str] | None = None) -> None:
        """`given` is what `--set` says. Raises Refused."""
        self._store = store
        self._clock = clock
        self._given = dict(given or {})
        self._changed: dict[str, str] = {}
        self._values = self._defaults = read_values(self._given)
        self._tuning = tuning_of(self._values)
        self.on_change: Callable[[Tuning], None] = lambda tuning: None
        """Told of the measures whenever one of them is another."""

    @property
    def tuning(self) -> Tuning:
        """The measures of the scheduling, as they are now. Asked with each request."""
        return self._tuning

    @property
    def retention(self) -> Retention:
        """How long things are kept, as it is now."""
        return retention_of(self._values)

    def value(self, setting: Setting) -> Number:
        """What a setting is now."""
        return self._values.get(setting.name, setting.default)

    def default(self, setting: Setting) -> Number:
        """What a setting is on this server if nobody changes it."""
        return self._defaults.get(setting.name, setting.default)

    def is_given(self, setting: Setting) -> bool:
        """Whether this server was started with a value for it."""
        return setting.name in self._defaults

    def check(self, name: str, text: str | None) -> None:
        """Raises Refused if a setting can't be this, or, without a text, what it is by default, beside the others."""
        changed = {other: value for other, value in self._changed.items() if other != name}
        read_values({**self._given, **changed, **({} if text is None else {name: text})})

    async def run(self) -> None:
        """Follow what is changed, until cancelled."""
        while True:
            try:
                await self.refresh()
            except Unavailable as fault:
                log.warning("settings.unavailable", fault=str(fault))
            await self._clock.sleep(LOOK_SECONDS)

    async def refresh(self) -> dict[str, MeasureRow]:
        """Read what was changed, and go by it from now on; the rows by name."""
        rows = {row.name: row for row in await self._store.measures()}
        changed = {name: row.value for name, row in rows.items() if name in SETTINGS}
        if changed != self._changed:
            self._changed = changed
            self._apply()
        return rows

    def _apply(self) -> None:
        before = self.tuning
        try:
            self._values = read_values({**self._given, **self._changed})
        except Refused as refused:
            log.warning("settings.refused", fault=str(refused), settings=self._changed)
            return
        self._tuning = tuning_of(self._values)
        log.info("settings.changed", settings=self._changed)
        if self.tuning != before:
            self.on_change(self.tuning)
