"""Concurrency groups of pipelines are defined on the server before their jobs (PLC-12)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mainspring.definitions.pipeline_file import Pipeline, read_pipeline
from mainspring.folder.shared_groups import wanted_groups
from tests.folder.folder_harness import running_folder

TASKS = "tasks: [{id: a, run: 'true'}]\n"


def pipeline(name: str, group: str, tenant: str = "") -> Pipeline:
    """A pipeline in a concurrency group."""
    said = f"tenant: {tenant}\n" if tenant else ""
    return read_pipeline(f"name: {name}\n{said}concurrency: {{{group}}}\n{TASKS}", f"{name}.yaml")


def test_if_files_differ_the_smallest_limit_applies() -> None:
    """A file without a limit defines no group."""
    files = [
        pipeline("a", "group: etl, max: 3"), pipeline("b", "group: etl, max: 2"), pipeline("c", "group: etl"),
        pipeline("d", "group: d, max: 5"), pipeline("e", "group: etl, max: 1", tenant="other"),
    ]  # fmt: skip
    assert {key: request.most for key, request in wanted_groups(files).items()} == {
        (None, "etl"): 2,
        ("other", "etl"): 1,
    }


@pytest.mark.processes
async def test_groups_are_defined_and_updated_from_files(tmp_path: Path) -> None:
    """The group exists when the job is created, and is updated with the file."""
    file = tmp_path / "load" / "pipeline.yaml"
    file.parent.mkdir()
    file.write_text(f"name: load\nconcurrency: {{group: etl, max: 2}}\n{TASKS}")
    async with running_folder(tmp_path) as harness:
        group = await harness.box.client.group_named("etl")
        assert (group.most, group.per_seconds, group.version) == (2, None, 1)
        job = await harness.box.client.job("load")
        assert isinstance(job.definition, msgspec.Raw)
        assert b'"groups":["etl"]' in bytes(job.definition)
