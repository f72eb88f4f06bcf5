"""Reducing rows to a result, and the result file."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from mainspring.core.expressions.values import JsonValue
from mainspring.core.work.map_reduce import MapStep, ReduceStep
from mainspring.mapreduce.attempt import MAX_RESULT_BYTES, ResultFile, output_of, write_result
from mainspring.mapreduce.invoke_function import FunctionInvoker
from mainspring.mapreduce.mapper import ItemFailure, Mapped, Row
from mainspring.mapreduce.prompt_runner import PromptRunner
from mainspring.mapreduce.prompts import MAX_PROMPT_LENGTH
from mainspring.mapreduce.reducer import csv_text, reduce_rows, table
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import TaskError

ROWS: list[Row] = [
    {"title": 'a,\n"b"', "severity": "high", "tags": ["x", 1]},
    {"title": "日本", "severity": None, "extra": "{{ x }}"},
]
FAILED = [ItemFailure(index=1, error="no luck", failure="permanent")]


async def reduced(rows: list[Row], *, fields: tuple[str, ...] = ("severity",), **step: object) -> JsonValue:
    """Reduce rows; the invoker echoes its prompt."""

    async def echo(prompt: str) -> str:
        return prompt

    prompt_runner = PromptRunner(
        FunctionInvoker(echo), MapStep(prompt="x", attempts=1), SystemClock(), lambda line: None
    )
    mapped = Mapped(rows=rows, failures=FAILED, count=len(rows) + 1, was_abandoned=False)
    return await reduce_rows(
        mapped, msgspec.convert(step, ReduceStep), fields, prompt_runner=prompt_runner, params={"day": "monday"}
    )


async def test_json_has_the_rows_and_counts() -> None:
    """Failures included."""
    assert await reduced(ROWS, type="json") == {"results": ROWS, "count": 2, "failed": 1}
    assert await reduced([], type="json") == {"results": [], "count": 0, "failed": 1}


async def test_a_list_has_the_answers_alone() -> None:
    """Values if there is one field or none, else objects."""
    assert await reduced(ROWS, type="list") == ["high", None]
    assert await reduced([{"n": 1, "answer": "yes"}], type="list", fields=()) == ["yes"]
    two = await reduced(ROWS, type="list", fields=("severity", "title"))
    assert two == [{"severity": row["severity"], "title": row["title"]} for row in ROWS]


async def test_a_csv_can_be_read_again() -> None:
    """With the union of all columns."""
    text = await reduced(ROWS, type="csv")
    assert isinstance(text, str)
    assert list(csv.DictReader(io.StringIO(text))) == [
        {"title": 'a,\n"b"', "severity": "high", "tags": '["x",1]', "extra": ""},
        {"title": "日本", "severity": "", "tags": "", "extra": "{{ x }}"},
    ]
    assert csv_text([]) == ""


def test_a_table_is_aligned() -> None:
    """One line per row; wide characters take two columns, wide cells are truncated."""
    rows: list[Row] = [*ROWS, {"title": "x" * 100, "severity": 3.5}]
    assert table(rows).splitlines() == [
        f"{'title':60}  severity  tags     extra",
        f"{'-' * 60}  --------  -------  -------",
        'a, "b"'.ljust(60) + '  high      ["x",1]',
        "日本".ljust(58) + " " * 21 + "{{ x }}",
        f"{'x' * 59}…  3.5",
    ]
    assert table([]) == ""


async def test_a_reduce_prompt_gets_the_rows_as_data() -> None:
    """The answer is text, or fields."""
    prompt = "{{count}} of {{ params.day }}, {{failed}} failed: {{results}} {{ results|length }}"
    text = await reduced(ROWS, type="prompt", prompt=prompt)
    assert text == f"2 of monday, 1 failed: {msgspec.json.encode(ROWS).decode()} 2"
    assert await reduced(ROWS, type="prompt", prompt="Sum up", output=["summary"]) == {"summary": "<summary>"}


async def test_a_reduce_prompt_that_is_too_long_is_refused() -> None:
    """Permanently."""
    with pytest.raises(TaskError, match=str(MAX_PROMPT_LENGTH)) as failed:
        await reduced([{"text": "x" * 5_000_000}], type="prompt", prompt="{{results}}")
    assert failed.value.failure == "permanent"


def a_result(result: object) -> ResultFile:
    """A result of a run with fixed times."""
    started_at = datetime(2026, 1, 26, 14, 0, 0, 123_000, tzinfo=UTC)
    completed_at = datetime(2026, 1, 26, 14, 2, 35, tzinfo=UTC)
    return ResultFile(
        run_id="run_1", pipeline="bugs", started_at=started_at, completed_at=completed_at,
        items=2, failed=1, errors=FAILED, result=result,
    )  # fmt: skip


def test_each_result_is_written_to_a_new_file(tmp_path: Path) -> None:
    """Results of the same second get distinct names."""
    assert [write_result(tmp_path, a_result(number)) for number in range(3)] == [
        "2026-01-26T14-00-00.json",
        "2026-01-26T14-00-00-2.json",
        "2026-01-26T14-00-00-3.json",
    ]
    assert json.loads((tmp_path / "2026-01-26T14-00-00.json").read_text()) == {
        "run_id": "run_1",
        "pipeline": "bugs",
        "started_at": "2026-01-26T14:00:00.123000Z",
        "completed_at": "2026-01-26T14:02:35Z",
        "items": 2,
        "failed": 1,
        "errors": [{"index": 1, "error": "no luck", "failure": "permanent", "retry_after_seconds": None}],
        "result": 0,
    }
    assert len(list(tmp_path.iterdir())) == 3, "nothing else is left"


def test_a_large_result_is_only_in_its_file() -> None:
    """Outputs are passed to other tasks and are limited."""
    small = output_of("x", items=2, failed=1, file="f.json")
    assert small == {"items_processed": 2, "items_failed": 1, "result_file": "f.json", "result": "x"}
    largest = "x" * (MAX_RESULT_BYTES - 2)
    assert output_of(largest, items=2, failed=1, file=None)["result"] == largest
    assert "result" not in output_of(f"{largest}x", items=2, failed=1, file=None)
