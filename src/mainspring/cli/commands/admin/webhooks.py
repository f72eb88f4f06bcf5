"""`mainspring webhooks`: HTTP notifications of the end of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ResourceGroup
from mainspring.cli.resource import Listing, Outcome, Session, action_on_each, listing, with_session, with_table_session

if TYPE_CHECKING:
    from mainspring.protocol.rest.admin import DeliveryView, WebhookView

EVENTS = ("run.succeeded", "run.failed", "run.partial", "run.timed_out", "run.cancelled")
_webhook = click.argument("webhook")
_events = click.option(
    "--event", "events", multiple=True, type=click.Choice(EVENTS), help="Event to send; all if omitted. Repeatable."
)
_job = click.option("--job", metavar="NAME", help="Only runs of this job.", shell_complete=candidates.jobs)
_note = click.option("--note", metavar="TEXT", help="Note, shown in lists.")


@click.group("webhooks", cls=ResourceGroup)
@listing(100)
def webhooks(session: Session, limit: int) -> Listing[WebhookView]:
    """List webhooks; add, change, test or remove one.

    `deliveries` lists the messages that were sent to one.

    \b
    Examples:
      mainspring webhooks
      mainspring webhooks add https://ops.example/hook --event run.failed
      mainspring webhooks deliveries hook_018f3c2e9a41-9d2c44e1f0a7b35c
    """
    from mainspring.cli.render.tables import WEBHOOKS

    return WEBHOOKS, lambda: session.client.webhooks(limit=limit)


@webhooks.command("add")
@click.argument("url")
@_events
@_job
@_note
@with_session
def add(session: Session, url: str, events: tuple[str, ...], job: str | None, note: str | None) -> None:
    """Add a webhook to URL.

    The secret that signs its messages is shown only once.

    \b
    Examples:
      mainspring webhooks add https://ops.example/hook --event run.failed --job etl
    """
    from mainspring.protocol.rest.admin import WebhookRequest

    made = session.client.create_webhook(WebhookRequest(url=url, events=events, job=job or "", note=note or ""))
    session.print_line(made, made.id, f"{made.id}\n{made.secret}")


@webhooks.command("show")
@_webhook
@with_session
def show(session: Session, webhook: str) -> None:
    """Show a webhook by id.

    \b
    Examples:
      mainspring webhooks show hook_018f3c2e9a41-9d2c44e1f0a7b35c
    """
    from mainspring.cli.render.tables import WEBHOOK

    session.print_details(session.client.webhook(webhook), WEBHOOK)


@webhooks.command("change")
@_webhook
@click.option("--url", metavar="URL", help="New URL.")
@_events
@_job
@click.option("--enable/--disable", "enabled", default=None, help="Enable or disable deliveries.")
@_note
@with_session
def change(session: Session, webhook: str, **changes: object) -> None:
    """Change a webhook. Omitted options are unchanged.

    \b
    Examples:
      mainspring webhooks change hook_018f3c2e9a41-9d2c44e1f0a7b35c --disable --note "moving"
    """
    import msgspec

    from mainspring.cli.render.tables import WEBHOOK
    from mainspring.protocol.rest.admin import WebhookRequest

    was = session.client.webhook(webhook)
    given = {name: value for name, value in changes.items() if value not in {None, ()}}
    request = msgspec.structs.replace(msgspec.convert(was, WebhookRequest, from_attributes=True), **given)
    session.print_details(session.client.change_webhook(webhook, request, if_match=was.version), WEBHOOK)


@webhooks.command("remove")
@click.argument("ids", metavar="WEBHOOK...", nargs=-1, required=True)
@action_on_each("webhooks", why=False)
def remove(session: Session, id: str) -> Outcome:
    """Delete webhooks.

    \b
    Examples:
      mainspring webhooks remove hook_018f3c2e9a41-9d2c44e1f0a7b35c
    """
    return id, session.client.delete_webhook(id)


@webhooks.command("deliveries")
@_webhook
@listing(50)
def deliveries(session: Session, webhook: str, limit: int) -> Listing[DeliveryView]:
    """List the deliveries of a webhook, newest first.

    \b
    Examples:
      mainspring webhooks deliveries hook_018f3c2e9a41-9d2c44e1f0a7b35c
    """
    from mainspring.cli.render.tables import DELIVERIES

    return DELIVERIES, lambda: session.client.deliveries(webhook, limit=limit)


@webhooks.command("resend")
@_webhook
@click.argument("messages", metavar="MESSAGE...", nargs=-1, required=True)
@with_session
def resend(session: Session, webhook: str, messages: tuple[str, ...]) -> None:
    """Resend messages to a webhook.

    They keep their ids, so that receivers can detect duplicates.

    \b
    Examples:
      mainspring webhooks resend hook_018f3c2e9a41-9d2c44e1f0a7b35c msg_018f3c2e9a41-9d2c44e1f0a7b35c
    """
    session.print_outcomes((message, session.client.resend(webhook, message)) for message in messages)


@webhooks.command("test")
@_webhook
@with_table_session
def test(session: Session, webhook: str) -> None:
    """Send a test message to a webhook.

    \b
    Examples:
      mainspring webhooks test hook_018f3c2e9a41-9d2c44e1f0a7b35c
    """
    from mainspring.cli.render.tables import DELIVERIES

    session.print_rows([session.client.send_test(webhook)], DELIVERIES)
