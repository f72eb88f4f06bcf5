"""What-if (OBS-1): hypothetical changes, and their result.

    cpu 2, memory 4GiB, gpus 0, disk 1GiB      the task requests this
    without label gpu=a100, zone eu-1          a constraint is dropped, or another
    priority P0                                the task has another priority
    burst 8, guaranteed 4, tasks 20            the quota of its tenant, in cores and in tasks
    group etl 3                                the limit of a group
    worker 8, 2 workers 16 64GiB gpus=1        more workers that offer this, with the labels that it requests
    unfreeze, unpause                          nothing is frozen; its run is not paused

Several are separated by commas. The answer comes from the shard's own rules on a copy (`shard/explain/forecast.py`).

If you add one: a field of `Hypothesis`, its words in `_CLAUSES`, and its change in `shard/explain/hypothesis.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from mainspring.core.explain.diagnosis import Expected, Reason
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority
from mainspring.core.text.quantities import parse_bytes, parse_millis
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Fault, Refused

MAX_WORKERS = 1_000
"""In total: a forecast scans each of them repeatedly."""
_MAX_AMOUNT = 2**62
_ANY = "any"
_WORKER = frozenset({"worker", "workers"})
_FILLERS = frozenset({"more", "another", "of", "with", "core", "cores"})
"""Accepted and ignored: `one more worker of 8 cores`."""
_Words = list[str]
_COUNT = re.compile(r"[0-9]{1,9}")


class ExtraWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """Hypothetical workers."""

    count: int = 1
    offers: Resources
    """Without memory or disk: as much per core as others have, and enough for the task."""
    labels: tuple[tuple[str, str], ...] | None = None
    """None: those that the task requests."""
    zone: str | None = None
    """None: the one that the task requests."""


class Hypothesis(msgspec.Struct, frozen=True, kw_only=True):
    """Hypothetical changes, all at once. None: unchanged."""

    cpu_millis: int | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    disk_bytes: int | None = None
    without_labels: tuple[str, ...] = ()
    """Keys of labels that the task does not request."""
    zone: str | None = None
    """Another zone; empty: any."""
    priority: Priority | None = None
    burst_cpu_millis: int | None = None
    guaranteed_cpu_millis: int | None = None
    max_tasks: int | None = None
    groups: dict[str, int] = {}
    """By group of its tenant: its limit."""
    workers: tuple[ExtraWorkers, ...] = ()
    unfrozen: bool = False
    unpaused: bool = False

    def changes_task(self) -> bool:
        """Return whether the task's request changes."""
        amounts = (self.cpu_millis, self.memory_bytes, self.gpus, self.disk_bytes, self.zone)
        return bool(self.without_labels) or any(amount is not None for amount in amounts)

    def changes_quota(self) -> bool:
        """Return whether its tenant's quota changes."""
        return any(one is not None for one in (self.burst_cpu_millis, self.guaranteed_cpu_millis, self.max_tasks))


NO_CHANGES = Hypothesis()


class Victim(msgspec.Struct, frozen=True, kw_only=True):
    """A task that would be preempted."""

    task: str
    tenant: str
    priority: Priority
    worker: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a what-if."""

    starts_now: bool
    """In the next turn, or as soon as the victims have ended."""
    worker: str | None
    """Where, if it starts now."""
    victims: tuple[Victim, ...]
    expected: Expected
    holds: str
    """What would still block it, in words; empty: nothing."""
    reason: Reason | None = None
    """The same, as a reason code."""
    notes: tuple[str, ...] = ()
    """Notes on the changes: one without effect, or one that needs a permission."""
    at: datetime


def parse_hypothesis(words: Sequence[str]) -> Hypothesis:
    """Parse changes, one or several with commas in each word. Raises Refused with every fault."""
    faults: list[Fault] = []
    hypothesis = NO_CHANGES
    clauses = [clause.strip() for word in words for clause in word.split(",")]
    for clause in filter(None, clauses):
        try:
            hypothesis = _read(clause, hypothesis)
        except ValueError as error:
            faults.append(Fault(clause, str(error)))
    if not faults and not any(clauses):
        faults.append(Fault("if", f"must list changes, such as {_EXAMPLE}"))
    if faults:
        raise Refused("invalid changes", faults)
    return hypothesis


def _read(clause: str, hypothesis: Hypothesis) -> Hypothesis:
    words = clause.split()
    name, equals, value = words[0].partition("=")
    if equals:
        words = [name, *([value] if value else []), *words[1:]]
    if not _WORKER.isdisjoint(words):
        words = ["1" if word in {"one", "a"} else word for word in words if word not in _FILLERS]
    if _COUNT.fullmatch(words[0]) and len(words) > 1 and words[1] in _WORKER:
        return _workers(words[2:], hypothesis, _whole_number(words[0]))
    read = _CLAUSES.get(words[0].lower())
    if read is None:
        raise ValueError(f"unknown change {words[0]}{did_you_mean(words[0].lower(), _CLAUSES)}")
    return read(words[1:], hypothesis)


def _amount(field: str, read: Callable[[str], int]) -> Callable[[_Words, Hypothesis], Hypothesis]:
    """Return a parser of one amount into a field."""

    def clause(words: _Words, hypothesis: Hypothesis) -> Hypothesis:
        if len(words) != 1:
            raise ValueError("must have one value")
        return replace(hypothesis, **{field: _bounded(read(words[0]))})

    return clause


def _bounded(value: int) -> int:
    if value > _MAX_AMOUNT:
        raise ValueError("is too large")
    return value


def _whole_number(text: str) -> int:
    if not _COUNT.fullmatch(text):
        raise ValueError("must be a whole number")
    return int(text)


def _without(words: _Words, hypothesis: Hypothesis) -> Hypothesis:
    if words == ["zone"]:
        return replace(hypothesis, zone="")
    if len(words) != 2 or words[0] != "label":
        raise ValueError("must be `without label KEY`, or `without zone`")
    return replace(hypothesis, without_labels=(*hypothesis.without_labels, words[1].partition("=")[0]))


def _zone(words: _Words, hypothesis: Hypothesis) -> Hypothesis:
    if len(words) != 1:
        raise ValueError(f"must name one zone, or `{_ANY}`")
    return replace(hypothesis, zone="" if words[0] == _ANY else words[0])


def _priority(words: _Words, hypothesis: Hypothesis) -> Hypothesis:
    said = words[0].upper() if len(words) == 1 else ""
    if said not in Priority.__members__:
        raise ValueError(f"must be one of {', '.join(Priority.__members__)}")
    return replace(hypothesis, priority=Priority[said])


def _group(words: _Words, hypothesis: Hypothesis) -> Hypothesis:
    if len(words) != 2:
        raise ValueError("must be a group and its limit, such as `group etl 3`")
    return replace(hypothesis, groups={**hypothesis.groups, words[0]: _whole_number(words[1])})


def _workers(words: _Words, hypothesis: Hypothesis, count: int = 1) -> Hypothesis:
    """Parse what a worker offers: its cores, its memory, and what else is named."""
    plain = [word for word in words if "=" not in word]
    others = sum(more.count for more in hypothesis.workers)
    if not 1 <= len(plain) <= 2 or not 1 <= count <= MAX_WORKERS - others:
        raise ValueError(
            f"must be 1 to {MAX_WORKERS} workers in total and their cores, such as `2 workers 16 64Gi gpus=1`"
        )
    offers = Resources(_bounded(parse_millis(plain[0])), _bounded(parse_bytes(plain[1])) if len(plain) > 1 else 0)
    labels: dict[str, str] | None = None
    zone: str | None = None
    for word in (word for word in words if "=" in word):
        key, _, value = word.partition("=")
        if key == "gpus":
            offers = replace(offers, gpus=_whole_number(value))
        elif key == "disk":
            offers = replace(offers, disk_bytes=_bounded(parse_bytes(value)))
        elif key == "zone":
            zone = "" if value == _ANY else value
        elif key.startswith("label."):
            labels = {**(labels or {}), key.removeprefix("label."): value}
        else:
            raise ValueError(f"{key} is not a worker option{did_you_mean(key, ('gpus', 'disk', 'zone'))}")
    more = ExtraWorkers(count=count, offers=offers, labels=None if labels is None else (*labels.items(),), zone=zone)
    return replace(hypothesis, workers=(*hypothesis.workers, more))


def _flag(field: str) -> Callable[[_Words, Hypothesis], Hypothesis]:
    def clause(words: _Words, hypothesis: Hypothesis) -> Hypothesis:
        if words:
            raise ValueError("takes no value")
        return replace(hypothesis, **{field: True})

    return clause


_CLAUSES: dict[str, Callable[[_Words, Hypothesis], Hypothesis]] = {
    "cpu": _amount("cpu_millis", parse_millis),
    "memory": _amount("memory_bytes", parse_bytes),
    "gpus": _amount("gpus", _whole_number),
    "gpu": _amount("gpus", _whole_number),
    "disk": _amount("disk_bytes", parse_bytes),
    "burst": _amount("burst_cpu_millis", parse_millis),
    "guaranteed": _amount("guaranteed_cpu_millis", parse_millis),
    "tasks": _amount("max_tasks", _whole_number),
    "without": _without,
    "zone": _zone,
    "priority": _priority,
    "group": _group,
    "worker": _workers,
    "unfreeze": _flag("unfrozen"),
    "unpause": _flag("unpaused"),
}
_EXAMPLE = "`cpu 2` or `burst 8`"
