"""Example reports."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers.figures import Machine, Measure, Report, Row, figure


def a_row(name: str, *, speed: float = 100.0, foreign_cores: float = 0.0, width: int = 1_000) -> Row:
    """A row of a system with throughput and fan-out."""
    return Row(
        peer=name.lower(),
        name=name,
        store="postgres",
        settings="as it comes",
        durable="Everything.",
        lacks="",
        quick_start=["install it", "start it"],
        versions={name: "1.2"},
        figures={
            Measure.STARTED: figure(speed, foreign_cores),
            Measure.FAN_OUT: figure(0.5, of=width),
            Measure.INSTALL: figure(12.0),
        },
    )


def a_report(rows: Sequence[Row], *, skipped: dict[str, str] | None = None, scale: float = 1.0) -> Report:
    """A report with these rows."""
    machine = Machine(
        system="Linux 6",
        processor="Quick",
        cores=2,
        memory_gib=8.0,
        file_system="ext4",
        python="3.11.7",
        node="20.1.0",
    )
    return Report(
        began_at="2026-11-17 12:00 UTC",
        seconds=600.0,
        scale=scale,
        machine=machine,
        rows=list(rows),
        skipped=skipped or {},
        failed={},
    )
