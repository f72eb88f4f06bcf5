"""The components that routes receive as arguments, by type. `app/build.py` creates all of them.

A route names the components that it uses: `async def get_server(server: ServerInfo, store: Store)`.
To add a component, add a field here and create it in `app/build.py`.

Components that several routes use together, for one caller, are fields of a `RequestComponent`
(`api/request_components.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_type_hints

import msgspec

from mainspring.api.auth.access import Access
from mainspring.api.cluster.forwarding import LeaderRouter
from mainspring.api.live.run_jobs import RunJobs
from mainspring.api.live.run_waits import RunWaiters
from mainspring.api.live.transitions import TransitionFeed
from mainspring.api.logs.logs import LogStore
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.admission import AdmissionControl
from mainspring.api.submission.request_limits import RequestLimits
from mainspring.api.submission.submission import Submissions
from mainspring.api.worker_link.http_claims import Claims
from mainspring.background import BackgroundLoops
from mainspring.core.admission.validate_job import Limits
from mainspring.host.config.settings import Settings
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.host.degradation import DegradationMonitor
from mainspring.host.outbox.webhooks import WebhookCache
from mainspring.host.schedules.schedule_actions import ScheduleActions
from mainspring.protocol.clock import Clock
from mainspring.store.ports.store import Store
from mainspring.telemetry.metrics import Metrics


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Identity and fixed configuration of this server."""

    name: str
    address: str
    version: str
    pool: str = "default"
    """Default pool of runs."""
    limits: Limits = msgspec.field(default_factory=Limits)
    max_body_bytes: int = 64 * 1024 * 1024
    has_url_references: bool = False
    """Whether webhook URLs may refer to variables and files of this machine, readable by all who create webhooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The components of one server, each of a different type."""

    server: ServerInfo
    clock: Clock
    # storage
    store: Store
    time: StoreTimeCache
    # callers and their limits
    access: Access
    request_limits: RequestLimits
    admission: AdmissionControl
    # leaders
    leaders: LeaderRouter
    claims: Claims
    # configuration
    settings: Settings
    rules: SharingRulesCache
    # writes
    submissions: Submissions
    schedule_actions: ScheduleActions
    webhooks: WebhookCache
    # streams
    logs: LogStore
    live: TransitionFeed
    waits: RunWaiters
    run_jobs: RunJobs
    # health
    degradation: DegradationMonitor
    background: BackgroundLoops
    metrics: Metrics

    def component(self, kind: type) -> object | None:
        """Return the component of a type; None if there is none."""
        return getattr(self, COMPONENTS[kind]) if kind in COMPONENTS else None


COMPONENTS: dict[type, str] = {kind: name for name, kind in get_type_hints(Services).items()}
"""The name of each component, by type."""
