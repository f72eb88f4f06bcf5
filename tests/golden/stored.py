"""Stored formats: documents in rows, outbox messages, files, and values of clients (ids, tokens, cursors, digests)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

import msgspec

from mainspring.api.auth import tokens
from mainspring.api.http import cursors, etags
from mainspring.api.live import transitions
from mainspring.api.submission import submission
from mainspring.core.lifecycle import failures
from mainspring.core.model import alerts, audit_entry, trace_ids, webhook_events
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.job import JobSpec
from mainspring.core.model.run import Run
from mainspring.core.schedules import evaluation, windows
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.work import work
from mainspring.folder.state import index, records
from mainspring.host.outbox import alert_episodes, webhooks
from mainspring.mapreduce import answer_log as map_answer_log
from mainspring.mapreduce import attempt as map_attempt
from mainspring.protocol import ids
from mainspring.protocol.rest.runs import RunRequest
from mainspring.shard.turn import run_ended_message
from mainspring.store.ports.workers import JoinTokenRow
from mainspring.store.postgres import rows as postgres_rows
from mainspring.store.sql import rows
from mainspring.task_context import task_context
from mainspring.worker.agent import instructions
from mainspring.worker.executors import attempt_files
from mainspring.worker.supervisor import supervisor_settings
from tests.golden.shapes import document_lines, encoded_lines, example_of, shape_lines

AT = datetime(2026, 11, 16, 5, 30, tzinfo=UTC)
RUN, ATTEMPT = "run_018f3c2e9a41-9d2c44e1f0a7b35c", "att_018f3c2e9b07-5be0d1c27f3a9946"


def rows_text() -> str:
    """How the fields of rows are encoded, where the column type does not show it: state names, documents."""
    blocks = []
    for name, codec in vars(postgres_rows).items():
        if isinstance(codec, rows.Codec) and not name.startswith("_"):
            blocks.append("\n".join(_columns(codec)))
    return "\n\n".join(sorted(blocks)) + "\n"


def documents_text() -> str:
    """Documents in text columns, and files."""
    lines: list[str] = []
    for title, kind in DOCUMENTS.items():
        lines += document_lines(title, kind)
    lines += encoded_lines("the worker's spool: a record", instructions.Record)
    run = example_of(Run)
    assert isinstance(run, Run)
    ended = run_ended_message(run, AT)
    lines += ["== the outbox: a run has ended", f"kind: {ended.kind}", f"id: {ended.id}", f"json: {ended.payload}", ""]
    return "\n".join(lines)


DOCUMENTS: dict[str, object] = {
    "jobs: definition": JobSpec,
    **{f"jobs: the work of a task, {kind}": struct for kind, struct in work.KINDS.items()},
    "schedules: definition": ScheduleSpec,
    f"the outbox, {alerts.OUTBOX_KIND}": alerts.Alert,
    f"the outbox, {alert_episodes.NOTIFY_KIND}": alert_episodes.Delivery,
    f"the outbox, {webhooks.WEBHOOK_KIND}": webhooks._ToSend,
    f"the outbox, {evaluation.CANCEL_RUN}": evaluation.CancelRunRequest,
    f"the outbox, {evaluation.PROBE_FILE}": evaluation.FileProbeRequest,
    "a webhook's message": webhook_events.CloudEvent,
    "a webhook's message, its data": webhook_events.RunEndedData,
    f"a folder, {records.STATE_FILE}, {records.ARCHIVE_FILE}": records.ScheduleState,
    f"a folder, {records.LOCK_FILE}": records.LockRecord,
    f"a folder, {records.OWN_DIRECTORY}/{index.INDEX_FILE}": index._File,
    f"a worker, {supervisor_settings.SETTINGS_FILE}": supervisor_settings.SupervisorSettings,
    "a task, MAINSPRING_CONTEXT": task_context.SavedContext,
    "a task, MAINSPRING_PROGRESS": attempt_files.Progress,
    "a prompt for each item, its answer log": map_answer_log._Line,
    "a prompt for each item, MAINSPRING_FAILURE": map_attempt.Failed,
}


def held_text() -> str:
    """Values that clients and rows hold and send back later: a changed format invalidates earlier values."""
    return "".join(f"{name}: {value}\n" for name, value in _held())


def _held() -> Iterator[tuple[str, object]]:
    random = Random(7)
    yield "an id", ids.new_id("run", AT, random)
    yield "an id of a decision", ids.derived_id("dec", AT, 3, "a subject")
    yield "a task's id", ids.task_id(RUN, 12)
    yield "a task's id, made by another", ids.child_task_id(RUN, 3, 1, 7)
    yield "the key of a window", windows.fire_key("sched_1", AT, 1)
    yield "the jitter of a window", windows.jitter("sched_1", AT, 600)
    yield "a cursor of a list", cursors.make_cursor("2026-11-16T05:30:00+00:00", RUN)
    yield "a cursor of the stream", transitions.write_cursor({"default": (1042, 7), "a b": (3, 0)})
    yield "a version", etags.tag(7)
    yield "the version of a checkpoint", work.digest_of('{"page":4}')
    yield "the token of an attempt", tokens.make_attempt_token("secret", ATTEMPT, AT)
    token = f"msp_{'0' * 16}_{'1' * 64}"
    yield "the id of a token", f"{token}: {tokens.id_of(token)}"
    kept = msgspec.structs.replace(_join_token(), hash=tokens._hash(token))
    yield "what is kept of a token", f"{kept.hash}, is it: {tokens.is_token_of(kept, token)}"
    yield "a webhook's secret", tokens.webhook_secret("secret", "hook_1")
    yield "a webhook's message", webhook_events.message_id("hook_1", RUN, 1)
    yield "the digest of a submission", submission.digest([RunRequest(job="etl", idempotency_key="key")])
    yield "a link of the audit log", audit_entry.chain_hash(audit_entry.GENESIS_HASH, 1, _entry())
    yield "the trace of an attempt", trace_ids.traceparent(RUN, ATTEMPT)
    yield "a run in OpenLineage", trace_ids.uuid_text(RUN)
    error = '{"type": "ConnectionError", "message": "no route to 10.1.2.3"}'
    yield "the signature of a failure", failures.classify(error, (), job="etl").signature


def _join_token() -> JoinTokenRow:
    return JoinTokenRow(
        id="1",
        hash="",
        name="rack",
        pools=(),
        uses_left=1,
        created_by="me",
        created_at=AT,
        expires_at=AT + timedelta(1),
    )


def _entry() -> AuditEntry:
    entry = example_of(AuditEntry)
    assert isinstance(entry, AuditEntry)
    return entry


def _columns(codec: rows.Codec[msgspec.Struct]) -> Iterator[str]:
    """The columns of a row, and the format of its text columns."""
    yield f"== {', '.join(codec.names)}"
    told = {rows.Kind.DOCUMENT, rows.Kind.ENUM, rows.Kind.NUMBER}
    wanted = {name for name, kind in zip(codec.names, codec.kinds, strict=True) if kind in told}
    yield from (line for line in shape_lines(codec._struct) if line.strip().partition(":")[0] in wanted)
