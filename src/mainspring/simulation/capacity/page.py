"""The report as one HTML file: plots, with a table for each. It needs no network and no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from mainspring.core.model.task import Priority
from mainspring.simulation.capacity import plots
from mainspring.simulation.capacity.figures import (
    format_count,
    format_delay,
    format_percent,
    format_share_error,
    format_short,
    headline,
    partial,
    sentences,
)
from mainspring.simulation.capacity.plots import Caption, Range, Series
from mainspring.simulation.capacity.report import Delays, Report, TimelinePoint

Rows = Sequence[Sequence[str]]
_DELAY_COLUMNS = ("placed", "p50", "p95", "p99", "longest", "still waiting", "since")

_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --card: #f6f7f9; --text: #1c2128; --dim: #57606a; --rule: #d9dde3;
  --one: #0057e9; --two: #a67f00; --three: #6f2b73; --bad: #8f1c00 }
@media (prefers-color-scheme: dark) { :root { --ground: #0e1116; --card: #161b22; --text: #e6edf3; --dim: #9aa4af;
  --rule: #2d343d; --one: #5593ff; --two: #ffd83d; --three: #b04fa2; --bad: #ff4a1f } }
* { box-sizing: border-box }
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif }
main, header { max-width: 62rem; margin: 0 auto; padding: 0 1.25rem }
header { padding-top: 2rem } h1 { font-size: 1.6rem; margin: 0 } h2 { font-size: 1.1rem; margin: 2.5rem 0 .25rem }
p { margin: .25rem 0 .75rem; max-width: 46rem } .dim { color: var(--dim) }
.partial { border-left: 4px solid var(--bad); padding: .5rem .75rem; background: var(--card) }
dl.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: 1.25rem 0 }
dl.cards > div { background: var(--card); border-radius: .5rem; padding: .6rem .8rem }
dl.cards dt { color: var(--dim); font-size: .8rem } dl.cards dd { margin: 0; font-size: 1.35rem }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem } dl.facts dt { color: var(--dim) }
dl.facts dd { margin: 0 } figure { margin: 0 } .wide { overflow-x: auto }
svg { display: block; width: 100%; min-width: 44rem; height: auto; font: 12.5px system-ui, sans-serif }
.grid { stroke: var(--rule); stroke-width: 1 } .tick { fill: var(--dim) } .name, .note { fill: var(--text) }
.line { fill: none; stroke-width: 2; stroke-linejoin: round } .one { stroke: var(--one) }
.two { stroke: var(--two); stroke-dasharray: 7 3 } .three { stroke: var(--three); stroke-dasharray: 2 3 }
.range { stroke: var(--one); stroke-width: 2 } .dot { fill: var(--one) } .mark { fill: var(--text) }
.span { fill: var(--one) }
details { margin: .25rem 0 0 } summary { cursor: pointer; color: var(--dim); min-height: 1.5rem }
summary:focus-visible, .wide:focus-visible { outline: 2px solid var(--one); outline-offset: 2px }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; margin: .5rem 0 }
th, td { text-align: right; padding: .2rem .7rem; border-bottom: 1px solid var(--rule) }
th:first-child, td:first-child { text-align: left } thead th { color: var(--dim); font-weight: 600 }
footer { color: var(--dim); font-size: .85rem; padding: 2.5rem 0 }
@media print { details > * { display: block } }
"""


def make_page(report: Report) -> str:
    """Render the whole file."""
    title = f"Capacity simulation: {report.scenario}"
    warning = f'<p class="partial" role="note">{escape(partial(report))}</p>' if report.is_partial else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<header><h1>{escape(title)}</h1><p>{escape(report.about)}</p>"
        f'<p class="dim">{escape(headline(report))}</p>{warning}{_cards(report)}</header>'
        f"<main>{''.join(_sections(report))}{_footer(report)}</main></body></html>\n"
    )


def _cards(report: Report) -> str:
    figures = [(f"{row.priority} p99 delay", format_delay(row.delays.p99_seconds)) for row in report.priorities]
    figures += [
        ("tasks placed", format_short(report.placed)),
        ("cores used, mean", format_percent(report.used_mean)),
        ("off its share, mean", "-" if report.fairness is None else format_percent(report.fairness.mean_error)),
        ("preempted", format_short(report.preemptions)),
    ]
    cards = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in figures)
    return f'<dl class="cards">{"".join(cards)}</dl>'


def _sections(report: Report) -> Iterator[str]:
    yield _delays(report)
    yield _use(report)
    yield _waiting(report)
    yield _pace(report)
    if any(moment.preempted or moment.lost or moment.failed for moment in report.timeline):
        yield _failures(report)
    yield _tenants(report)
    yield _shares(report)
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in sentences(report))
    yield f'<section><h2>Summary</h2><dl class="facts">{facts}</dl></section>'


def _delays(report: Report) -> str:
    rows = [_range(row.priority, row.delays) for row in report.priorities]
    words = Caption("Delay by priority", "From ready to durably assigned: p50, p95 and p99.")
    table = [(row.priority, *_delay_cells(row.delays)) for row in report.priorities]
    return _section(words, plots.ranges(words, rows, format_delay), ("priority", *_DELAY_COLUMNS), table)


def _use(report: Report) -> str:
    words = Caption("Cores in use", "Fraction of the cores of all live workers, per second.")
    at, used = _at(report), [moment.used for moment in report.timeline]
    drawn = plots.lines(words, at, [Series("used", "one", used)], format_percent, most=1.0)
    table = [
        (_second(one.at_seconds), format_percent(one.used), format_count(one.cores), format_count(one.running))
        for one in report.timeline
    ]
    return _section(words, drawn, ("second", "used", "cores", "tasks running"), table)


def _waiting(report: Report) -> str:
    """One plot for each priority: position says more than color."""
    words = Caption("Tasks waiting", "Ready and not placed, or in intake, per second; each priority on its own scale.")
    drawn = "".join(
        plots.lines(
            Caption(f"Tasks waiting, {priority.name}", f"Tasks of {priority.name} waiting, per second."),
            _at(report),
            [Series(priority.name, "one", [moment.waiting[priority.name] for moment in report.timeline])],
            format_short,
            height=130,
        )
        for priority in Priority
        if any(moment.waiting[priority.name] for moment in report.timeline)
    )
    names = [priority.name for priority in Priority]
    table = [
        (_second(moment.at_seconds), *(format_count(moment.waiting[name]) for name in names))
        for moment in report.timeline
    ]
    return _section(words, drawn or "<p>No tasks were waiting.</p>", ("second", *names), table)


def _pace(report: Report) -> str:
    words = Caption("Tasks per second", "Submitted, placed, and ended with success.")
    # The first point covers the whole warm-up.
    return _counts(words, report.timeline[1:], {"placed": "placed", "submitted": "arrived", "succeeded": "ended"})


def _failures(report: Report) -> str:
    words = Caption("Failures", "Attempts that failed, were lost with their worker, or were preempted.")
    return _counts(words, report.timeline, {"failed": "failed", "lost": "lost", "preempted": "preempted"})


def _counts(words: Caption, timeline: Sequence[TimelinePoint], fields: Mapping[str, str]) -> str:
    """A plot of three counts over time. `fields` has the field of a point by the name of its line."""
    series = [
        Series(name, style, [getattr(moment, field) for moment in timeline])
        for style, (name, field) in zip(("one", "two", "three"), fields.items(), strict=True)
    ]
    table = [
        (_second(moment.at_seconds), *(format_count(getattr(moment, field)) for field in fields.values()))
        for moment in timeline
    ]
    drawn = plots.lines(words, [moment.at_seconds for moment in timeline], series, format_short)
    return _section(words, drawn, ("second", *fields), table)


def _tenants(report: Report) -> str:
    ordered = sorted(report.tenants, key=lambda row: (row.delays.p95_seconds, row.tenant))
    rows = [_range(row.tenant, row.delays) for row in ordered]
    words = Caption("Delay by tenant", "p50 (lower end), p95 (mark) and p99 (upper end) of each tenant's tasks.")
    table = [
        (row.tenant, f"{row.weight:g}", *_delay_cells(row.delays), format_share_error(row.share_error))
        for row in reversed(ordered)
    ]
    return _section(
        words, plots.columns(words, rows, format_delay), ("tenant", "weight", *_DELAY_COLUMNS, "share off by"), table
    )


def _shares(report: Report) -> str:
    words = Caption(
        "Share against weight",
        "Usage of each tenant relative to its weight, while it and others of its pool had work waiting.",
    )
    compared = sorted(
        ((row.share_error, row.tenant, row.compared_seconds) for row in report.tenants if row.share_error is not None),
        reverse=True,
    )
    if not compared:
        drawn = "<p>No two tenants of a pool had work waiting for long at the same time.</p>"
        return f"<section><h2>{words.title}</h2>{drawn}</section>"
    table = [(tenant, format_share_error(error), f"{seconds} s") for error, tenant, seconds in compared]
    drawn = plots.bars(words, [(tenant, error) for error, tenant, _ in compared], format_share_error)
    return _section(words, drawn, ("tenant", "off by", "compared for"), table)


def _section(words: Caption, drawn: str, head: Sequence[str], rows: Rows) -> str:
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f"<section><h2>{escape(words.title)}</h2><figure><figcaption><p>{escape(words.about)}</p></figcaption>"
        f'<div class="wide" tabindex="0" role="group" aria-label="{escape(words.title)}">{drawn}</div></figure>'
        f'<details><summary>Show as table</summary><div class="wide"><table><thead><tr>{columns}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div></details></section>"
    )


def _footer(report: Report) -> str:
    return (
        f"<footer>Mainspring {escape(report.version)}. Real scheduler decisions on a virtual clock. Latencies of the "
        "store and the network come from the scenario; workers are virtual. Percentiles are exact to 2 %. "
        "Tasks that became ready in the warm-up are not counted.</footer>"
    )


def _range(name: str, delays: Delays) -> Range:
    return Range(name, delays.p50_seconds, delays.p95_seconds, delays.p99_seconds)


def _delay_cells(delays: Delays) -> tuple[str, ...]:
    since = format_delay(delays.longest_waiting_seconds) if delays.waiting else "-"
    figures = (delays.p50_seconds, delays.p95_seconds, delays.p99_seconds, delays.longest_seconds)
    return (format_count(delays.placed), *map(format_delay, figures), format_count(delays.waiting), since)


def _at(report: Report) -> list[float]:
    return [moment.at_seconds for moment in report.timeline]


def _second(at: float) -> str:
    return f"{at:g}"
