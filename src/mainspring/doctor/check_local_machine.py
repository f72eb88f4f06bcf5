"""Why does the server not answer? What this machine shows: the address, the port, the file, its process, the disk."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.definitions.quantities import say_bytes
from mainspring.doctor.facts import NearbyFacts
from mainspring.doctor.findings import Check, Topic

LITTLE_BYTES = 512 * 1024 * 1024
"""Less room than this on a disk is soon none."""

TOPIC = Topic("The server does not answer")


def ask_nearby(facts: NearbyFacts) -> Iterator[Check]:
    """The questions that can be answered without a server."""
    yield TOPIC.no("Does the server answer?", facts.error, "the questions below say what is seen from here")
    yield _address(facts)
    if facts.resolves:
        yield _port(facts)
    if facts.store:
        yield from _file(facts)
    elif not facts.is_here:
        yield TOPIC.unknown(
            "Is its process there?", f"{facts.host} is another machine: call `mainspring doctor` there as well"
        )


def _address(facts: NearbyFacts) -> Check:
    question = "Is the address one that leads somewhere?"
    if not facts.resolves:
        return TOPIC.no(
            question,
            f"nobody knows a machine called {facts.host}",
            "say where the server is with --server, MAINSPRING_SERVER_URL or a context",
            "mainspring config show --origin",
        )
    where = "this machine" if facts.is_here else facts.host
    return TOPIC.yes(question, f"port {facts.port} of {where}")


def _port(facts: NearbyFacts) -> Check:
    question = "Does something listen on its port?"
    if facts.listens:
        return TOPIC.yes(question, f"port {facts.port} takes connections, but no answer comes from there")
    elsewhere = "" if facts.is_here else ", or something between here and there lets nobody through"
    return TOPIC.no(
        question,
        f"nothing takes connections on port {facts.port}{elsewhere}",
        "start the server, or say where it is with --server",
        "mainspring server" if facts.is_here else "",
    )


def _file(facts: NearbyFacts) -> Iterator[Check]:
    yield _process(facts)
    yield _usable(facts)
    if facts.free_bytes is not None:
        yield _disk(facts)


def _process(facts: NearbyFacts) -> Check:
    question = "Does the process of the server run?"
    if not facts.store_exists:
        return TOPIC.unknown(question, f"there is no store at {facts.store}: say with --store which one the server has")
    if facts.holder is None:
        return TOPIC.unknown(question, f"nothing says who had {facts.store} last")
    if not facts.holder_state:
        return TOPIC.no(
            question,
            f"process {facts.holder} had {facts.store} last, and is gone",
            "see the end of its log, and start it again: what was accepted is still there",
            "mainspring server",
        )
    if facts.holder_state in {"stopped", "tracing-stop"}:
        return TOPIC.no(
            question,
            f"process {facts.holder} has {facts.store}, and was stopped by a signal",
            "let it go on",
            f"kill -CONT {facts.holder}",
        )
    return TOPIC.yes(question, f"process {facts.holder} has {facts.store} and is {facts.holder_state}")


def _usable(facts: NearbyFacts) -> Check:
    question = "Could a server use its store?"
    if facts.store_fault:
        return TOPIC.no(
            question, facts.store_fault, "put it on a disk of this machine that the server's user may write to"
        )
    return TOPIC.yes(question, f"nothing is wrong with {facts.store}, from outside")


def _disk(facts: NearbyFacts) -> Check:
    question = "Is there room on its disk?"
    free = facts.free_bytes or 0
    if free < LITTLE_BYTES:
        return TOPIC.no(
            question,
            f"{say_bytes(free)} are free",
            "make room: a store without any takes nothing more, and loses nothing that it has",
        )
    return TOPIC.yes(question, f"{say_bytes(free)} are free")
