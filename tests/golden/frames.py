"""Messages between processes: workers and servers, agents and supervisors, supervisors and children, servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

import msgspec

from mainspring.api.cluster import forwarding, peers
from mainspring.api.logs import logs
from mainspring.api.worker_link import link
from mainspring.core.explain.diagnosis import Diagnosis, WaitingSummary
from mainspring.core.explain.what_if import Outcome
from mainspring.core.fairness.pool_status import PoolStatus
from mainspring.mapreduce import invoke_socket
from mainspring.protocol import wire
from mainspring.shard import events
from mainspring.shard.effects import ActionReply
from mainspring.shard.workers import claim_events
from mainspring.worker.executors.python import child_wire
from mainspring.worker.supervisor import frames, supervisor_wire
from tests.golden.shapes import document_lines, encoded_lines, example_of

Messages = Sequence[type[msgspec.Struct]]

LINKS: Mapping[str, Messages] = {
    "from a worker to its server": get_args(wire.FromWorker),
    "from a server to a worker": get_args(wire.ToWorker),
    "from an agent to its guard": get_args(supervisor_wire.FromAgent),
    "from a guard to its agent": get_args(supervisor_wire.FromSupervisor),
    "from a guard to a child": get_args(child_wire.ToChild),
    "from a child to its guard": get_args(child_wire.FromChild),
}
"""Each direction of each link, with its messages: lists in msgpack."""

PEERS: Mapping[str, tuple[object, object]] = {
    forwarding.ASK: (forwarding._ActionMessage, ActionReply),
    forwarding.PROBE_FILE: (forwarding._FileProbeMessage, bool),
    forwarding.POOL_STATUS: (forwarding._PoolStatusMessage, PoolStatus),
    forwarding.DIAGNOSE: (forwarding._DiagnoseMessage, Diagnosis | None),
    forwarding.WHAT_IF: (forwarding._WhatIfMessage, Outcome | None),
    forwarding.WAITING_SUMS: (forwarding._PoolStatusMessage, list[WaitingSummary]),
}
"""Requests between servers, and their replies: msgpack over HTTP."""


NEVER_SENT = frozenset({"rows"})
"""Fields that the leader adds."""


def tag_of(kind: type[msgspec.Struct]) -> str:
    """The name of a message on the wire."""
    return str(kind.__struct_config__.tag)


def all_events() -> list[type[events.Event]]:
    """Every event that has a tag."""
    found, ahead = [], [events.Event]
    while ahead:
        kind = ahead.pop()
        ahead += kind.__subclasses__()
        if kind.__struct_config__.tag is not None and kind.__module__ in {events.__name__, claim_events.__name__}:
            found.append(kind)
    return sorted(found, key=tag_of)


def acts() -> list[type[events.Event]]:
    """Events that one server can forward to another."""
    return [kind for kind in all_events() if issubclass(kind, events.ActionRequest)]


def wire_text() -> str:
    """Every message of the links."""
    lines = [
        f"path: {link.PATH}",
        f"closed: {link.NORMAL} replaced, {link.MALFORMED} malformed, {link.TOO_LARGE} large, {link.SESSION_ENDED} end",
        f"largest: {wire.MAX_FRAME_BYTES} bytes in a frame, {wire.MAX_LOG_CHUNK_BYTES} in a piece of a log",
        f"a frame between processes that holds [1, 2]: {frames.encode_frame([1, 2]).hex()}",
        "",
    ]
    for direction, messages in LINKS.items():
        lines += [f"#### {direction}", ""]
        for kind in sorted(messages, key=tag_of):
            lines += encoded_lines(tag_of(kind), kind)
    return "\n".join(lines)


def peers_text() -> str:
    """Messages between servers, and other messages over sockets."""
    lines = [
        f"header: {peers.SECRET_HEADER}",
        f"logs: GET {logs.LOGS_PATH}ATTEMPT",
        "",
    ]
    for path, (question, answer) in PEERS.items():
        example = _asked_example() if path == forwarding.ASK else None
        lines += encoded_lines(f"POST {path}", question, example=example)
        lines += encoded_lines(f"answer of {path}", answer)
    lines += ["#### acts, inside of a question", ""]
    for kind in acts():
        lines += encoded_lines(tag_of(kind), kind, left_out=NEVER_SENT)
    lines += ["#### events, as rejected ones are kept", "", *(f"{tag_of(kind)}" for kind in all_events()), ""]
    lines += ["#### prompts, by lines of JSON on a socket", ""]
    lines += document_lines("to an invoker", invoke_socket.PromptRequest)
    lines += document_lines("from an invoker", invoke_socket.PromptReply)
    return "\n".join(lines)


def _asked_example() -> object:
    action = msgspec.msgpack.encode(example_of(events.PauseRun, NEVER_SENT))
    return forwarding._ActionMessage(shard="default", action=msgspec.Raw(action))


def examples_in(text: str) -> Iterator[tuple[str, str, str]]:
    """The direction, the name and the bytes in hex of each example of a golden file of messages."""
    direction = title = ""
    for line in text.splitlines():
        if line.startswith("#### "):
            direction = line.removeprefix("#### ")
        elif line.startswith("== "):
            title = line.removeprefix("== ")
        elif line.startswith("msgpack: "):
            yield direction, title, line.removeprefix("msgpack: ")
