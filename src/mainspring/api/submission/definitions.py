"""Job and schedule definitions: parsing, rows and audit entries.

Used by the routes for one definition, and by the one for many (`api/routes/jobs/apply.py`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from random import Random

import msgspec

from mainspring.api.auth.audit_context import Auditor
from mainspring.api.http.problems import renamed_faults
from mainspring.api.views import schedule_views
from mainspring.core.admission.validate_job import Limits
from mainspring.core.admission.validate_submission import decode_job
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.job import JobRow, JobSpec
from mainspring.core.model.schedule_rows import ScheduleRow
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.work.work import digest_of
from mainspring.protocol.errors import Fault
from mainspring.protocol.ids import new_id


class ReadJob(msgspec.Struct, frozen=True, kw_only=True):
    """A valid job."""

    spec: JobSpec
    text: str
    """The stored JSON."""


def read_job(body: bytes, limits: Limits) -> ReadJob:
    """Parse a job. Raises Refused with all faults."""
    spec = decode_job(body, limits)
    return ReadJob(spec=spec, text=msgspec.json.encode(spec).decode())


def new_job(job: ReadJob, *, tenant: str, by: str, now: datetime, random: Random) -> JobRow:
    """Build the row of a job; the store assigns its version."""
    return JobRow(
        id=new_id("job", now, random),
        tenant=tenant,
        name=job.spec.name,
        version=0,
        definition=job.text,
        created_by=by,
        labels=msgspec.json.encode(job.spec.labels).decode(),
    )


def job_entry(audit: Auditor, job: ReadJob, *, tenant: str, why: str = "") -> AuditEntry:
    """Return the audit entry of a stored job: its digest, never its content."""
    after = {"tasks": len(job.spec.tasks), "digest": digest_of(job.text)}
    return audit.entry(job.spec.name, tenant=tenant, why=why, after=after)


def new_schedule_entry(audit: Auditor, spec: ScheduleSpec, *, tenant: str, why: str) -> AuditEntry:
    """Return the audit entry of a new schedule, whose id is not yet known."""
    return audit.entry(spec.name, tenant=tenant, why=why, after=_definition_json(spec))


def schedule_entry(audit: Auditor, row: ScheduleRow, spec: ScheduleSpec, *, why: str) -> AuditEntry:
    """Return the audit entry of a changed schedule."""
    before = schedule_views.definition(row.spec)
    return audit.entry(row.id, tenant=row.tenant, why=why, before=before, after=_definition_json(spec))


def faults_in(where: str) -> AbstractContextManager[None]:
    """Attribute faults raised in the block to this part of the body."""
    return renamed_faults(lambda fault: Fault(where=f"{where}.{fault.where}".removesuffix(".body"), why=fault.why))


def _definition_json(spec: ScheduleSpec) -> msgspec.Raw:
    return schedule_views.definition(msgspec.json.encode(spec).decode())
