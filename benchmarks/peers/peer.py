"""Description of a measured system.

Commands may contain placeholders, which are filled in at start:

    {bin} {python}      the programs of the system's environment, and its Python
    {folder}            a directory for files of the system; new for each variant, and removed afterwards
    {programs} {root}   the folder `programs/`, and the project
    {postgres} {redis}  URLs of an empty database, and of an empty Redis
    {port0} .. {port5}  free ports of this machine
    {cores}             number of cores for workers
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
    """A URL that responds, or a file that exists, once the process is ready. Default: no wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Amounts of work, before scaling."""

    tasks: int = 10_000
    singly: int = 2_000
    """Number of tasks that are enqueued one per request."""
    drains: int = 2
    """Number of drains; the best one counts."""
    probes: int = 200
    chains: int = 20
    width: int = 1_000
    timeout_seconds: float = 25.0
    """Time without a start after which a stage ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One variant of a system: a row of the table."""

    name: str
    store: str
    """Its store: `postgres`, `redis`, or its own."""
    settings: str
    """Deviations from the defaults, as text."""
    durable: str
    """What survives a power failure, and since when, as text."""
    variant: str = ""
    """The variant's name, as passed to its program."""
    prepare: tuple[Words, ...] = ()
    """Setup commands, run once in order."""
    services: tuple[Service, ...] = ()
    workers: tuple[Service, ...] = ()
    """Started once tasks are queued, so that a drain starts with a full queue; stopped between drains."""
    driver_works: bool = False
    """Whether tasks run inside the driver, whose memory then counts."""
    sizes: Sizes = field(default_factory=Sizes)
    environment: Mapping[str, str] = field(default_factory=dict)
    copies: Words = ()
    """Files of `programs/` to copy into its directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A system."""

    name: str
    """Name for `--only`, and of its environment."""
    title: str
    driver: Words
    variants: tuple[Variant, ...]
    quick_start: Words
    """The commands of its own quick start, up to the first visible run."""
    packages: Words = ()
    """Python packages."""
    lock: str = ""
    """Or a requirements file of this project; only for ours, which runs from source."""
    modules: Words = ()
    """npm packages."""
    lacks: str = ""
    """Unsupported kinds of work, as text; empty if none."""
    required: bool = False
    """Whether the run may succeed without it."""


def program(name: str) -> Words:
    """The command that starts the driver of a program in Python."""
    return ("{python}", "-m", f"benchmarks.peers.programs.{name}")


def scaled(sizes: Sizes, factor: float) -> Sizes:
    """Scale the amounts, with a minimum that allows computing figures."""
    return Sizes(
        tasks=max(20, round(sizes.tasks * factor)),
        singly=max(10, round(sizes.singly * factor)),
        drains=sizes.drains if factor >= 1 else 1,
        probes=max(3, min(sizes.probes, round(sizes.probes * factor))),
        chains=max(2, min(sizes.chains, round(sizes.chains * factor))),
        width=max(10, round(sizes.width * factor)),
        timeout_seconds=sizes.timeout_seconds,
    )
