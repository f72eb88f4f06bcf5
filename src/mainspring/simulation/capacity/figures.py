"""Text form of a report's figures, shared by the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mainspring.core.text.durations import format_seconds
from mainspring.simulation.capacity.report import Fairness, Report, Timing

_BLOCKS = "▁▂▃▄▅▆▇█"


def format_delay(seconds: float) -> str:
    """Format a delay: `7 ms`, `1.3s`, `2m 05s`."""
    return f"{seconds * 1_000:.3g} ms" if seconds < 1 else format_seconds(seconds)


def format_percent(part: float) -> str:
    """Format a fraction: `74 %`."""
    return f"{part * 100:.3g} %"


def format_share_error(error: float | None) -> str:
    """Format the deviation of a share: `+12 %`; `-` if it was not compared."""
    return "-" if error is None else f"{error * 100:+.3g} %"


def format_count(count: float) -> str:
    """Format a number with commas: `1,610,000`."""
    return f"{count:,.0f}"


def format_short(count: float) -> str:
    """Format a number for an axis: `12k`, `1.5M`."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.3g}"


def headline(report: Report) -> str:
    """One-line summary of the simulated scenario."""
    sizes = (
        f"{_several(report.workers, 'worker')} in {_several(report.zones, 'zone')} and "
        f"{_several(report.pools, 'pool')}, {_several(report.tenants_count, 'tenant')}, "
        f"{_several(report.tasks, 'task')} in {format_seconds(report.seconds)}"
    )
    return f"{sizes}; seed {report.seed}, scale {report.scale:g}"


def partial(report: Report) -> str:
    """Notice that the report is partial."""
    return (
        f"Partial: it was interrupted. {report.pools_played} of {report.pools} pools were simulated to the end, "
        "and the figures cover what was simulated by then."
    )


def sentences(report: Report) -> Iterator[tuple[str, str]]:
    """One sentence for each remaining subject."""
    yield (
        "used",
        f"{format_percent(report.used_mean)} of the cores on average, {format_percent(report.used_most)} at most",
    )
    yield "fairness", _format_fairness(report.fairness)
    yield "preempted", f"{format_count(report.preemptions)} attempts were preempted"
    yield "attempts", ", ".join(f"{format_count(count)} {end}" for end, count in report.ends.items()) or "none ended"
    if report.timing is not None:
        yield "decisions", _format_timing(report.timing)


def _several(count: int, noun: str) -> str:
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"


def _format_fairness(fairness: Fairness | None) -> str:
    if fairness is None:
        return "no two tenants of a pool had work waiting for long: nothing to compare"
    return (
        f"shares are {format_percent(fairness.mean_error)} off the weights on average; the worst is "
        f"{format_share_error(fairness.worst_error)}, {fairness.worst_tenant}'s; "
        f"{fairness.tenants} tenants were compared"
    )


def _format_timing(timing: Timing) -> str:
    return (
        f"{timing.cpu_micros_per_task:.3g} µs of CPU for each task placed; a turn takes {timing.turn_p50_ms:.2g} ms, "
        f"1 % of them over {timing.turn_p99_ms:.2g} ms, the longest {timing.longest_turn_ms:.3g} ms (on this machine: "
        "the seed does not decide it)"
    )


def blocks(values: Sequence[float], most: float, width: int = 60) -> str:
    """A sparkline of a value over time."""
    if not values:
        return ""
    size = max(1, -(-len(values) // width))
    groups = [values[begin : begin + size] for begin in range(0, len(values), size)]
    means = [sum(group) / len(group) for group in groups]
    return "".join(_BLOCKS[min(len(_BLOCKS) - 1, int(mean / (most or 1) * len(_BLOCKS)))] for mean in means)
