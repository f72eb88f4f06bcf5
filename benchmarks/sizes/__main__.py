"""Growth of cost with size: queued tasks, tenants, workers, history rows; each from few to very many.

    python -m benchmarks.sizes -o json
    python -m benchmarks.sizes --only waiting tenants --largest 10000 --visits 1

At every size, on a separate PostgreSQL, no-op tasks are drained and P0 runs are timed (`benchmarks/sizes/site.py`),
while one dimension grows and everything else is constant (`benchmarks/sizes/dimensions.py`). The stores of a dimension
stay open and are measured in turn, several times, so that other load on the machine affects all sizes. A size that was
disturbed each time is measured again. The best measurement counts. The cost at the smallest size is 1:

    <dimension>_throughput_worst    largest ratio of the time of a task
    <dimension>_latency_worst       the same for the latency of P0
    <dimension>_cpu_worst           the same for the CPU time of a task, with that of the store
    within                          no throughput and no latency is worse than 1.5

Results go to stdout, and as sizes.json, sizes.md and sizes.svg to the folder of --out; progress goes to stderr. A run
takes about a quarter of an hour, longer on a busy machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import uvloop

from benchmarks.measure import durability
from benchmarks.peers.machine import this_machine
from benchmarks.sizes.dimensions import DIMENSIONS, Dimension
from benchmarks.sizes.drawing import svg
from benchmarks.sizes.growth import Report, Series, Visit, is_within, points, were_disturbed, worst_of
from benchmarks.sizes.site import open_site
from benchmarks.sizes.table import markdown, plain
from mainspring.app.server import tune_garbage_collector
from mainspring.telemetry.log_output import configure_logging

TASKS = 5_000
PROBES = 60
VISITS = 3


async def run(dimensions: list[Dimension], tasks: int, probes: int, visits: int) -> Report:
    """Measure these one after another."""
    began, began_at = time.monotonic(), datetime.now(UTC)
    store: dict[str, str] = {}
    series = []
    for dimension in dimensions:
        found, store = await _measure(dimension, tasks, probes, visits)
        series.append(found)
    return Report(
        began_at=began_at.strftime("%Y-%m-%d %H:%M UTC"),
        seconds=round(time.monotonic() - began, 1),
        machine=this_machine(),
        store=store,
        tasks=tasks,
        probes=probes,
        visits=visits,
        worst=worst_of(series),
        within=is_within(series),
        series=series,
    )


async def _measure(dimension: Dimension, tasks: int, probes: int, visits: int) -> tuple[Series, dict[str, str]]:
    """Measure all sizes of a dimension; also return the durability of the stores."""
    found: dict[int, list[Visit]] = {size: [] for size in dimension.sizes}
    async with AsyncExitStack() as stack:
        sites = {}
        for size in dimension.sizes:
            began = time.monotonic()
            sites[size] = await stack.enter_async_context(open_site(dimension.setting(size)))
            _say(f"{dimension.name} {size:,}: furnished in {time.monotonic() - began:.0f} s")
        for number in range(2 * visits):
            for size, site in sites.items():
                if number >= visits and not were_disturbed(found[size]):
                    continue
                began = time.monotonic()
                visit = await site.visit(tasks, probes)
                found[size].append(visit)
                _say(
                    f"{dimension.name} {size:,}: {visit.tasks_per_s:,.0f} tasks/s, P0 after {visit.p50_ms:g} ms, "
                    f"{visit.cpu_us:.0f} + {visit.store_cpu_us:.0f} µs of CPU, {visit.foreign_cores:g} foreign cores, "
                    f"in {time.monotonic() - began:.0f} s"
                )
        promised = await durability("postgres", sites[dimension.sizes[0]].store)
    series = Series(
        name=dimension.name, title=dimension.title, about=dimension.about, points=points(list(found.items()))
    )
    return series, {name: str(value) for name, value in promised.items()}


def main() -> None:
    """Measure the selected dimensions, and write the report."""
    options = _options()
    configure_logging("text", "warning")
    tune_garbage_collector()  # as a server does
    chosen = [one.up_to(options.largest) for one in DIMENSIONS if not options.only or one.name in options.only]
    report = uvloop.run(run(chosen, options.tasks, options.probes, options.visits))
    encoded = msgspec.json.format(msgspec.json.encode(report)).decode()
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "sizes.json").write_text(encoded + "\n")
        (options.out / "sizes.md").write_text(markdown(report))
        (options.out / "sizes.svg").write_text(svg(report))
    if options.output == "json":
        print(encoded)
    else:
        print(markdown(report) if options.output == "markdown" else plain(report), end="")


def _options() -> argparse.Namespace:
    names = [dimension.name for dimension in DIMENSIONS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sizes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", choices=("json", "table", "markdown"), default="table")
    parser.add_argument("--only", nargs="+", choices=names, default=[], help="measure these and nothing else")
    parser.add_argument("--largest", type=int, default=10**9, metavar="SIZE", help="leave out larger sizes")
    parser.add_argument("--tasks", type=int, default=TASKS, help="number of tasks drained on each visit")
    parser.add_argument("--probes", type=int, default=PROBES, help="number of P0 runs timed on each visit")
    parser.add_argument(
        "--visits", type=int, default=VISITS, help="number of measurements per size; up to twice as many if disturbed"
    )
    parser.add_argument(
        "--out", type=Path, default=None, metavar="DIR", help="where the files go; else none are written"
    )
    return parser.parse_args()


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
