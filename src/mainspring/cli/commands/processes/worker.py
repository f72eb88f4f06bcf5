"""`mainspring worker`: run tasks of a server on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.config.process_options import ProcessCommand, container_engine_option, quantity, with_log_options
from mainspring.cli.options import named_values, with_options
from mainspring.core.text.durations import parse_seconds
from mainspring.core.text.quantities import parse_bytes, parse_millis
from mainspring.core.work.isolation import Isolation

_NOT_AUTHORIZED = 3


_FILE = click.Path(dir_okay=False, path_type=Path)
_READABLE = click.Path(dir_okay=False, exists=True, path_type=Path)
_DIRECTORY = click.Path(file_okay=False, path_type=Path)
_ANY_PATH = click.Path(path_type=Path)
_CPU, _BYTES, _SECONDS = quantity(parse_millis), quantity(parse_bytes), quantity(parse_seconds)

_OPTIONS = (
    click.option(
        "--server", "servers", multiple=True, default=("http://127.0.0.1:8484",), show_default=True, metavar="URL",
        envvar="MAINSPRING_SERVER_URL",
        help="Server to connect to; repeat for failover.",
    ),
    click.option("--name", default="", metavar="NAME", help="Worker name; derived from the host name if omitted."),
    click.option("--pool", metavar="NAME", default="default", show_default=True, help="Pool to join."),
    click.option(
        "--cpu", "cpu_millis", callback=_CPU, metavar="CORES", help="CPU to offer, such as 4 or 500m; all if omitted.",
    ),
    click.option(
        "--memory", "memory_bytes", callback=_BYTES, metavar="SIZE",
        help="Memory to offer, such as 4Gi; all if omitted.",
    ),
    click.option("--gpus", type=click.IntRange(min=0), metavar="NUMBER", default=0, help="GPUs to offer."),
    click.option(
        "--disk", "disk_bytes", callback=_BYTES, default="0", metavar="SIZE", help="Disk to offer, such as 100Gi.",
    ),
    click.option(
        "--label", "labels", multiple=True, callback=named_values, metavar="NAME=VALUE",
        help="Label that tasks can require. Repeatable.",
    ),
    click.option("--zone", metavar="NAME", default="", help="Zone of the worker."),
    click.option(
        "--state-dir", type=_DIRECTORY,
        help="State directory of the worker. [default: .mainspring/worker-NAME]",
    ),
    click.option("--token-file", type=_READABLE, help="File with the API token [env: MAINSPRING_API_KEY]."),
    click.option(
        "--join", default="", metavar="TOKEN",
        help="Enroll with this join token. Prefer --join-file, which hides it.",
    ),
    click.option("--join-file", type=_READABLE, help="File with the join token."),
    click.option(
        "--ca-cert", type=_READABLE, envvar="MAINSPRING_CA_CERT",
        help="CA certificate of the servers (PEM).",
    ),
    click.option(
        "--context", metavar="NAME", shell_complete=candidates.contexts,
        help="Use this context; the current one is not used by default.",
    ),
    click.option(
        "--handlers", multiple=True, metavar="MODULE_OR_FILE",
        help="Serve the @task functions of a module or file. Repeatable.",
    ),
    click.option(
        "--children", type=click.IntRange(0), metavar="NUMBER", default=0,
        help="Warm Python processes; 0 for one per core.",
    ),
    click.option(
        "--invoker", default="", metavar="INVOKER",
        help="LLM invoker: command:.., python:MODULE:FUNCTION, URL#MODEL or JSON.",
    ),
    click.option(
        "--kubernetes", default="", metavar="CONTEXT",
        help="Run `kubernetes` tasks in this kubeconfig context or in-cluster.",
    ),
    click.option(
        "--kubernetes-namespace", "kubernetes_namespaces", multiple=True, metavar="NAME",
        help="Allowed namespace, the default one first. Repeatable.",
    ),
    click.option("--ray", default="", metavar="URL", help="Run `ray` tasks on the cluster of this dashboard."),
    click.option(
        "--artifacts", default="", metavar="URL",
        help="Artifact store: file:///DIRECTORY or s3://BUCKET/PREFIX.",
    ),
    click.option(
        "--keep-artifacts", callback=_SECONDS, metavar="DURATION",
        help="Retention of artifacts after a run; forever if omitted.",
    ),
    click.option(
        "--largest-artifact", callback=_BYTES, default="10Gi", show_default=True, metavar="SIZE",
        help="Maximum size of an artifact.",
    ),
    click.option(
        "--largest-artifacts", callback=_BYTES, default="50Gi", show_default=True, metavar="SIZE",
        help="Maximum size of all artifacts of an attempt.",
    ),
    click.option(
        "--drain-seconds", type=click.FloatRange(min=0), metavar="SECONDS", default=60.0, show_default=True,
        help="Grace period for running tasks at shutdown, in seconds.",
    ),
    click.option(
        "--isolation", type=click.Choice(["none", "process", "sandbox"]), callback=quantity(Isolation),
        default="process", show_default=True, help="Minimum isolation of tasks; tasks can require more.",
    ),
    click.option("--task-user", default="", metavar="NAME", help="Run tasks as this user; requires root."),
    click.option("--as-root", is_flag=True, help="Allow tasks to run as root."),
    click.option(
        "--task-processes", type=click.IntRange(min=1), metavar="NUMBER", default=4_096, show_default=True,
        help="Process and thread limit per task; needs cgroups or --task-user.",
    ),
    click.option(
        "--task-file-size", "task_file_bytes", callback=_BYTES, default="0", metavar="SIZE",
        help="Maximum size of a file that a task writes, such as 10Gi.",
    ),
    container_engine_option,
    click.option(
        "--allow-private-http", is_flag=True, help="Allow HTTP tasks to call private and local addresses."
    ),
    click.option("--hide", type=_ANY_PATH, multiple=True, help="Path to hide in sandboxes. Repeatable."),
    click.option(
        "--show", type=_ANY_PATH, multiple=True,
        help="Path to mount read-only in sandboxes. Repeatable.",
    ),
    click.option("--ready-file", type=_FILE, help="File created once connected."),
    with_log_options,
)  # fmt: skip
"""Option names match the fields of `WorkerOptions`."""


@click.command("worker", cls=ProcessCommand)
@with_options(*_OPTIONS)
@click.pass_context
def worker(ctx: click.RichContext, /, context: str | None, **options_given: Any) -> None:
    """Run a worker: execute tasks of a server on this machine.

    Connects to the server, offers all cores and memory by default, and runs in the foreground. Tasks continue while
    the server is unreachable and while the worker restarts: results are spooled to disk.

    On SIGTERM or Ctrl-C the worker drains: it accepts no new tasks and waits for running ones. A second signal stops
    immediately. Options can also be set through environment variables, such as MAINSPRING_WORKER__CPU, and in the
    project file, as `cpu` in `[worker]`.

    \b
    Examples:
      mainspring worker --cpu 4 --memory 8Gi
      mainspring worker --server https://mainspring.example.org --token-file token --pool gpu --gpus 1
    """
    from mainspring.protocol.errors import Forbidden, Unauthenticated
    from mainspring.worker.agent.launch import WorkerOptions, fault_of_user, run_worker

    if context is not None:
        options_given |= _of_context(context)
    options = WorkerOptions(**options_given)
    if fault := fault_of_user(options):
        raise click.UsageError(fault, ctx)
    try:
        run_worker(options)
    except (Unauthenticated, Forbidden) as error:
        click.echo(f"error: {error}", err=True)
        ctx.exit(_NOT_AUTHORIZED)


def _of_context(name: str) -> dict[str, object]:
    """Return the server and token of a context. Raises NotFound, or Refused if the token can't be resolved."""
    from mainspring.cli.config.contexts import read_contexts
    from mainspring.cli.config.secret_references import expand

    found = read_contexts().named(name)
    return {"servers": (found.server,), "token": "" if found.token is None else expand(found.token)}
