"""`mainspring server`: a server process, until it is told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.config.process_options import ProcessCommand, quantity

if TYPE_CHECKING:
    from mainspring.app.server import Ready

_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("server", cls=ProcessCommand, context_settings={"auto_envvar_prefix": "MAINSPRING"})
@click.option(
    "--store", default="sqlite:///./.mainspring/mainspring.db", show_default=True, metavar="URL",
    help="Where runs are kept: sqlite:///PATH, or postgresql://..",
)  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, help="What to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8484, show_default=True, help="0: a free one.")
@click.option("--address", metavar="URL", help="Where workers and other servers reach it, if not where it listens.")
@click.option("--data-dir", type=_FOLDER, help="Where logs are kept; beside a SQLite store, unless said.")
@click.option("--tls-cert", type=_FILE, help="The server's certificate, in PEM.")
@click.option("--tls-key", type=_FILE, help="The key of the certificate, in PEM.")
@click.option("--ca-cert", type=_FILE, help="What other servers' certificates are signed with, if not known here.")
@click.option(
    "--worker-ca", type=click.Path(path_type=Path),
    help="The authority of workers' certificates: the directory that `mainspring ca init` made, or its certificate.",
)  # fmt: skip
@click.option("--worker-ca-key", type=_FILE, help="The authority's key; in the directory, unless said.")
@click.option("--worker-cert-hours", default=24.0, show_default=True, help="So long a worker's certificate is good.")
@click.option("--require-worker-cert", is_flag=True, help="Let no worker in with a token alone.")
@click.option("--behind-proxy", is_flag=True, help="Something in front of it speaks TLS.")
@click.option("--require-token", is_flag=True, help="Ask for a token on this machine too.")
@click.option("--pool", default="default", show_default=True, help="Where runs go.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="How events are written to stderr.",
)  # fmt: skip
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True,
    help="From which level on.",
)  # fmt: skip
@click.option("--log-limit", default="64Mi", show_default=True, metavar="SIZE", help="Of one attempt's log.")
@click.option("--logs-limit", default="10Gi", show_default=True, metavar="SIZE", help="Of all logs together.")
@click.option(
    "--keep-logs", callback=quantity("seconds_of"), default="7d", show_default=True, metavar="LENGTH",
    help="How long after they were last written to logs are kept.",
)  # fmt: skip
@click.option("--alerts", type=_FILE, help="The channels that alerts are sent to, in YAML.")
@click.option(
    "--jitter", type=click.IntRange(0, 86_400), default=0, show_default=True, metavar="SECONDS",
    help="Spread the starts of schedules that don't say over so long.",
)  # fmt: skip
@click.option(
    "--set", "tuning", multiple=True, metavar="NAME=VALUE", envvar="MAINSPRING_SET",
    help="A measure of the scheduling, such as growth_per_second=500; docs/reference/settings.md lists them.",
)  # fmt: skip
@click.option("--private-webhooks", is_flag=True, help="Let webhooks go to private and local addresses too.")
@click.option("--otlp", metavar="URL", help="Send spans and numbers there by OpenTelemetry's protocol over HTTP.")
@click.option("--lineage", metavar="URL", help="Send OpenLineage events there.")
@click.option("--ready-file", type=_FILE, help="Write {address, pid} there as JSON when it is ready.")
def server(
    store: str, host: str, port: int, address: str | None, data_dir: Path | None, tls_cert: Path | None,
    tls_key: Path | None, ca_cert: Path | None, worker_ca: Path | None, worker_ca_key: Path | None,
    worker_cert_hours: float, require_worker_cert: bool, behind_proxy: bool, require_token: bool, pool: str,
    log_format: str, log_level: str, log_limit: str, logs_limit: str, keep_logs: float, alerts: Path | None,
    jitter: int, tuning: tuple[str, ...], private_webhooks: bool, otlp: str | None, lineage: str | None,
    ready_file: Path | None,
) -> None:  # fmt: skip
    """Run a server: the scheduler, the API, and the end of the workers' links.

    Several servers may share one PostgreSQL: one of them leads, the others take over. Every option can also stand in
    the environment, as MAINSPRING_SERVER__PORT, or in the project's file, as `port` in `[server]`.

    \b
    Examples:
      mainspring server
      mainspring server --store postgresql://mainspring@db/mainspring --host 0.0.0.0 --behind-proxy
    """
    from mainspring.app.server import ServerSettings, reason_to_refuse, serve

    settings = ServerSettings(
        store=store, host=host, port=port, address=address, data_dir=data_dir, tls_cert=tls_cert, tls_key=tls_key,
        ca_cert=ca_cert, worker_ca=worker_ca, worker_ca_key=worker_ca_key, worker_cert_hours=worker_cert_hours,
        require_worker_cert=require_worker_cert, behind_proxy=behind_proxy, require_token=require_token, pool=pool,
        log_format=log_format, log_level=log_level, alerts=alerts, jitter_seconds=jitter, tuning=tuning,
        ready_file=ready_file, largest_log_bytes=_bytes(log_limit), largest_logs_bytes=_bytes(logs_limit),
        keep_logs_seconds=keep_logs, private_webhooks=private_webhooks, otlp=otlp, lineage=lineage,
    )  # fmt: skip
    reason = reason_to_refuse(settings)
    if reason is not None:
        raise click.UsageError(reason)
    serve(settings, _say_ready)


def _bytes(size: str) -> int:
    from mainspring.definitions.quantities import bytes_of

    try:
        return bytes_of(size)
    except ValueError as error:
        raise click.UsageError(f"{size!r} is no size: {error}") from error


def _say_ready(ready: Ready) -> None:
    token = "needed from everybody" if ready.token_needed else "not needed on this machine"
    lines = [
        "Mainspring is ready.",
        f"  API      {ready.address}/api/v1",
        f"  Metrics  {ready.address}/metrics",
        f"  Store    {ready.store}",
        f"  Pool     {ready.pool}",
        f"  Token    {token}",
        "Stop it with Ctrl-C.",
    ]
    if ready.token_needed and not ready.has_tokens:
        lines.append(f"No token exists yet. Make one: mainspring token create NAME --role admin --store {ready.store}")
        if ready.store.startswith("sqlite:"):
            lines.append("It needs the store for itself: stop this server first.")
    click.echo("\n".join(lines), err=True)
