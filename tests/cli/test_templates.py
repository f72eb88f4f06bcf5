"""`mainspring init` and `example`: all templates and examples run."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from mainspring.client.client import Client
from mainspring.definitions.files.sources import parse
from mainspring.definitions.pipeline_file import Pipeline, read_pipeline
from mainspring.definitions.pipeline_params import make_params
from mainspring.definitions.templates import Template, templates
from mainspring.folder.discover import FoundPipeline, scan
from tests.cli.terminal import EXAMPLES, Terminal

PIPELINES = scan(EXAMPLES).found
WINDOW = datetime(2026, 11, 16, 5, 30, tzinfo=UTC)


def outcome(address: str, pipeline: Pipeline) -> dict[str, str]:
    """Run a pipeline, and return the state of each task and, under the empty name, of the run."""
    with Client(address) as client:
        job = client.submit_job(pipeline.job)
        run = client.submit(f"{job.name}@{job.version}", params=make_params(pipeline.params, {}, WINDOW))
        ended = client.wait(run.id)
        states = {task.label or task.name: task.state for task in client.tasks_of(run.id)}
    return {"": ended.state, **states}


@pytest.mark.parametrize("template", templates(), ids=lambda template: template.name)
def test_a_template_runs_as_it_is(template: Template, address: str, home: Path, tmp_path: Path) -> None:
    pipeline = read_pipeline(template.text, "pipeline.yaml", id=f"template-{template.name}", directory=str(tmp_path))

    assert pipeline.schedules
    assert pipeline.warnings == ()
    assert set(outcome(address, pipeline).values()) == {"SUCCEEDED"}


@pytest.mark.parametrize("found", PIPELINES, ids=lambda found: found.pipeline_id)
def test_an_example_runs_as_it_is(found: FoundPipeline, address: str, home: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns(".*"))
    report = tmp_path / "examples" / "weather" / ".results" / "report.txt"
    report.parent.mkdir()
    report.write_text("the weather\n")
    directory = str(tmp_path / "examples" / found.path)

    pipeline = read_pipeline(found.text, "pipeline.yaml", id=f"example-{found.pipeline_id}", directory=directory)

    assert pipeline.warnings == ()
    assert set(outcome(address, pipeline).values()) == {"SUCCEEDED"}


def test_the_examples_cover_triggers_and_dependencies() -> None:
    assert {found.pipeline_id for found in PIPELINES} == {"bug-report", "digest", "heartbeat", "weather"}
    read = {found.pipeline_id: read_pipeline(found.text, found.path, id=found.pipeline_id) for found in PIPELINES}
    after = {name: spec.after.job for name, one in read.items() for spec in one.schedules if spec.after is not None}
    assert after == {"digest": "weather"}
    assert set(after.values()) <= set(read)


@pytest.mark.parametrize("template", templates(), ids=lambda template: template.name)
def test_init_creates_a_valid_pipeline(template: Template, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "pipelines"

    result = Terminal().call("init", folder, "--template", template.name)

    assert result.exit_code == 0, result.stderr
    assert f"`mainspring up {folder}`" in result.stderr
    (found,) = scan(folder).found
    assert found.pipeline_id == read_pipeline(template.text, "p.yaml").id, "the directory has its id as name"
    first, _, rest = found.text.partition("\n")
    assert rest == template.text
    schema = folder / found.path / first.removeprefix("# yaml-language-server: $schema=")
    assert msgspec.json.decode(schema.read_bytes())["type"] == "object"
    assert set(result.stdout.split()) == {str(path) for path in folder.rglob("*") if path.is_file()}


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    terminal = Terminal()
    terminal.out("init", tmp_path)
    file = tmp_path / "hello" / "pipeline.yaml"
    file.write_text("name: mine\n")
    (tmp_path / ".gitignore").write_text("mine\n")

    again = terminal.call("init", tmp_path)
    beside = terminal.call("init", tmp_path, "--template", "dag")

    assert (again.exit_code, file.read_text()) == (4, "name: mine\n")
    assert str(file) in again.stderr
    assert beside.exit_code == 0, beside.stderr
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    assert {found.pipeline_id for found in scan(tmp_path).found} == {"hello", "orders"}


def test_all_templates_fit_into_one_folder(tmp_path: Path) -> None:
    for template in templates():
        Terminal().out("init", tmp_path, "--template", template.name)

    assert len(scan(tmp_path).found) == len(templates())


def test_examples_are_listed_and_printed() -> None:
    terminal = Terminal()

    names = terminal.out("example", "-q").split()
    assert names == ["ai", "cron", "dag", "event", "fanout"]
    assert terminal.out("example").splitlines()[0].split() == ["NAME", "ABOUT"]
    assert all(parse(terminal.out("example", name))[1] == [] for name in names)
    unknown = terminal.call("example", "fan")
    assert unknown.exit_code == 5
    assert "fanout" in unknown.stderr
