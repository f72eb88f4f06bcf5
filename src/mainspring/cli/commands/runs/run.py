"""`mainspring run`: run a pipeline locally, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.config.process_options import invoker_option
from mainspring.cli.options import Printing, params_option, with_output_options

if TYPE_CHECKING:
    from mainspring.definitions.pipeline_file import Pipeline

_FILE = click.Path(exists=True, path_type=Path)


@click.command("run")
@click.argument("file", type=_FILE)
@params_option
@invoker_option
@click.option("--timeout", metavar="DURATION", help="Give up after this long, such as 10m; exit with 124.")
@click.option("--keep", is_flag=True, help="Keep the store and logs, and print their location.")
@with_output_options
def run(
    printing: Printing, file: Path, params: tuple[str, ...], invoker: str | None, timeout: str | None, keep: bool
) -> None:
    """Run the pipeline in FILE in this process, without a server.

    FILE may be a directory with a pipeline.yaml. The logs are printed. Uses the real engine with a temporary store.
    The schedule is ignored, and no state file is written. Exits with 0 if the run succeeded, else with 1.

    \b
    Examples:
      mainspring run pipeline.yaml -p day=2026-11-15
      mainspring run pipelines/etl --timeout 10m -o json
    """
    import math
    import shutil
    import tempfile

    from mainspring.app.standalone import StandaloneSettings, run_in_background
    from mainspring.cli.commands.runs.wait_for_run import wait_for_end
    from mainspring.cli.render.log_view import LogView
    from mainspring.cli.render.times import parse_params, parse_timeout
    from mainspring.client.client import FINAL_RUN_STATES, Client
    from mainspring.definitions.pipeline_params import make_params
    from mainspring.protocol.clock import SystemClock
    from mainspring.telemetry.log_output import configure_embedded_logging

    configure_embedded_logging("error")
    pipeline = _read(file)
    given = make_params(pipeline.params, parse_params(params), SystemClock().wall().astimezone())
    timeout_seconds = parse_timeout(timeout)
    place = Path(tempfile.mkdtemp(prefix="mainspring-run-"))
    settings = StandaloneSettings(
        directory=place,
        port=0,
        python_path=(file.resolve().parent,),
        invoker=_invoker(invoker),
        # Detecting an engine takes a moment, so only pipelines with containers do it.
        container_engine="auto" if b'"container"' in pipeline.job else "",
    )
    try:
        with run_in_background(settings) as address, Client(address, token="", tenant=pipeline.tenant or "") as client:
            client.submit_job(pipeline.job)
            made = client.submit(pipeline.id, params=given)
            began = SystemClock().monotonic()
            if printing.is_human_readable:
                until = math.inf if timeout_seconds is None else began + timeout_seconds
                LogView(client, printing, tail=None, attempt=None).print_run(
                    made.id, follow=True, failed=False, until=until, final_states=FINAL_RUN_STATES | {"PAUSED"}
                )
            wait_for_end(client, made.id, printing, timeout_seconds, server_remains=False, since=began)
    finally:
        if keep:
            click.echo(f"kept in {place}", err=True)
        else:
            shutil.rmtree(place, ignore_errors=True)


def _read(file: Path) -> Pipeline:
    """Read the pipeline in a file or directory. Raises InvalidFile, UsageError."""
    from mainspring.cli.config.input_files import read_file
    from mainspring.definitions.pipeline_file import read_pipeline

    path = file / "pipeline.yaml" if file.is_dir() else file
    if not path.exists():
        raise click.UsageError(f"{path} does not exist; `mainspring up {file}` runs all pipelines below a folder")
    name, text = read_file(str(path))
    return read_pipeline(text, name, directory=str(path.resolve().parent))


def _invoker(given_invoker: str | None) -> str:
    """Return the invoker of the option, or else of the project file."""
    from mainspring.cli.config.project_file import find_project_file

    project = find_project_file()
    return given_invoker or (None if project is None else project.invoker()) or ""
