"""`mainspring webhooks`: HTTP notifications of the end of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    ResourceGroup,
    confirmed,
    limit_option,
    watch_option,
    with_confirmation,
    with_connection_options,
    with_output_options,
    with_table_options,
)

if TYPE_CHECKING:
    from mainspring.protocol.rest.admin import WebhookView

EVENTS = ("run.succeeded", "run.failed", "run.partial", "run.timed_out", "run.cancelled")
_events = click.option(
    "--event", "events", multiple=True, type=click.Choice(EVENTS), help="Event to send; all if omitted. Repeatable."
)
_job = click.option("--job", help="Only runs of this job.", shell_complete=candidates.jobs)
_note = click.option("--note", help="A note for other people.")


@click.group("webhooks", cls=ResourceGroup, invoke_without_command=True)
@watch_option
@limit_option(100)
@with_table_options
@with_connection_options
@click.pass_context
def webhooks(ctx: click.Context, /, connection: ConnectionOptions, printing: Printing, watch: bool, limit: int) -> None:
    """List webhooks; add, change, test or remove one, and list its deliveries.

    \b
    Examples:
      mainspring webhooks
      mainspring webhooks add https://ops.example/hook --event run.failed
      mainspring webhooks deliveries hook_018f3c2e9a41-9d2c44e1f0a7b35c
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.render.admin_tables import WEBHOOKS
    from mainspring.cli.render.listing import show_list

    with connection.client() as client:
        show_list(lambda: client.webhooks(limit=limit), WEBHOOKS, printing, watch=watch, limit=limit)


@webhooks.command("add")
@click.argument("url")
@_events
@_job
@_note
@with_output_options
@with_connection_options
def add(
    connection: ConnectionOptions,
    printing: Printing,
    url: str,
    events: tuple[str, ...],
    job: str | None,
    note: str | None,
) -> None:
    """Add a webhook to URL. The secret that signs its messages is shown only once.

    \b
    Examples:
      mainspring webhooks add https://ops.example/hook --event run.failed --job etl
    """
    from mainspring.cli.render.output import print_one
    from mainspring.protocol.rest.admin import WebhookRequest

    with connection.client() as client:
        made = client.create_webhook(WebhookRequest(url=url, events=events, job=job or "", note=note or ""))
    print_one(made, made.id, printing, lambda: click.echo(f"{made.id}\n{made.secret}"))


@webhooks.command("show")
@click.argument("webhook")
@with_output_options
@with_connection_options
def show(connection: ConnectionOptions, printing: Printing, webhook: str) -> None:
    """Show a webhook by id.

    \b
    Examples:
      mainspring webhooks show hook_018f3c2e9a41-9d2c44e1f0a7b35c
    """
    with connection.client() as client:
        _print_webhook(client.webhook(webhook), printing)


@webhooks.command("change")
@click.argument("webhook")
@click.option("--url", help="New URL.")
@_events
@_job
@click.option("--enable/--disable", "enabled", default=None, help="Enable or disable deliveries.")
@_note
@with_output_options
@with_connection_options
def change(
    connection: ConnectionOptions,
    printing: Printing,
    webhook: str,
    url: str | None,
    events: tuple[str, ...],
    job: str | None,
    enabled: bool | None,
    note: str | None,
) -> None:
    """Change a webhook. Omitted options are unchanged.

    \b
    Examples:
      mainspring webhooks change hook_018f3c2e9a41-9d2c44e1f0a7b35c --disable --note "moving"
    """
    from mainspring.protocol.rest.admin import WebhookRequest

    with connection.client() as client:
        was = client.webhook(webhook)
        request = WebhookRequest(
            url=was.url if url is None else url,
            events=events or tuple(was.events),
            job=was.job if job is None else job,
            enabled=was.enabled if enabled is None else enabled,
            note=was.note if note is None else note,
            tenant=was.tenant,
        )
        _print_webhook(client.change_webhook(webhook, request, if_match=was.version), printing)


@webhooks.command("remove")
@click.argument("ids", metavar="WEBHOOK...", nargs=-1, required=True)
@with_confirmation
@with_output_options
@with_connection_options
def remove(connection: ConnectionOptions, printing: Printing, ids: tuple[str, ...], yes: bool) -> None:
    """Delete webhooks.

    \b
    Examples:
      mainspring webhooks remove hook_018f3c2e9a41-9d2c44e1f0a7b35c
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    if len(ids) > 1 and not confirmed(f"remove {len(ids)} webhooks?", yes=yes):
        raise click.Abort
    with connection.client() as client:
        print_action_outcomes([ActionOutcome.of(word, "remove", client.delete_webhook(word)) for word in ids], printing)


@webhooks.command("deliveries")
@click.argument("webhook")
@watch_option
@limit_option(50)
@with_table_options
@with_connection_options
def deliveries(connection: ConnectionOptions, printing: Printing, webhook: str, watch: bool, limit: int) -> None:
    """List the deliveries of a webhook, newest first.

    \b
    Examples:
      mainspring webhooks deliveries hook_018f3c2e9a41-9d2c44e1f0a7b35c
    """
    from mainspring.cli.render.admin_tables import DELIVERIES
    from mainspring.cli.render.listing import show_list

    with connection.client() as client:
        show_list(lambda: client.deliveries(webhook, limit=limit), DELIVERIES, printing, watch=watch, limit=limit)


@webhooks.command("resend")
@click.argument("webhook")
@click.argument("messages", metavar="MESSAGE...", nargs=-1, required=True)
@with_output_options
@with_connection_options
def resend(connection: ConnectionOptions, printing: Printing, webhook: str, messages: tuple[str, ...]) -> None:
    """Resend messages to a webhook. They keep their ids, so receivers can detect duplicates.

    \b
    Examples:
      mainspring webhooks resend hook_018f3c2e9a41-9d2c44e1f0a7b35c msg_018f3c2e9a41-9d2c44e1f0a7b35c
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    with connection.client() as client:
        print_action_outcomes(
            [ActionOutcome.of(word, "resend", client.resend(webhook, word)) for word in messages], printing
        )


@webhooks.command("test")
@click.argument("webhook")
@with_table_options
@with_connection_options
def test(connection: ConnectionOptions, printing: Printing, webhook: str) -> None:
    """Send a test message to a webhook.

    \b
    Examples:
      mainspring webhooks test hook_018f3c2e9a41-9d2c44e1f0a7b35c
    """
    from mainspring.cli.render.admin_tables import DELIVERIES
    from mainspring.cli.render.output import print_rows

    with connection.client() as client:
        print_rows([client.send_test(webhook)], DELIVERIES, printing)


def _print_webhook(webhook: WebhookView, printing: Printing) -> None:
    from mainspring.cli.render.facts import format_when, print_facts
    from mainspring.cli.render.output import print_one

    def print_text() -> None:
        print_facts(
            ("webhook", webhook.id),
            ("url", webhook.url),
            ("events", ", ".join(webhook.events) or "all"),
            ("job", webhook.job),
            ("enabled", "yes" if webhook.enabled else "no"),
            ("note", webhook.note),
            ("tenant", webhook.tenant),
            ("version", webhook.version),
            ("created", format_when(webhook.created_at, printing)),
            ("created by", webhook.created_by),
        )

    print_one(webhook, webhook.id, printing, print_text)
