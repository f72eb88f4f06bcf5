"""`mainspring server`: run a server process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.config.process_options import ProcessCommand, quantity, with_log_options
from mainspring.core.text.durations import parse_seconds
from mainspring.core.text.quantities import parse_bytes

if TYPE_CHECKING:
    from typing import Any

    from mainspring.app.server import Ready

_FILE = click.Path(dir_okay=False, path_type=Path)
_BYTES = quantity(parse_bytes)
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("server", cls=ProcessCommand, context_settings={"auto_envvar_prefix": "MAINSPRING"})
@click.option(
    "--store", default="sqlite:///./.mainspring/mainspring.db", show_default=True, metavar="URL",
    help="Store URL: sqlite:///PATH or postgresql://..",
)  # fmt: skip
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), metavar="PORT", default=8484, show_default=True, help="Port; 0 for any."
)
@click.option("--address", metavar="URL", help="URL for workers and other servers, if different.")
@click.option("--data-dir", type=_FOLDER, help="Directory for logs; next to the SQLite store if omitted.")
@click.option("--tls-cert", type=_FILE, help="TLS certificate of the server (PEM).")
@click.option("--tls-key", type=_FILE, help="TLS private key (PEM).")
@click.option("--ca-cert", type=_FILE, help="CA certificate of other servers (PEM).")
@click.option(
    "--worker-ca", type=click.Path(path_type=Path),
    help="CA of worker certificates: `mainspring ca init` directory or FILE.",
)  # fmt: skip
@click.option("--worker-ca-key", type=_FILE, help="Private key of the worker CA.")
@click.option(
    "--worker-cert-hours", metavar="HOURS", default=24.0, show_default=True, help="Lifetime of worker certificates."
)
@click.option("--require-worker-cert", is_flag=True, help="Reject workers without a certificate.")
@click.option("--behind-proxy", is_flag=True, help="A reverse proxy terminates TLS.")
@click.option("--require-token", is_flag=True, help="Require a token for local clients too.")
@click.option("--pool", metavar="NAME", default="default", show_default=True, help="Default pool for runs.")
@with_log_options
@click.option(
    "--log-limit", callback=_BYTES, default="64Mi", show_default=True, metavar="SIZE", help="Maximum size of one log."
)
@click.option(
    "--logs-limit", callback=_BYTES, default="10Gi", show_default=True, metavar="SIZE", help="Maximum size of all logs."
)
@click.option(
    "--keep-logs", callback=quantity(parse_seconds), default="7d", show_default=True, metavar="DURATION",
    help="Retention of logs after their last write.",
)  # fmt: skip
@click.option("--alerts", type=_FILE, help="Alert channels (YAML).")
@click.option(
    "--jitter", type=click.IntRange(0, 86_400), default=0, show_default=True, metavar="SECONDS",
    help="Default jitter of schedules.",
)  # fmt: skip
@click.option(
    "--set", "scheduler_settings", multiple=True, metavar="NAME=VALUE", envvar="MAINSPRING_SET",
    help="Scheduler setting, such as fan_out_per_second=500. Repeatable.",
)  # fmt: skip
@click.option("--private-webhooks", is_flag=True, help="Allow webhooks to private and local addresses.")
@click.option("--otlp", metavar="URL", help="OpenTelemetry endpoint for spans and metrics (OTLP/HTTP).")
@click.option("--lineage", metavar="URL", help="OpenLineage endpoint.")
@click.option("--ready-file", type=_FILE, help="Write {address, pid} as JSON once ready.")
def server(log_limit: int, logs_limit: int, keep_logs: float, jitter: int, **given: Any) -> None:
    """Run a server: the scheduler, the API and the worker gateway.

    Several servers can share a PostgreSQL store: one leads, the others are standbys. Options can also be set through
    environment variables, such as MAINSPRING_SERVER__PORT, and in the project file, as `port` in `[server]`.
    docs/reference/settings.md lists the settings of --set.

    \b
    Examples:
      mainspring server
      mainspring server --store postgresql://mainspring@db/mainspring --host 0.0.0.0 --behind-proxy
    """
    from mainspring.app.server import ServerSettings, reason_to_refuse, serve

    settings = ServerSettings(
        max_log_bytes=log_limit, max_logs_bytes=logs_limit, keep_logs_seconds=keep_logs, jitter_seconds=jitter, **given
    )  # fmt: skip
    if (reason := reason_to_refuse(settings)) is not None:
        raise click.UsageError(reason)
    serve(settings, _print_ready)


def _print_ready(ready: Ready) -> None:
    token = "required" if ready.token_needed else "not required on this machine"
    lines = [
        "Mainspring is ready.",
        f"  API      {ready.address}/api/v1",
        f"  Metrics  {ready.address}/metrics",
        f"  Store    {ready.store}",
        f"  Pool     {ready.pool}",
        f"  Token    {token}",
        "Press Ctrl-C to stop.",
    ]
    if ready.token_needed and not ready.has_tokens:
        lines.append(f"No token exists. Create one: mainspring token create NAME --role admin --store {ready.store}")
        if ready.store.startswith("sqlite:"):
            lines.append("SQLite allows one process at a time: stop this server first.")
    click.echo("\n".join(lines), err=True)
