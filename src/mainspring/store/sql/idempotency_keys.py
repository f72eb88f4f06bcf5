"""What a submission under a key is answered, once for both adapters: a key stands for the runs that it made first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.run import Run
from mainspring.protocol.errors import KeyReused
from mainspring.store.ports.store import IdempotencyKey, KeyedRun


class Use(NamedTuple):
    """The first use of a key."""

    body_hash: str
    run_ids: list[str]

    def replay(self, key: IdempotencyKey) -> list[str]:
        """The runs that were made under a key that comes again. Raises KeyReused if the body is another."""
        if key.body_hash != self.body_hash:
            raise KeyReused(f"key {key.key!r} was used before, for another body")
        return self.run_ids


def name(key: IdempotencyKey) -> tuple[str, str]:
    """What makes a key one of its own."""
    return key.tenant, key.key


def firsts(requests: Iterable[KeyedRun]) -> list[KeyedRun]:
    """The first request of each key, ordered by key: rows are always locked in the same order."""
    found: dict[tuple[str, str], KeyedRun] = {}
    for request in requests:
        found.setdefault(name(request.key), request)
    return [found[one] for one in sorted(found)]


def answers(
    requests: Sequence[KeyedRun], new: Sequence[KeyedRun], before: Mapping[tuple[str, str], Use]
) -> list[str | KeyReused]:
    """An answer for each request: the new ones were inserted, the keys of the others were used before."""
    uses = {**before, **{name(request.key): Use(request.key.body_hash, [request.run.id]) for request in new}}
    found: list[str | KeyReused] = []
    for request in requests:
        try:
            found.append(uses[name(request.key)].replay(request.key)[0])
        except KeyReused as error:
            found.append(error)
    return found


def by_shard(runs: Iterable[Run], made: Iterable[Run]) -> dict[str, list[Run]]:
    """The shards of these runs, each with those of its runs that were made just now."""
    found: dict[str, list[Run]] = {shard: [] for shard in sorted({run.shard for run in runs})}
    for run in made:
        found[run.shard].append(run)
    return found


def entries(requests: Iterable[KeyedRun], answers: Iterable[str | KeyReused]) -> list[AuditEntry]:
    """The audit entries of these requests; none for a request whose key was used for another body."""
    return [
        request.audit
        for request, answer in zip(requests, answers, strict=True)
        if request.audit is not None and isinstance(answer, str)
    ]
