"""What is said of a system that is measured.

Words of commands may have names in braces, which are filled in when it is started:

    {bin} {python}      the programs of the system's environment, and its Python
    {folder}            where the system may leave files; it is new for each way to run it, and removed afterwards
    {programs} {root}   the folder `programs/`, and the project
    {postgres} {redis}  addresses of an empty database, and of an empty Redis
    {port0} .. {port5}  ports of this machine that were free a moment ago
    {cores}             how many cores workers may use
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A process that runs until it is stopped."""

    words: Words
    ready: str = ""
    """An address that answers, or a file that is there, once the process is ready. Without it nobody waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of each work there is, before it is scaled."""

    tasks: int = 10_000
    singly: int = 2_000
    """So many of the tasks are enqueued one request after another."""
    drains: int = 2
    """The best of so many counts."""
    probes: int = 200
    chains: int = 20
    width: int = 1_000
    patience_seconds: float = 25.0
    """If nothing has begun for so long, nothing more is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to run a system: a row of the table."""

    name: str
    store: str
    """What keeps its data: `postgres`, `redis`, or its own."""
    settings: str
    """What is not as it comes, in words."""
    durable: str
    """What survives a loss of power, and from when on: a sentence."""
    variant: str = ""
    """What its program is told, so that it knows which way is meant."""
    prepare: tuple[Words, ...] = ()
    """Commands that are run once, one after another, before anything starts."""
    services: tuple[Service, ...] = ()
    workers: tuple[Service, ...] = ()
    """Started when tasks are waiting, so that a drain begins with a full queue; stopped between drains."""
    driver_works: bool = False
    """Are tasks run inside the driver? Then its memory counts."""
    sizes: Sizes = field(default_factory=Sizes)
    environment: Mapping[str, str] = field(default_factory=dict)
    copies: Words = ()
    """Files of `programs/` that are copied into its folder, because the system looks for them there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A system."""

    name: str
    """As it is said to `--only`; also the name of its environment."""
    title: str
    driver: Words
    variants: tuple[Variant, ...]
    quick_start: Words
    """The commands from its own quick start, from nothing to a run that one can see, for a person to read and count."""
    packages: Words = ()
    """From the index of Python packages."""
    lock: str = ""
    """Or what a file of this project names; only ours has that, and it runs from the source as it is."""
    modules: Words = ()
    """From npm."""
    lacks: str = ""
    """Which parts of the work it has no notion of, in words; empty if it has them all."""
    required: bool = False
    """May the run succeed without it?"""


def program(name: str) -> Words:
    """The command that starts the driver of a program in Python."""
    return ("{python}", "-m", f"benchmarks.peers.programs.{name}")


def scaled(sizes: Sizes, factor: float) -> Sizes:
    """The same work, more or less of it, and never so little that there is nothing to compute from."""
    return Sizes(
        tasks=max(20, round(sizes.tasks * factor)),
        singly=max(10, round(sizes.singly * factor)),
        drains=sizes.drains if factor >= 1 else 1,
        probes=max(3, min(sizes.probes, round(sizes.probes * factor))),
        chains=max(2, min(sizes.chains, round(sizes.chains * factor))),
        width=max(10, round(sizes.width * factor)),
        patience_seconds=sizes.patience_seconds,
    )
