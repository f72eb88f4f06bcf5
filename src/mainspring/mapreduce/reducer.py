"""Reduce the rows to one result.

json      {"results": [row, ..], "count": 42, "failed": 0}

list      the answers alone, in item order: values if there is one field, else objects

table     aligned text

csv       text with a header

prompt    the invoker's answer: text, or an object with the requested fields
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from unicodedata import east_asian_width

from mainspring.core.expressions.values import JsonValue
from mainspring.core.work.map_reduce import ANSWER, ReduceKind, ReduceStep
from mainspring.mapreduce.mapper import Mapped, Row
from mainspring.mapreduce.prompt_runner import PromptRunner
from mainspring.mapreduce.prompts import Prompt, as_text

MAX_CELL_WIDTH = 60
"""Wider table cells are truncated; the other formats have the whole value."""


async def reduce_rows(
    mapped: Mapped, step: ReduceStep, output: Sequence[str], *, prompt_runner: PromptRunner, params: JsonValue
) -> JsonValue:
    """Return the result. Raises TaskError if its prompt fails, ExpressionFailed if the template is invalid."""
    rows = mapped.rows
    match step.type:
        case ReduceKind.JSON:
            return {"results": list(rows), "count": len(rows), "failed": len(mapped.failures)}
        case ReduceKind.LIST:
            return _answers(rows, output)
        case ReduceKind.TABLE:
            return table(rows)
        case ReduceKind.CSV:
            return csv_text(rows)
        case ReduceKind.PROMPT:
            values: dict[str, JsonValue] = {
                "results": list(rows), "count": len(rows), "failed": len(mapped.failures), "params": params,
            }  # fmt: skip
            prompt = Prompt(step.prompt or "", step.output).render(values)
            return await prompt_runner.ask(prompt, step.output, "the reduce")


def table(rows: Sequence[Row]) -> str:
    """Format rows as an aligned table."""
    columns = _columns(rows)
    if not columns:
        return ""
    lines = [columns, *([_cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(_width(line[number]) for line in lines) for number in range(len(columns))]
    lines.insert(1, ["-" * width for width in widths])
    return "".join(f"{_aligned(line, widths)}\n" for line in lines)


def csv_text(rows: Sequence[Row]) -> str:
    """Format rows as CSV."""
    written = io.StringIO()
    columns = _columns(rows)
    writer = csv.writer(written, lineterminator="\n")
    if columns:
        writer.writerow(columns)
    writer.writerows([_written(row.get(column)) for column in columns] for row in rows)
    return written.getvalue()


def _answers(rows: Sequence[Row], output: Sequence[str]) -> JsonValue:
    if len(output) > 1:
        return [{name: row[name] for name in output} for row in rows]
    field = output[0] if output else ANSWER
    return [row[field] for row in rows]


def _columns(rows: Sequence[Row]) -> list[str]:
    """Return all fields, in order of appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _cell(value: JsonValue) -> str:
    """Format a value on one line, truncated."""
    text = " ".join(_written(value)[: 4 * MAX_CELL_WIDTH].split())
    return text if len(text) <= MAX_CELL_WIDTH else f"{text[: MAX_CELL_WIDTH - 1]}…"


def _written(value: JsonValue) -> str:
    return "" if value is None else as_text(value)


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)).rstrip()


def _width(text: str) -> int:
    """Return the display width of a text: wide East Asian characters take two columns."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
