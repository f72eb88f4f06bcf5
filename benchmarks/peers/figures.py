"""The report of a run."""

from __future__ import annotations

import enum

import msgspec

from benchmarks.peers.arithmetic import rounded
from benchmarks.peers.load import is_disturbed


class Measure(enum.StrEnum):
    """Measures, in the order of the table."""

    RECORDED = "recorded_per_s"
    STARTED = "tasks_per_s"
    STARTED_WHOLE = "tasks_per_s_with_warming"
    CPU = "cpu_ms_per_task"
    START_P50 = "start_ms_p50"
    START_P95 = "start_ms_p95"
    STEP_P50 = "chain_step_ms_p50"
    STEP_P95 = "chain_step_ms_p95"
    FAN_OUT = "fan_out_s"
    ENQUEUE = "enqueue_per_s"
    ENQUEUE_MANY = "enqueue_many_per_s"
    MEMORY = "memory_mib"
    FIRST_RUN = "first_run_s"
    INSTALL = "install_s"


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One number with its quality."""

    value: float
    foreign_cores: float = 0.0
    """Cores used by other processes meanwhile."""
    disturbed: bool = False
    """Whether that is enough to mark the figure."""
    of: int = 0
    """Number of tasks, probes or steps."""
    note: str = ""


class Row(msgspec.Struct, kw_only=True):
    """One way to run a system."""

    peer: str
    name: str
    store: str
    settings: str
    durable: str
    lacks: str
    quick_start: list[str]
    versions: dict[str, str]
    figures: dict[Measure, Figure] = {}
    failures: list[str] = []
    """Errors of the parts that could not be measured."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured."""

    system: str
    processor: str
    cores: int
    memory_gib: float
    file_system: str
    """File system of the stores. In memory, nothing is durable, and the figures are meaningless."""
    python: str
    node: str


class Report(msgspec.Struct, kw_only=True):
    """A whole run."""

    began_at: str
    seconds: float
    scale: float
    machine: Machine
    rows: list[Row]
    skipped: dict[str, str]
    """Systems that were not measured, with the reason."""
    failed: dict[str, str]
    """Required systems that could not be measured, with the reason."""

    @property
    def is_disturbed(self) -> bool:
        """Is any figure marked?"""
        return any(figure.disturbed for row in self.rows for figure in row.figures.values())


def figure(value: float, foreign_cores: float = 0.0, *, of: int = 0, note: str = "") -> Figure:
    """Format a number, marked if other processes used the machine meanwhile."""
    return Figure(
        value=rounded(value),
        foreign_cores=round(foreign_cores, 2),
        disturbed=is_disturbed(foreign_cores),
        of=of,
        note=note,
    )
