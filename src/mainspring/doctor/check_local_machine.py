"""Checks for a server that does not answer: host name, port, store file, process and disk of this machine."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.core.text.quantities import format_bytes
from mainspring.doctor.facts import LocalFacts
from mainspring.doctor.health_check import Check, Question

MIN_FREE_BYTES = 512 * 1024 * 1024
"""Free disk space below which the check fails."""

TOPIC = "The server does not answer"


def check_local_machine(facts: LocalFacts) -> Iterator[Check]:
    """Run the checks that need no server."""
    yield Question(TOPIC, "server", "Does the server answer?").no(
        "server.unreachable", facts.error, "the checks below show the local cause"
    )
    yield _address(facts)
    if facts.resolves:
        yield _port(facts)
    if facts.store:
        yield _process(facts)
        yield _usable(facts)
        if facts.free_bytes is not None:
            yield _disk(facts.free_bytes)
    elif not facts.is_here:
        yield Question(TOPIC, "process", "Is the server process running?").unknown(
            f"{facts.host} is another machine: run `mainspring doctor` there as well"
        )


def _address(facts: LocalFacts) -> Check:
    question = Question(TOPIC, "address", "Does the host name resolve?")
    if not facts.resolves:
        return question.no(
            "address.unresolved",
            f"the host name {facts.host} does not resolve",
            "set the server URL with --server, MAINSPRING_SERVER_URL or a context",
            "mainspring config show --origin",
        )
    where = "this machine" if facts.is_here else facts.host
    return question.yes(f"port {facts.port} of {where}")


def _port(facts: LocalFacts) -> Check:
    question = Question(TOPIC, "port", "Does the port accept connections?")
    if facts.listens:
        return question.yes(f"port {facts.port} accepts connections, but the server does not respond")
    elsewhere = "" if facts.is_here else ", or a firewall blocks them"
    return question.no(
        "port.closed",
        f"nothing accepts connections on port {facts.port}{elsewhere}",
        "start the server, or set its URL with --server",
        "mainspring server" if facts.is_here else "",
    )


def _process(facts: LocalFacts) -> Check:
    question = Question(TOPIC, "process", "Is the server process running?")
    if not facts.store_exists:
        return question.unknown(f"no store at {facts.store}: name the server's store with --store")
    if facts.holder is None:
        return question.unknown(f"no process is recorded for {facts.store}")
    if not facts.holder_state:
        return question.no(
            "process.exited",
            f"process {facts.holder} used {facts.store} last and has exited",
            "check the end of its log and start it again: accepted work is not lost",
            "mainspring server",
        )
    if facts.holder_state in {"stopped", "tracing-stop"}:
        return question.no(
            "process.stopped",
            f"process {facts.holder} uses {facts.store} and was stopped by a signal",
            "resume it",
            f"kill -CONT {facts.holder}",
        )
    return question.yes(f"process {facts.holder} uses {facts.store} and is {facts.holder_state}")


def _usable(facts: LocalFacts) -> Check:
    question = Question(TOPIC, "store_file", "Is the store file usable?")
    if facts.store_fault:
        advice = "move it to a local disk that the server's user can write to"
        return question.no("store_file.unusable", facts.store_fault, advice)
    return question.yes(f"no fault found with {facts.store}")


def _disk(free: int) -> Check:
    question = Question(TOPIC, "disk", "Is there free disk space?")
    if free < MIN_FREE_BYTES:
        return question.no(
            "disk.full",
            f"{format_bytes(free)} free",
            "free up space: a store on a full disk accepts no writes, and loses none of its data",
        )
    return question.yes(f"{format_bytes(free)} free")
