"""A schedule of a folder, as it is had in mind: who it is, what its runs came to, and what goes on."""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainspring.folder.info import ScheduleConfig
from mainspring.folder.state import state_view
from mainspring.folder.state.index import Known
from mainspring.folder.state.records import RunRecord, ScheduleState
from mainspring.folder.state.state_view import Tally
from mainspring.protocol.rest.runs import RunView
from mainspring.protocol.rest.schedules import ScheduleView


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is not over."""

    record: RunRecord
    due_at: datetime | None = None
    """It failed, and is tried again then."""
    tries_told: int = 0
    """So many failed tries were told of."""


class Live:
    """One schedule. What of it outlives the process is in `known`, what people see in `shown`."""

    def __init__(self, known: Known) -> None:
        self.schedule_id = known.schedule_id
        self.title = known.pipeline_id
        self.config = ScheduleConfig()
        self.views: dict[str, ScheduleView] = {}
        """What the server says of its schedules, by their names there."""
        self.running: dict[str, Running] = {}
        """By the ids of runs."""
        self.follow(known)
        self.tally = Tally(
            stats=known.stats, history=known.history, counted=known.counted, counted_until=known.counted_until
        )
        self.open = known.open
        """Ids of runs that were not over when somebody last looked."""
        self.is_unsure = False
        """The server may have runs of it that nobody here knows of."""
        self.shown = self.now()
        """What its state file says."""

    def follow(self, known: Known) -> None:
        """Be what the server was given."""
        self.pipeline_id, self.path, self.tenant = known.pipeline_id, known.path, known.tenant
        self.digest, self.names = known.digest, known.names
        self.views = {name: view for name, view in self.views.items() if name in known.names}

    def known(self) -> Known:
        """What is to be remembered of it."""
        tally = self.tally
        return Known(
            schedule_id=self.schedule_id, pipeline_id=self.pipeline_id, path=self.path, tenant=self.tenant,
            digest=self.digest, names=self.names, stats=tally.stats, history=tally.history, counted=tally.counted,
            counted_until=tally.counted_until, open=tuple(dict.fromkeys((*self.open, *self.running))),
        )  # fmt: skip

    def now(self) -> ScheduleState:
        """What its state file is to say."""
        newest = max(self.running.values(), key=lambda one: one.record.started_at, default=None)
        return state_view.state_of(
            self.views.get(self.schedule_id),
            self.tally,
            schedule_id=self.schedule_id,
            pipeline_id=self.pipeline_id,
            current=None if newest is None else newest.record,
        )

    def has_counted(self, run: RunView) -> bool:
        """Whether a run is over and was counted."""
        return state_view.is_over(run) and state_view.is_counted(self.tally, run)
