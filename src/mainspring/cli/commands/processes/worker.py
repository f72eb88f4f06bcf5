"""`mainspring worker`: take work from a server, and run it here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.config.process_options import ProcessCommand, quantity
from mainspring.cli.options import named_values

_NOT_AUTHORISED = 3


def _level(_ctx: click.Context, _parameter: click.Parameter, value: str) -> object:
    from mainspring.core.work.isolation import Isolation

    return Isolation(value)


_FILE = click.Path(dir_okay=False, path_type=Path)
_READABLE = click.Path(dir_okay=False, exists=True, path_type=Path)
_DIRECTORY = click.Path(file_okay=False, path_type=Path)
_PLACE = click.Path(path_type=Path)
_CPU, _BYTES, _SECONDS = quantity("millis_of"), quantity("bytes_of"), quantity("seconds_of")

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
        "--label", "labels", multiple=True, callback=named_values, metavar="NAME=VALUE",
        help="Something that tasks can ask for. Can be given several times.",
    ),
    click.option("--zone", default="", help="Where it stands."),
    click.option(
        "--state-dir", type=_DIRECTORY,
        help="Where it keeps its journal and its tasks' files: one for each worker. [default: .mainspring/worker-NAME]",
    ),
    click.option("--token-file", type=_READABLE, help="A file with the token. Without it, MAINSPRING_API_KEY has it."),
    click.option(
        "--join", default="", metavar="TOKEN",
        help="Get a certificate of its own for this join token, once. Others on the machine see it: see --join-file.",
    ),
    click.option("--join-file", type=_READABLE, help="A file with the join token."),
    click.option(
        "--ca-cert", type=_READABLE, envvar="MAINSPRING_CA_CERT",
        help="The certificate that the servers' are signed with, in PEM, if this machine does not know it.",
    ),
    click.option(
        "--context", metavar="NAME", shell_complete=candidates.contexts,
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
        "--kubernetes", default="", metavar="CONTEXT",
        help="Run tasks of the kind `kubernetes` on the cluster of this kubeconfig context, or of in-cluster.",
    ),
    click.option(
        "--kubernetes-namespace", "kubernetes_namespaces", multiple=True, metavar="NAME",
        help="A namespace that tasks may run in, the usual one first; else the context's. Can be given several times.",
    ),
    click.option("--ray", default="", metavar="URL", help="Run tasks of the kind `ray` on this dashboard's cluster."),
    click.option(
        "--artifacts", default="", metavar="URL",
        help="Where files that tasks leave are stored: file:///DIRECTORY or s3://BUCKET/PREFIX; else in its state-dir.",
    ),
    click.option(
        "--keep-artifacts", callback=_SECONDS, metavar="LENGTH",
        help="How long after the end of a run its files are kept, as 30d; else for ever.",
    ),
    click.option(
        "--largest-artifact", callback=_BYTES, default="10Gi", show_default=True, metavar="SIZE",
        help="No file that a task leaves may be larger.",
    ),
    click.option(
        "--largest-artifacts", callback=_BYTES, default="50Gi", show_default=True, metavar="SIZE",
        help="All files that an attempt leaves may not be larger together.",
    ),
    click.option(
        "--drain-seconds", type=click.FloatRange(min=0), default=60.0, show_default=True,
        help="How long running tasks may take to finish when it is told to leave.",
    ),
    click.option(
        "--isolation", type=click.Choice(["none", "process", "sandbox"]), callback=_level, default="process",
        show_default=True, help="How far tasks are kept apart at least; a task can ask for more.",
    ),
    click.option("--task-user", default="", metavar="NAME", help="Run tasks as this user. Only root can do that."),
    click.option("--as-root", is_flag=True, help="Run tasks as root, if this is root. Without it that is refused."),
    click.option(
        "--task-processes", type=click.IntRange(min=1), default=4_096, show_default=True,
        help="Processes and threads that a task may have at once, where there is a cgroup or a user for tasks.",
    ),
    click.option(
        "--task-file-size", "task_file_bytes", callback=_BYTES, default="0", metavar="SIZE",
        help="The largest file that a task may write, as 10Gi; else any.",
    ),
    click.option(
        "--container-engine", default="auto", show_default=True, metavar="WORDS",
        help="What runs containers, as /usr/bin/podman, with words for it; auto: docker or podman if one works.",
    ),
    click.option(
        "--allow-private-http", is_flag=True, help="Let HTTP calls of tasks go to this machine and its network."
    ),
    click.option("--hide", type=_PLACE, multiple=True, help="Not shown in a sandbox. Can be given several times."),
    click.option(
        "--show", type=_PLACE, multiple=True,
        help="Shown in a sandbox, read-only, although it is in a home or a temporary directory.",
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


@click.command("worker", cls=ProcessCommand)
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
    from mainspring.protocol.errors import Forbidden, Unauthenticated
    from mainspring.worker.agent.launch import WorkerOptions, fault_of_user, run_worker

    if context is not None:
        said |= _of_context(context)
    options = WorkerOptions(**said)
    if fault := fault_of_user(options):
        raise click.UsageError(fault, ctx)
    try:
        run_worker(options)
    except (Unauthenticated, Forbidden) as error:
        click.echo(f"error: {error}", err=True)
        ctx.exit(_NOT_AUTHORISED)


def _of_context(name: str) -> dict[str, object]:
    """What a context says of the server. Raises NotFound, or Refused if its token is not where it should be."""
    from mainspring.cli.config.contexts import read_contexts
    from mainspring.cli.config.secret_references import expand

    found = read_contexts().named(name)
    return {"servers": (found.server,), "token": "" if found.token is None else expand(found.token)}
