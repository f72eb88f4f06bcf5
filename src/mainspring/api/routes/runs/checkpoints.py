"""Checkpoints of tasks: read, and replace conditionally (WRK-7)."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from mainspring.api.auth.principal import Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http import etags
from mainspring.api.http.etags import IfMatch, IfNoneMatch
from mainspring.api.http.problems import not_found, refusal, refuse
from mainspring.api.http.routing import Router
from mainspring.api.submission.actions import Actions
from mainspring.api.views.view_of import view_of
from mainspring.core.model.task import Task
from mainspring.core.text.strict_json import faults_in
from mainspring.core.work.work import MAX_CHECKPOINT_BYTES, digest_of
from mainspring.protocol.errors import Conflict, VersionMismatch
from mainspring.protocol.rest.runs import ActionResult, CheckpointView
from mainspring.shard.events import SaveCheckpoint
from mainspring.store.ports.store import Store

router = Router()


@router.get("/tasks/{task_id}/checkpoint", operation="get_checkpoint", role=Role.VIEWER, returns=CheckpointView)
async def get_checkpoint(task_id: str, visible: VisibleRows, store: Store, known: IfNoneMatch = None) -> Response:
    """Get the checkpoint of a task; the ETag is a digest of the document."""
    await visible.task(task_id)
    checkpoint = await store.checkpoint(task_id)
    if checkpoint is None:
        raise not_found("checkpoint of task", task_id)
    view = view_of(CheckpointView, checkpoint, document=msgspec.Raw(checkpoint.document))
    return etags.answer(view, digest_of(checkpoint.document), known)


@router.put(
    "/tasks/{task_id}/checkpoint",
    operation="put_checkpoint",
    role=Role.OPERATOR,
    returns=ActionResult,
    max_body_bytes=MAX_CHECKPOINT_BYTES,
)
async def put_checkpoint(
    task_id: str,
    body: bytes,
    visible: VisibleRows,
    store: Store,
    actions: Actions,
    match: IfMatch = None,
    none_match: IfNoneMatch = None,
) -> Response:
    """Replace the checkpoint of a task; the body is the document, any JSON.

    With `If-Match` only if it is the named version, with `If-None-Match: *` only if there is none; else 412. A running
    attempt does not reload it: the next attempt gets it.
    """
    document = _read(body)
    task = await visible.task(task_id)
    expected = await _expected(store, task, match, none_match)
    attempt_id = await _attempt(store, task)
    try:
        done = await actions.on_task(
            task, SaveCheckpoint, "", attempt_id=attempt_id, document=document, expected=expected
        )
    except Conflict:
        # The shard rejects for several reasons. A concurrent change takes precedence.
        await _expected(store, task, match, none_match)
        raise
    return etags.answer(done, digest_of(document))


def _read(body: bytes) -> str:
    """Validate the document. Raises Refused."""
    try:
        document = body.decode()
    except UnicodeDecodeError as error:
        raise refusal("", f"is not UTF-8 (byte {error.start})") from None
    faults = faults_in(document, "", max_bytes=MAX_CHECKPOINT_BYTES)
    refuse("the body", faults)
    return document


async def _expected(store: Store, task: Task, match: str | None, none_match: str | None) -> str | None:
    """Return the digest that the shard must find, empty for none; None for any. Raises VersionMismatch."""
    if match is None and none_match is None:
        return None
    if none_match not in {None, "*"}:
        raise refusal("header:If-None-Match", "must be *: only if there is none yet")
    checkpoint = await store.checkpoint(task.id)
    there = None if checkpoint is None else digest_of(checkpoint.document)
    if none_match is not None and there is not None:
        raise VersionMismatch(f"there is a checkpoint of task {task.id}: {there}")
    return etags.expected(match, there, f"checkpoint of task {task.id}") if none_match is None else ""


async def _attempt(store: Store, task: Task) -> str:
    """Return the current attempt, or the latest one."""
    if task.attempt_id is not None:
        return task.attempt_id
    attempts = await store.attempts_of(task.id)
    return attempts[-1].id if attempts else ""
