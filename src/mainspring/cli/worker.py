"""`mainspring worker`: take work from a server, and run it here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click

from mainspring.cli import completing
from mainspring.cli.process_options import ProcessCommand, quantity

_NOT_AUTHORISED = 3
_FILE = click.Path(dir_okay=False, path_type=Path)
_READABLE = click.Path(dir_okay=False, exists=True, path_type=Path)
_DIRECTORY = click.Path(file_okay=False, path_type=Path)


def _labels(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for value in values:
        name, sign, content = value.partition("=")
        if not name or not sign:
            raise click.BadParameter(f"{value!r} must be NAME=VALUE", ctx, parameter)
        labels[name] = content
    return labels


_CPU, _BYTES = quantity("millis_of"), quantity("bytes_of")

_OPTIONS = (
    click.option(
        "--server", "servers", multiple=True, default=("http://127.0.0.1:8484",), show_default=True, metavar="URL",
        envvar="MAINSPRING_SERVER_URL",
        help="A server to connect to. Give several: the next one is tried if one is gone.",
    ),
    click.option("--name", default="", help="The worker's name. Without it one is made from the host's, and kept."),
    click.option("--pool", default="default", show_default=True, help="The pool whose tasks it takes."),
    click.option("--cpu", "cpu_millis", callback=_CPU, metavar="CORES", help="Cores to offer, as 4 or 500m; else all"),
    click.option("--memory", "memory_bytes", callback=_BYTES, metavar="SIZE", help="Memory to offer, as 4Gi; else all"),
    click.option("--gpus", type=click.IntRange(min=0), default=0, help="GPUs to offer."),
    click.option("--disk", "disk_bytes", callback=_BYTES, default="0", metavar="SIZE", help="Disk to offer, as 100Gi."),
    click.option(
        "--label", "labels", multiple=True, callback=_labels, metavar="NAME=VALUE",
        help="Something that tasks can ask for. Can be given several times.",
    ),
    click.option("--zone", default="", help="Where it stands."),
    click.option(
        "--state-dir", type=_DIRECTORY,
        help="Where it keeps its journal and its tasks' files: one for each worker. [default: .mainspring/worker-NAME]",
    ),
    click.option("--token-file", type=_READABLE, help="A file with the token. Without it, MAINSPRING_API_KEY has it."),
    click.option(
        "--context", metavar="NAME", shell_complete=completing.contexts,
        help="Take the server and the token of `mainspring context`. The one in use is not taken by itself.",
    ),
    click.option(
        "--handlers", multiple=True, metavar="MODULE_OR_FILE",
        help="Serve the functions with @task in this module or file. Can be given several times.",
    ),
    click.option("--children", type=click.IntRange(0), default=0, help="Python processes kept warm; else one a core"),
    click.option(
        "--invoker", default="", metavar="TEXT",
        help="Who answers the prompts of map-reduces: command:.., http://..#MODEL, python:MODULE:FUNCTION, or JSON.",
    ),
    click.option(
        "--drain-seconds", type=click.FloatRange(min=0), default=60.0, show_default=True,
        help="How long running tasks may take to finish when it is told to leave.",
    ),
    click.option("--ready-file", type=_FILE, help="Written when a server has said welcome."),
    click.option(
        "--log-format", envvar="MAINSPRING_LOG_FORMAT", type=click.Choice(["text", "json"]), default="text",
        show_default=True, help="How events are written to stderr.",
    ),
    click.option(
        "--log-level", envvar="MAINSPRING_LOG_LEVEL", type=click.Choice(["debug", "info", "warning", "error"]),
        default="info", show_default=True, help="From which level on.",
    ),
)  # fmt: skip
"""Each has the name of a field of `WorkerOptions`."""


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command(cls=ProcessCommand)
@_with_options
@click.pass_context
def worker(ctx: click.RichContext, /, context: str | None, **said: Any) -> None:
    """Take tasks from a server and run them on this machine.

    Connects out, offers all cores and memory unless told otherwise, and stays in the foreground. What runs goes on
    while no server is there, and also while the worker itself is restarted: results wait on its disk.

    SIGTERM or Ctrl-C: it takes nothing new, gives running tasks time to finish, and ends. The second one hurries.
    Every option can also stand in the environment, as MAINSPRING_WORKER__CPU, or in the project's file, as `cpu` in
    `[worker]`.

    \b
    Examples:
      mainspring worker --cpu 4 --memory 8Gi
      mainspring worker --server https://mainspring.example.org --token-file token --pool gpu --gpus 1
    """
    from mainspring.errors import Forbidden, Unauthenticated
    from mainspring.worker.launch import WorkerOptions, run_worker

    if context is not None:
        said |= _of_context(context)
    try:
        run_worker(WorkerOptions(**said))
    except (Unauthenticated, Forbidden) as error:
        click.echo(f"error: {error}", err=True)
        ctx.exit(_NOT_AUTHORISED)


def _of_context(name: str) -> dict[str, object]:
    """What a context says of the server. Raises NotFound, or Refused if its token is not where it should be."""
    from mainspring.cli.contexts import read_contexts
    from mainspring.cli.secret_references import expand

    found = read_contexts().named(name)
    return {"servers": (found.server,), "token": "" if found.token is None else expand(found.token)}
