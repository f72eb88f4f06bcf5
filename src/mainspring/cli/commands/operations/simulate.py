"""`mainspring simulate`: capacity simulation with the real scheduler on a virtual clock."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import rich_click as click

from mainspring import __version__
from mainspring.cli.options import Printing, number_option, with_output_options
from mainspring.cli.render.output import Table, print_facts, print_one, print_rows
from mainspring.cli.render.terminal import progress_bar
from mainspring.protocol.errors import Refused
from mainspring.simulation.capacity import figures
from mainspring.simulation.capacity.page import make_page
from mainspring.simulation.capacity.processes import simulate_pools
from mainspring.simulation.capacity.report import PriorityRow, Report, TenantRow, make_report
from mainspring.simulation.capacity.scenario import Scenario, scaled
from mainspring.simulation.capacity.scenario_file import builtin, find_scenario, text_of

_DELAY_COLUMNS: dict[str, Any] = {
    "placed": lambda row, _: figures.format_count(row.delays.placed),
    "p50": lambda row, _: figures.format_delay(row.delays.p50_seconds),
    "p95": lambda row, _: figures.format_delay(row.delays.p95_seconds),
    "p99": lambda row, _: figures.format_delay(row.delays.p99_seconds),
    "longest": lambda row, _: figures.format_delay(row.delays.longest_seconds),
    "waiting": lambda row, _: figures.format_count(row.delays.waiting),
    "oldest": lambda row, _: figures.format_delay(row.delays.longest_waiting_seconds) if row.delays.waiting else None,
}
SCENARIOS = Table.of(
    Scenario,
    "name workers tenants seconds detail=about",
    workers=lambda one, _: figures.format_count(one.workers.count),
    tenants=lambda one, _: one.tenants.count,
    seconds=lambda one, _: f"{one.lasts:g}",
    id=lambda one: one.name,
)
PRIORITIES = Table.of(
    PriorityRow, "priority placed p50 p95 p99 longest waiting oldest", id=lambda row: row.priority, **_DELAY_COLUMNS
)
TENANTS = Table.of(
    TenantRow,
    "tenant weight placed p50 p95 p99 longest waiting oldest share_error",
    weight=lambda row, _: f"{row.weight:g}",
    share_error=lambda row, _: figures.format_share_error(row.share_error),
    id=lambda row: row.tenant,
    **_DELAY_COLUMNS,
)
_INTERRUPTED = 130
_MAX_TENANTS = 10
_STEPS = 1_000
"""Steps of the progress bar."""


@click.command("simulate")
@click.argument("scenario", required=False, metavar="[SCENARIO]")
@click.option("--list", "lists", is_flag=True, help="List the built-in scenarios.")
@click.option("--text", is_flag=True, help="Print the scenario file, as a starting point for your own.")
@click.option("--seed", type=click.IntRange(min=0), metavar="NUMBER", default=1, show_default=True, help="Random seed.")
@click.option(
    "--scale", type=click.FloatRange(0, 10, min_open=True), metavar="NUMBER", default=1.0, show_default=True,
    help="Scale factor of workers and load.",
)  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Also write the report to this HTML file.")
@number_option("--processes", "Number of processes; one per CPU if omitted.", most=256)
@click.option("--no-timing", is_flag=True, help="Omit measured times, so that the report is reproducible.")
@with_output_options
def simulate(
    printing: Printing, scenario: str | None, lists: bool, text: bool, seed: int, scale: float, out: Path | None,
    processes: int | None, no_timing: bool,
) -> None:  # fmt: skip
    """Simulate a cluster under a scenario.

    The report has waiting times, utilization and fairness. SCENARIO is a built-in name or a file. The simulation
    runs the real scheduler on a virtual clock, without a server. The same seed gives the same report. Ctrl-C stops
    it with a partial report and exits with 130. Try large scenarios with --scale 0.01 first, which takes seconds.

    \b
    Examples:
      mainspring simulate --list
      mainspring simulate midnight --scale 0.01
      mainspring simulate midnight --out report.html
      mainspring simulate zone-loss --text > mine.yaml
      mainspring simulate mine.yaml --seed 7 -o json
    """
    if lists or scenario is None:
        print_rows(builtin(), SCENARIOS, printing)
    elif text:
        click.echo(text_of(scenario), nl=False)
    else:
        report, was_interrupted = _play(scenario, seed, scale, processes, with_timing=not no_timing)
        _write(report, out)
        print_one(report, report.scenario, printing, lambda: _print_text(report, printing))
        if was_interrupted:
            sys.exit(_INTERRUPTED)


def _play(name: str, seed: int, scale: float, processes: int | None, *, with_timing: bool) -> tuple[Report, bool]:
    scenario = scaled(find_scenario(name), scale)
    with progress_bar(f"Simulating {scenario.name}", _STEPS) as done:
        played = simulate_pools(
            scenario, seed, processes=processes or os.cpu_count() or 1, progress=lambda part: done(int(part * _STEPS))
        )
    report = make_report(scenario, played.pools, seed=seed, scale=scale, version=__version__, with_timing=with_timing)
    return report, played.was_interrupted


def _write(report: Report, out: Path | None) -> None:
    if out is None:
        return
    try:
        out.write_text(make_page(report), "utf-8")
    except OSError as error:
        raise Refused(f"{out} can't be written: {error.strerror}") from error
    click.echo(f"wrote {out}", err=True)


def _print_text(report: Report, printing: Printing) -> None:
    click.echo(f"{report.scenario}: {report.about}\n{figures.headline(report)}")
    if report.is_partial:
        click.echo(figures.partial(report))
    click.echo()
    print_rows(report.priorities, PRIORITIES, printing)
    ordered = sorted(report.tenants, key=lambda row: (-row.delays.p95_seconds, row.tenant))
    shown = ordered if printing.output == "wide" else ordered[:_MAX_TENANTS]
    click.echo(f"\nTenants with the longest waits ({len(shown)} of {len(ordered)}):")
    print_rows(shown, TENANTS, printing)
    click.echo()
    print_facts(
        *figures.sentences(report), ("over time", figures.blocks([moment.used for moment in report.timeline], 1.0))
    )
