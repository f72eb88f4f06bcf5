"""Can anything be scheduled at all? The store, who leads, what is frozen, what is let in; clocks and versions."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.definitions.quantities import say_seconds
from mainspring.doctor.facts import Facts
from mainspring.doctor.findings import Check, Topic, say_number, say_some
from mainspring.protocol.rest.overviews import CheckupView

SLOW_STORE_SECONDS = 0.25
APART_SECONDS = 2.0
"""Clocks that are further apart than this make times hard to compare. What is decided goes by the store's clock."""
ALIVE_SECONDS = 30.0
"""A server that was not heard of for so long is gone."""

TOPIC = Topic("All scheduling")


def ask_servers(facts: Facts) -> Iterator[Check]:
    """The questions of somebody to whom all scheduling seems to have stopped, in the order in which they rule out."""
    yield _answers(facts)
    yield _store_answers(facts)
    yield _loops_run(facts)
    yield from _is_led(facts)
    yield _nothing_frozen(facts)
    yield _lets_in(facts)
    if facts.checkup is not None:
        yield _clocks(facts, facts.checkup)
        yield _versions(facts, facts.checkup)


def _answers(facts: Facts) -> Check:
    question = "Does the server answer?"
    if facts.checkup is None:
        return TOPIC.no(
            question,
            f"not as it should: {facts.fault('checkup')}",
            "look whether a server is at this address, whether it is of the same version, and what its log says",
        )
    return TOPIC.yes(question, f"{facts.checkup.name} answers in {_say_short(facts.took_seconds)}")


def _say_short(seconds: float) -> str:
    """A time that is short if all is well."""
    if seconds >= 1:
        return say_seconds(seconds)
    return f"{seconds * 1_000:.0f} ms" if seconds >= 0.001 else "less than 1 ms"


def _store_answers(facts: Facts) -> Check:
    question = "Does its store answer?"
    if facts.checkup is None:
        return TOPIC.unknown(question, facts.fault("checkup") or "nobody says")
    if facts.checkup.store_seconds is None:
        return TOPIC.no(
            question,
            f"no: {facts.checkup.store_fault}",
            "bring the database back: scheduling goes on by itself, and nothing that was accepted is lost",
        )
    took = _say_short(facts.checkup.store_seconds)
    if facts.checkup.store_seconds > SLOW_STORE_SECONDS:
        return TOPIC.no(
            question,
            f"it does, after {took}; above {SLOW_STORE_SECONDS * 1_000:.0f} ms less important work is held back",
            "look at the database: its disk, its connections, what else uses it",
        )
    return TOPIC.yes(question, f"in {took}")


def _loops_run(facts: Facts) -> Check:
    question = "Do its background loops run?"
    if facts.checkup is None:
        return TOPIC.unknown(question, facts.fault("checkup") or "nobody says")
    if not facts.checkup.failing:
        return TOPIC.yes(question, "none keeps failing")
    named = [f"{one.name} ({one.code}, {one.failures} failures in a row)" for one in facts.checkup.failing]
    return TOPIC.no(
        question,
        f"{say_number(len(named), 'loop')} keep failing: {say_some(named)}",
        "find `background.failed` in the log of this server: it has the traceback",
    )


def _is_led(facts: Facts) -> Iterator[Check]:
    question = "Is every pool led?"
    if facts.checkup is None or facts.checkup.store_seconds is None:
        yield TOPIC.unknown(question, "the store would say, and does not answer")
        return
    lost = [lease for lease in facts.checkup.leases if lease.seconds <= 0]
    if lost:
        named = [f"{one.pool} (for {say_seconds(-one.seconds)})" if one.leader else one.pool for one in lost]
        yield TOPIC.no(
            question,
            f"{len(lost)} of {say_number(len(facts.checkup.leases), 'pool')} not: {say_some(named)}",
            "servers take over by themselves within seconds: if it stays so, none is there that could; start one",
            "mainspring server --store URL",
        )
    else:
        yield TOPIC.yes(question, say_number(len(facts.checkup.leases), "pool"))


def _nothing_frozen(facts: Facts) -> Check:
    question = "Is scheduling unfrozen?"
    if (fault := facts.fault("freezes")) is not None:
        return TOPIC.unknown(question, fault)
    for freeze in facts.freezes:
        if freeze.kind == "all":
            frozen = say_seconds((facts.at - freeze.since).total_seconds())
            why = f': "{freeze.why}"' if freeze.why else ""
            return TOPIC.no(
                question,
                f"everything has been frozen for {frozen}, by {freeze.by}{why}",
                "what runs goes on; let the rest go on when that is over",
                "mainspring unfreeze all",
            )
    rest = f"; {say_number(len(facts.freezes), 'smaller freeze')}" if facts.freezes else ""
    return TOPIC.yes(question, f"not everything is frozen{rest}" if rest else "nothing is frozen")


def _lets_in(facts: Facts) -> Check:
    question = "Is new work let in?"
    level = facts.level
    if level is None:
        return TOPIC.unknown(question, facts.fault("level") or "nobody says")
    lasts = say_seconds((facts.at - level.since).total_seconds())
    if level.shedding:
        return TOPIC.no(
            question,
            f"pool {level.pool} refuses {level.shedding}: too much waits there",
            "it lets everything in again when less waits: add workers, or cancel what is not needed",
            f"mainspring queue --pool {level.pool}",
        )
    if level.accepts < 1:
        why = f", as {level.why}" if level.why else ""
        return TOPIC.no(
            question,
            f"pool {level.pool} takes {level.accepts:.0%} of the usual rate: "
            f"its level has been {level.level} for {lasts}{why}",
            "the questions above say what is wrong; all is let in again when that is over",
        )
    return TOPIC.yes(question, f"all of it; pool {level.pool} is {level.level}")


def _clocks(facts: Facts, checkup: CheckupView) -> Check:
    question = "Do the clocks agree?"
    ahead = (facts.at - checkup.at).total_seconds() - facts.took_seconds / 2
    far = [
        f"{who} is {say_seconds(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'} {whom}"
        for who, whom, seconds in (
            ("this machine", "the server", ahead),
            ("the server", "its store", checkup.ahead_seconds),
        )
        if abs(seconds) > APART_SECONDS
    ]
    if far:
        return TOPIC.no(
            question,
            "; ".join(far),
            "set them by NTP: what is decided goes by the store's clock, what is shown as `ago` by this machine's",
        )
    return TOPIC.yes(question, f"to {_say_short(max(abs(ahead), abs(checkup.ahead_seconds)))}")


def _versions(facts: Facts, checkup: CheckupView) -> Check:
    question = "Is everything of one version?"
    alive = [server for server in checkup.servers if server.silent_seconds <= ALIVE_SECONDS]
    others = [f"server {one.name} {one.version}" for one in alive if one.version != checkup.version]
    others += [
        f"worker {one.id} {one.version}"
        for one in facts.workers
        if one.status == "ready" and one.version != checkup.version
    ]
    if facts.version != checkup.version:
        others.insert(0, f"this command {facts.version}")
    if others:
        return TOPIC.no(
            question,
            f"the server is {checkup.version}; {say_some(others)}",
            "workers and commands of the version before still work; update what is behind",
        )
    return TOPIC.yes(question, checkup.version)
