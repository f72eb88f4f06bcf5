"""Limits outside of requests: worker link, task results, files and responses (SEC-6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import msgspec

from mainspring.api.logs import log_files
from mainspring.api.worker_link import link
from mainspring.client import responses
from mainspring.core.model import artifacts
from mainspring.core.work import map_reduce, work
from mainspring.definitions.files import sources
from mainspring.folder import discover
from mainspring.host import links
from mainspring.mapreduce import items, prompts
from mainspring.notify import channels
from mainspring.protocol import wire
from mainspring.secret_references import MAX_SECRET_BYTES
from mainspring.worker.executors import attempt_files
from tests.api.limit_format import characters, size

Cells = tuple[str, str, str]
"""What, the limit, and the effect of exceeding it."""


def of_the_link() -> Iterable[Cells]:
    """Limits of worker messages."""
    yield "a frame", size(wire.MAX_FRAME_BYTES), "closed with 1009"
    yield "messages of a frame", f"{link.MAX_FRAME_MESSAGES:,}", "closed with 1008"
    yield "an id, a name, a label or its value", characters(length_of(wire.Id)), "closed with 1008"
    yield "a reason or a note", characters(length_of(wire.Sentence)), "closed with 1008"
    yield "labels of a worker", f"{length_of(wire.Labels)}", "closed with 1008"
    yield "a piece of a log", size(wire.MAX_LOG_CHUNK_BYTES), "closed with 1008"
    yield "unanswered results", f"{links.RESULTS_ON_CREDIT:,}", "closed with 1008"
    yield "the output or the error of an attempt", size(links.MAX_TEXT_BYTES), "`rejected`, and the task is QUARANTINED"
    yield "a checkpoint of an attempt", size(work.MAX_CHECKPOINT_BYTES), "dropped and recorded"
    yield "the log of an attempt", size(log_files.MAX_LOG_BYTES), "cut with a note (`--log-limit`)"


def of_tasks() -> Iterable[Cells]:
    """Limits of task results read by the worker."""
    yield "`$MAINSPRING_OUTPUT`", size(attempt_files.MAX_OUTPUT_BYTES), "the attempt fails: `Output`"
    yield "`$MAINSPRING_CHECKPOINT`", size(work.MAX_CHECKPOINT_BYTES), "ignored; the previous one is kept"
    yield "`$MAINSPRING_PROGRESS`", size(attempt_files.MAX_PROGRESS_BYTES), "ignored"
    yield "progress note", characters(attempt_files.MAX_NOTE_LENGTH), "cut"
    yield "a secret", size(MAX_SECRET_BYTES), "the attempt fails: `Secret`"
    yield "files in `$MAINSPRING_ARTIFACTS`", f"{artifacts.MAX_ARTIFACTS:,}", "the attempt fails: `Artifacts`"
    yield "path of an artifact", characters(artifacts.MAX_PATH_CHARS), "the attempt fails: `Artifacts`"
    yield "items of a map-reduce", f"{map_reduce.MAX_ITEMS:,}", "refused with the job, or the attempt fails"
    yield "input line of a map-reduce", size(items.MAX_LINE_LENGTH), "the attempt fails"
    yield "a prompt, or an answer", size(prompts.MAX_PROMPT_LENGTH), "the item fails"


def of_files() -> Iterable[Cells]:
    """Limits of files and responses."""
    yield "a submitted file", size(sources.MAX_TEXT_BYTES), "`invalid_file`"
    yield "values of a YAML file", f"{sources.MAX_NODES:,}", "`invalid_file`"
    yield "nesting depth of a file", f"{sources.MAX_DEPTH}", "`invalid_file`"
    yield "a `pipeline.yaml` of a folder", size(discover.MAX_FILE_BYTES), "the pipeline is invalid, with this reason"
    yield "channels of alerts", f"{channels.MAX_CHANNELS}", "`invalid_file`"
    yield "a response to the SDK", size(responses.MAX_RESPONSE_BYTES), "`too_large`"
    yield "duration of a response", f"{responses.MAX_RESPONSE_SECONDS:,.0f} s", "`unreachable`"


def length_of(kind: object) -> int:
    """Return the maximum length of a type of the link."""
    return next(mark.max_length for mark in get_args(kind) if isinstance(mark, msgspec.Meta) and mark.max_length)
