"""Is one pool down? Who leads it and for how long, whether its leader answers, what is frozen, and its workers."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.definitions.quantities import say_seconds
from mainspring.doctor.check_servers import ALIVE_SECONDS
from mainspring.doctor.facts import Facts, PoolFacts
from mainspring.doctor.findings import Check, Topic, say_number, say_some
from mainspring.protocol.rest.overviews import CheckupView, LeaseView
from mainspring.protocol.rest.runs import WorkerView

_LATELY_SECONDS = 86_400.0
"""Workers that were lost before are history."""
_TAKEN_OVER_SECONDS = 10.0
"""When the lease of a leader is over, another server has its pool within about this time."""
_START = "mainspring server --store URL"


def ask_pools(facts: Facts) -> Iterator[Check]:
    """The questions for each pool; those that only tell of trouble are left out where there is none."""
    for pool in facts.pools:
        yield from _ask_pool(facts, pool)
    if facts.pools_left_out:
        topic = Topic("Other pools")
        yield topic.unknown(
            "And the other pools?",
            f"{say_number(facts.pools_left_out, 'pool')} more: name one with --pool, or list them: mainspring pools",
        )


def _ask_pool(facts: Facts, pool: PoolFacts) -> Iterator[Check]:
    topic = Topic(f"Pool {pool.name}")
    yield _is_led(facts, pool, topic)
    if (frozen := _frozen(facts, pool, topic)) is not None:
        yield frozen
    yield _has_workers(facts, pool, topic)
    yield from _lost_workers(facts, pool, topic)


def _is_led(facts: Facts, pool: PoolFacts, topic: Topic) -> Check:
    question = "Does its leader answer?"
    leases = [] if facts.checkup is None else facts.checkup.leases
    lease = next((one for one in leases if one.pool == pool.name), None)
    if facts.checkup is None or lease is None:
        return topic.yes(question, "it does") if pool.queue is not None else topic.unknown(question, pool.fault)
    if lease.seconds <= 0:
        command = "" if _others(facts.checkup, lease.leader) else _START
        return topic.no(question, _say_lost(facts.checkup, lease), _what_then(facts.checkup, lease), command)
    if pool.queue is not None:
        return topic.yes(question, f"{lease.leader} leads it")
    silent = _silence(facts.checkup, lease.leader)
    who = f"{lease.leader} leads it and does not answer: {pool.fault}"
    if silent is not None and silent > ALIVE_SECONDS:
        who += f"; it was last heard of {say_seconds(silent)} ago"
    others = _others(facts.checkup, lease.leader)
    then = f"{say_some(others)} will take over" if others else "nobody else is there to take over: start a server"
    return topic.no(
        question,
        who,
        f"its lease ends in {say_seconds(lease.seconds)} unless it renews it; then {then}",
        "" if others else _START,
    )


def _say_lost(checkup: CheckupView, lease: LeaseView) -> str:
    if not lease.leader:
        return "nobody has ever led it"
    silent = _silence(checkup, lease.leader)
    heard = f", and was last heard of {say_seconds(silent)} ago" if silent is not None else ", and is gone"
    return f"nobody leads it: {lease.leader} did until {say_seconds(-lease.seconds)} ago{heard}"


def _what_then(checkup: CheckupView, lease: LeaseView) -> str:
    """When and by whom it is taken over, and what to do if not."""
    others = _others(checkup, lease.leader)
    if not others:
        return "no other server is there that could take over: start one"
    if -lease.seconds <= _TAKEN_OVER_SECONDS:
        return f"wait {_TAKEN_OVER_SECONDS:.0f} s: {say_some(others)} will take over"
    return f"{say_some(others)} could have taken over and has not: look at its log for `look.unavailable`, restart it"


def _silence(checkup: CheckupView, name: str) -> float | None:
    return next((one.silent_seconds for one in checkup.servers if one.name == name), None)


def _others(checkup: CheckupView, leader: str) -> list[str]:
    """Servers that are there, besides one."""
    return [one.name for one in checkup.servers if one.name != leader and one.silent_seconds <= ALIVE_SECONDS]


def _frozen(facts: Facts, pool: PoolFacts, topic: Topic) -> Check | None:
    """Only what is frozen is worth a line: that nothing is has been said before."""
    freeze = next((one for one in facts.freezes if (one.kind, one.subject) == ("pool", pool.name)), None)
    if freeze is None:
        return None
    why = f': "{freeze.why}"' if freeze.why else ""
    return topic.no(
        "Is it unfrozen?",
        f"it has been frozen for {say_seconds((facts.at - freeze.since).total_seconds())}, by {freeze.by}{why}",
        "what runs goes on; let the rest go on when that is over",
        f"mainspring unfreeze pool {pool.name}",
    )


def _has_workers(facts: Facts, pool: PoolFacts, topic: Topic) -> Check:
    question = "Does it have workers that take work?"
    if (fault := facts.fault("workers")) is not None:
        return topic.unknown(question, fault)
    here = [worker for worker in facts.workers if worker.pool == pool.name]
    ready = [worker for worker in here if worker.status == "ready"]
    taking = [worker for worker in ready if not worker.hold]
    held = [f"{worker.id} ({worker.hold}{_why_held(worker)})" for worker in ready if worker.hold]
    waits = pool.queue is not None and any(pool.queue.waiting.values())
    if taking:
        rest = f"; {say_number(len(held), 'more is', 'more are')} held: {say_some(held)}" if held else ""
        return topic.yes(question, f"{say_number(len(taking), 'worker')}{rest}")
    if held:
        return topic.no(
            question,
            f"no: all {len(held)} are held: {say_some(held)}",
            "give them work again",
            f"mainspring uncordon {next(worker.id for worker in ready if worker.hold)}",
        )
    finding = f"none is ready{_of_whom(here)}"
    if not waits and not here:
        return topic.unknown(question, "it has had none, and nothing waits for one")
    return topic.no(question, finding, "start a worker there", _start_worker(facts, pool))


def _of_whom(here: list[WorkerView]) -> str:
    if not here:
        return ", and there has been none"
    last = max(here, key=lambda worker: worker.last_heard_at)
    return f" of {len(here)}; {last.id} was the last that was heard of, and is {last.status}"


def _start_worker(facts: Facts, pool: PoolFacts) -> str:
    option = "" if pool.name == "default" else f" --pool {pool.name}"
    return f"mainspring worker --server {facts.url}{option}"


def _why_held(worker: WorkerView) -> str:
    return f", {worker.hold_why}" if worker.hold_why else ""


def _lost_workers(facts: Facts, pool: PoolFacts, topic: Topic) -> Iterator[Check]:
    """Only if there are any."""
    lost = [
        worker
        for worker in facts.workers
        if worker.pool == pool.name
        and worker.status == "lost"
        and (facts.at - worker.last_heard_at).total_seconds() < _LATELY_SECONDS
    ]
    if lost:
        named = [f"{one.id} {say_seconds((facts.at - one.last_heard_at).total_seconds())} ago" for one in lost]
        yield topic.no(
            "Are all workers heard of?",
            f"{say_number(len(lost), 'worker')} fell silent: {say_some(named)}",
            "what they had runs elsewhere; look at those machines and their network, and at their log",
            f"mainspring show {lost[0].id}",
        )
