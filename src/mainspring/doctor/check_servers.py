"""Checks of the whole installation: server, store, background loops, leases, freezes, admission, clocks, versions."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.core.text.durations import format_seconds
from mainspring.doctor.facts import Facts
from mainspring.doctor.health_check import Check, Question, format_count, format_list
from mainspring.protocol.rest.overviews import ServerHealthView

SLOW_STORE_SECONDS = 0.25
MAX_CLOCK_SKEW_SECONDS = 2.0
"""Tolerated clock skew. Decisions go by the store's clock; a larger skew only makes displayed times hard to compare."""
ALIVE_SECONDS = 30.0
"""Time without a heartbeat after which a server counts as gone."""

TOPIC = "All scheduling"


def check_servers(facts: Facts) -> Iterator[Check]:
    """Run the checks for scheduling that has stopped everywhere, most general cause first."""
    yield _answers(facts)
    yield _store_answers(facts)
    yield _loops_run(facts)
    yield _is_led(facts)
    yield _nothing_frozen(facts)
    yield _accepts_work(facts)
    if facts.server_health is not None:
        yield _clocks(facts, facts.server_health)
        yield _versions(facts, facts.server_health)


def _answers(facts: Facts) -> Check:
    question = Question(TOPIC, "server", "Does the server answer?")
    if facts.server_health is None:
        return question.no(
            "server.bad_answer",
            f"unexpected answer: {facts.faults.get('server_health')}",
            "check that a server of the same version runs at this address, and check its log",
        )
    return question.yes(f"{facts.server_health.name} answers in {_format_short(facts.took_seconds)}")


def _format_short(seconds: float) -> str:
    """Format a duration that is usually far below a second."""
    if seconds >= 1:
        return format_seconds(seconds)
    return f"{seconds * 1_000:.0f} ms" if seconds >= 0.001 else "less than 1 ms"


def _store_answers(facts: Facts) -> Check:
    question = Question(TOPIC, "store", "Does its store answer?")
    if facts.server_health is None:
        return question.unknown(facts.faults.get("server_health") or "unknown")
    if facts.server_health.store_seconds is None:
        return question.no(
            "store.unreachable",
            f"no: {facts.server_health.store_fault}",
            "restore the database: scheduling resumes automatically, and accepted work is not lost",
        )
    took = _format_short(facts.server_health.store_seconds)
    if facts.server_health.store_seconds > SLOW_STORE_SECONDS:
        return question.no(
            "store.slow",
            f"slow: {took}; above {SLOW_STORE_SECONDS * 1_000:.0f} ms low-priority work is throttled",
            "check the database: its disk, its connections, its other clients",
        )
    return question.yes(f"in {took}")


def _loops_run(facts: Facts) -> Check:
    question = Question(TOPIC, "loops", "Do its background loops run?")
    if facts.server_health is None:
        return question.unknown(facts.faults.get("server_health") or "unknown")
    if not facts.server_health.failing:
        return question.yes("none keeps failing")
    named = [f"{one.name} ({one.code}, {one.failures} failures in a row)" for one in facts.server_health.failing]
    return question.no(
        "loops.failing",
        f"{format_count(len(named), 'loop')} keep failing: {format_list(named)}",
        "find `background.failed` in the log of this server: it has the traceback",
    )


def _is_led(facts: Facts) -> Check:
    question = Question(TOPIC, "leaders", "Does every pool have a leader?")
    if facts.server_health is None or facts.server_health.store_seconds is None:
        return question.unknown("the store does not answer")
    pools = format_count(len(facts.server_health.leases), "pool")
    lost = [lease for lease in facts.server_health.leases if lease.seconds <= 0]
    if not lost:
        return question.yes(pools)
    named = [f"{one.pool} (for {format_seconds(-one.seconds)})" if one.leader else one.pool for one in lost]
    return question.no(
        "leaders.missing",
        f"{len(lost)} of {pools} without a leader: {format_list(named)}",
        "servers take over within seconds; if this persists, no server can: start one",
        "mainspring server --store URL",
    )


def _nothing_frozen(facts: Facts) -> Check:
    question = Question(TOPIC, "freeze", "Is scheduling unfrozen?")
    if (fault := facts.faults.get("freezes")) is not None:
        return question.unknown(fault)
    for freeze in facts.freezes:
        if freeze.kind == "all":
            why = f': "{freeze.why}"' if freeze.why else ""
            return question.no(
                "freeze.all",
                f"everything has been frozen for {facts.age(freeze.since)} by {freeze.by}{why}",
                "running tasks continue; unfreeze to start queued tasks",
                "mainspring unfreeze all",
            )
    rest = f"; {format_count(len(facts.freezes), 'smaller freeze')}" if facts.freezes else ""
    return question.yes(f"no global freeze{rest}" if rest else "nothing is frozen")


def _accepts_work(facts: Facts) -> Check:
    question = Question(TOPIC, "admission", "Is new work accepted?")
    level = facts.level
    if level is None:
        return question.unknown(facts.faults.get("level") or "unknown")
    if level.shedding:
        return question.no(
            "admission.shedding",
            f"pool {level.pool} rejects {level.shedding}: its backlog is too long",
            "it accepts everything again when the backlog shrinks: add workers, or cancel runs that are not needed",
            f"mainspring queue --pool {level.pool}",
        )
    if level.accepts < 1:
        duration, why = facts.age(level.since), f" ({level.why})" if level.why else ""
        return question.no(
            "admission.degraded",
            f"pool {level.pool} accepts {level.accepts:.0%} of the normal rate: {level.level} for {duration}{why}",
            "see the checks above for the cause; the full rate returns once it is fixed",
        )
    return question.yes(f"all of it; pool {level.pool} is {level.level}")


def _clocks(facts: Facts, server_health: ServerHealthView) -> Check:
    question = Question(TOPIC, "clocks", "Do the clocks agree?")
    ahead = (facts.at - server_health.at).total_seconds() - facts.took_seconds / 2
    far = [
        f"{one} is {format_seconds(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'} {other}"
        for one, other, seconds in (
            ("this machine", "the server", ahead),
            ("the server", "its store", server_health.ahead_seconds),
        )
        if abs(seconds) > MAX_CLOCK_SKEW_SECONDS
    ]
    if far:
        return question.no(
            "clocks.skewed",
            "; ".join(far),
            "synchronize them with NTP: decisions go by the store's clock, `ago` columns by this machine's",
        )
    return question.yes(f"within {_format_short(max(abs(ahead), abs(server_health.ahead_seconds)))}")


def _versions(facts: Facts, server_health: ServerHealthView) -> Check:
    question = Question(TOPIC, "versions", "Do all versions match?")
    alive = [server for server in server_health.servers if server.silent_seconds <= ALIVE_SECONDS]
    others = [f"server {one.name} {one.version}" for one in alive if one.version != server_health.version]
    others += [
        f"worker {one.id} {one.version}"
        for one in facts.workers
        # HTTP workers need not report a version.
        if one.status == "ready" and one.version not in {"", server_health.version}
    ]
    if facts.version != server_health.version:
        others.insert(0, f"this command {facts.version}")
    if others:
        return question.no(
            "versions.mixed",
            f"the server is {server_health.version}; {format_list(others)}",
            "workers and commands of the previous version still work; upgrade the older ones",
        )
    return question.yes(server_health.version)
