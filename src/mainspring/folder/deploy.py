"""Deploy the pipelines of a folder to a server, and prune those that were removed from it (FLD-9).

`deployment.py` has the rules. The folder is never written to, and deploying is idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest

import msgspec

from mainspring.client.client import Client
from mainspring.client.responses import error_of_problem
from mainspring.definitions.pipeline_file import Pipeline, locate_faults
from mainspring.folder.deployment import change_of, item_of, label_filter, pipeline_of, plan_webhooks, stale_schedules
from mainspring.folder.shared_groups import define_group, key_of, wanted_groups
from mainspring.protocol.errors import Conflict, Forbidden, MainspringError, Refused
from mainspring.protocol.rest.apply import ApplyItemResult
from mainspring.protocol.rest.runs import JobView

DELETED, REFUSED = "deleted", "refused"


class DeployResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one pipeline, deployed or pruned."""

    pipeline: str
    change: str
    """`created`, `updated`, `unchanged`, `deleted` or `refused`."""
    version: int = 0
    """Version of its job; 0 if unknown."""
    schedules: dict[str, str] = {}
    """The change of each schedule."""
    detail: str = ""


class PruneCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A job, or schedules of it, that were deployed from this folder and are no longer in it."""

    tenant: str | None
    job: str
    schedules: tuple[str, ...]
    includes_job: bool
    """The job itself is stale, not only schedules of it."""


class FolderDeployment:
    """One deployment of a folder."""

    def __init__(
        self,
        clients: Callable[[str | None], Client],
        pipelines: Sequence[Pipeline],
        label: str,
        *,
        dry_run: bool = False,
        why: str = "",
    ) -> None:
        """`clients` returns the client for a tenant; for None, the deployer's own."""
        self._clients = clients
        self._pipelines = {pipeline.id: pipeline for pipeline in pipelines}
        self._label = label
        self._dry_run = dry_run
        self._why = why
        self._tenants = list(dict.fromkeys([None, *(pipeline.tenant for pipeline in pipelines)]))

    def find_prunable(self) -> list[PruneCandidate]:
        """Return what pruning would delete. Only objects with this folder's label are considered."""
        jobs = self._deployed_jobs()
        schedules = {tenant: list(self._clients(tenant).schedules()) for tenant in {job.tenant for job in jobs}}
        found: list[PruneCandidate] = []
        for job in jobs:
            pipeline = pipeline_of(job, self._pipelines)
            is_gone = pipeline is None
            gone = tuple(stale_schedules(schedules[job.tenant], pipeline, job.name))
            if gone or is_gone:
                found.append(PruneCandidate(tenant=job.tenant, job=job.name, schedules=gone, includes_job=is_gone))
        return found

    def _deployed_jobs(self) -> list[JobView]:
        """Jobs deployed from this folder, of all tenants that the deployer may read."""
        found: dict[tuple[str, str], JobView] = {}
        for tenant in self._tenants:
            client = self._clients(tenant)
            jobs = client.jobs(q=label_filter(self._label, all_tenants=client.tenant is None))
            found |= {(job.tenant, job.name): job for job in jobs}
        return list(found.values())

    def execute(self, gone: Sequence[PruneCandidate] | None = None) -> Iterator[DeployResult]:
        """Apply all pipelines, and delete the `gone` ones; None deletes nothing.

        A refused pipeline does not affect the others. Running runs are not affected.
        """
        group_errors = {
            key: self._try(partial(define_group, self._clients(key[0]), key, request))
            for key, request in wanted_groups(self._pipelines.values()).items()
        }
        items = [item_of(pipeline, self._label) for pipeline in self._pipelines.values()]
        lines = list(self._clients(None).apply(items, dry_run=self._dry_run, why=self._why))
        webhook_results = self._sync_webhooks(prune=gone is not None)
        parts = {one.job: one for one in gone or () if not one.includes_job}
        for pipeline, line in zip_longest(self._pipelines.values(), lines):
            if line is None:
                yield DeployResult(pipeline=pipeline.id, change=REFUSED, detail="the server returned no result for it")
            else:
                key = key_of(pipeline)
                group_error = None if key is None else group_errors[key]
                yield self._row(pipeline, line, webhook_results, parts.get(pipeline.id), group_error)
        for one in gone or ():
            if one.includes_job:
                refusal = self._try(partial(self._delete, one))
                yield DeployResult(
                    pipeline=one.job,
                    change=DELETED if refusal is None else REFUSED,
                    schedules={} if refusal is not None else dict.fromkeys(one.schedules, DELETED),
                    detail="" if refusal is None else str(refusal),
                )

    def _delete(self, gone: PruneCandidate) -> None:
        client = self._clients(gone.tenant)
        for schedule in gone.schedules:
            client.delete_schedule(schedule, self._why)
        if gone.includes_job:
            client.delete_job(gone.job, self._why)

    def _sync_webhooks(self, *, prune: bool) -> dict[str, MainspringError | None]:
        """Sync the webhooks of `notify`. Return the jobs whose webhooks changed, with the error if that failed."""
        pipelines = list(self._pipelines.values())
        try:
            existing = {found.id: found for tenant in self._tenants for found in self._clients(tenant).webhooks()}
            missing, stale = plan_webhooks(pipelines, existing.values(), self._label, prune=prune)
        except Forbidden as forbidden:
            # A deployer who may not list webhooks never created one: only pipelines with `notify` are affected.
            return {pipeline.id: forbidden for pipeline in pipelines if pipeline.notices}
        touched: dict[str, MainspringError | None] = {}
        for request in missing:
            error = self._try(partial(self._clients(request.tenant).create_webhook, request))
            touched[request.job] = touched.get(request.job) or error
        for webhook in stale:
            error = self._try(partial(self._clients(webhook.tenant).delete_webhook, webhook.id))
            touched[webhook.job] = touched.get(webhook.job) or error
        return touched

    def _try(self, action: Callable[[], object]) -> MainspringError | None:
        if self._dry_run:
            return None
        try:
            action()
        except (Refused, Conflict, Forbidden) as error:
            return error
        return None

    def _row(
        self,
        pipeline: Pipeline,
        line: ApplyItemResult,
        webhook_results: dict[str, MainspringError | None],
        gone: PruneCandidate | None,
        group_error: MainspringError | None,
    ) -> DeployResult:
        """Build the result of a pipeline, after deleting its stale schedules."""
        refusals: list[str] = []
        schedules = {one.name: one.change for one in line.schedules}
        if line.problem is not None:
            error = error_of_problem(line.problem)
            faults = error.faults if isinstance(error, Refused) else ()
            refusals.append(str(locate_faults(pipeline, faults) if faults else error))
        elif gone is not None:
            refusal = self._try(partial(self._delete, gone))
            schedules |= dict.fromkeys(gone.schedules, DELETED if refusal is None else REFUSED)
            if refusal is not None:
                refusals.append(str(refusal))
        webhook_error = webhook_results.get(pipeline.id)
        if webhook_error is not None:
            refusals.append(f"notifications were not set up: {webhook_error}")
        if group_error is not None:
            refusals.append(f"its concurrency group was not defined: {group_error}")
        change = change_of(line.change, schedules, others_changed=pipeline.id in webhook_results)
        return DeployResult(
            pipeline=pipeline.id,
            change=REFUSED if refusals else change,
            version=line.version,
            schedules=schedules,
            detail="\n".join(refusals),
        )
