"""`mainspring artifacts`: list and download artifacts of tasks (WRK-11)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import strip_ls
from mainspring.cli.resource import Listing, Session, listing, with_session

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from mainspring.client.client import Client
    from mainspring.protocol.rest.artifacts import ArtifactView

_LIST = "ls"
_HELP = ("--help", "-h")


class _Artifacts(click.RichGroup):
    """A group that lists artifacts of a run or task unless the first argument is a subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        is_verb = args[:1] and args[0] in (*self.commands, *_HELP)
        return super().parse_args(ctx, args if is_verb else [_LIST, *strip_ls(args)])


@click.group("artifacts", cls=_Artifacts)
def artifacts() -> None:
    """List the artifacts of a run or task, or download one.

    \b
    Examples:
      mainspring artifacts @latest
      mainspring artifacts ls @latest/extract -o wide
      mainspring artifacts get @latest/extract orders.csv --to today.csv
    """


@artifacts.command(_LIST)
@click.argument("what", metavar="RUN_OR_TASK", default="@latest", shell_complete=candidates.runs_or_tasks)
@click.option("--attempt", metavar="ID", help="Attempt id, also of a failed attempt; `all` for every attempt.")
@listing(100)
def list_artifacts(session: Session, what: str, attempt: str | None, limit: int) -> Listing[ArtifactView]:
    """List the artifacts of a run or task.

    By default, only the artifacts of the last successful attempts are listed.

    \b
    Examples:
      mainspring artifacts @latest
      mainspring artifacts ls @latest/extract --attempt all
    """
    from mainspring.cli.render.tables import ARTIFACTS
    from mainspring.cli.resource_ids import find_run_or_task, is_run

    if attempt is not None and is_run(what):
        raise click.UsageError("--attempt requires a task")
    client = session.client
    is_whole_run, found = find_run_or_task(client, what)

    def fetch() -> Iterable[ArtifactView]:
        if is_whole_run:
            return client.run_artifacts(found, limit=limit)
        return client.task_artifacts(found, attempt="*" if attempt == "all" else attempt, limit=limit)

    return ARTIFACTS, fetch


@artifacts.command("get")
@click.argument("task", metavar="TASK", shell_complete=candidates.tasks)
@click.argument("path")
@click.option("--attempt", metavar="ID", help="Attempt id, also of a failed attempt.")
@click.option(
    "--to", "target", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE",
    help="Output file; - for stdout. [default: its own name]",
)  # fmt: skip
@with_session
def get(session: Session, task: str, path: str, attempt: str | None, target: Path | None) -> None:
    """Download an artifact of a task.

    It is read directly from the artifact store, a shared disk or a bucket, with the credentials of your environment.
    The content is verified against its recorded checksum.

    \b
    Examples:
      mainspring artifacts get @latest/extract orders.csv
      mainspring artifacts get run_018f3c2e9a41-9d2c44e1f0a7b35c/report report.html --to -
    """
    from mainspring.cli.resource_ids import find_task
    from mainspring.client.artifact_files import copy_artifact
    from mainspring.protocol.rest.runs import ActionResult

    found = _find(session.client, find_task(session.client, task), path, attempt)
    if target == Path("-"):
        copy_artifact(found, sys.stdout.buffer.write)
        return
    written = target or Path(Path(found.path).name)
    partial = written.with_name(f".{written.name}.part")
    try:
        with _new(partial) as file:
            copy_artifact(found, file.write)
        partial.replace(written)
    finally:
        partial.unlink(missing_ok=True)
    done = ActionResult(changed=True, detail=f"{found.size_bytes} bytes, checksum verified")
    session.print_outcomes([(str(written), done)])


def _find(client: Client, task_id: str, path: str, attempt: str | None) -> ArtifactView:
    """Find an artifact by its path. Raises NotFound."""
    from mainspring.core.text.suggestions import did_you_mean
    from mainspring.protocol.errors import NotFound

    paths = []
    for artifact in client.task_artifacts(task_id, attempt=attempt):
        if artifact.path == path:
            return artifact
        paths.append(artifact.path)
    raise NotFound(f"{task_id} has no artifact {path}{did_you_mean(path, paths)}")


def _new(path: Path) -> BinaryIO:
    """Open a new file for writing. Raises Refused if it can't be created."""
    from mainspring.protocol.errors import Refused

    try:
        return path.open("wb")
    except OSError as error:
        raise Refused(f"{path} can't be written: {error.strerror}") from None
