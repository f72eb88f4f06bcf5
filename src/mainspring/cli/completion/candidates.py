"""Shell completion candidates: names and ids known to the server.

The server has half a second to answer; if it does not, or returns an error, there are no candidates. Completing option
names imports none of the client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich_click as click
    from click.shell_completion import CompletionItem

    from mainspring.client.client import Client
    from mainspring.protocol.rest.runs import RunView

    Items = list[CompletionItem[str]]
    Offers = Iterable[tuple[str, str]]
    Completion = Callable[[click.Context, click.Parameter, str], Items]

_TIMEOUT_SECONDS = 0.5
_MAX_ITEMS = 100
_LATEST = "@latest"
_CONNECTION_OPTIONS = ("server", "token_file", "tenant", "context")


def contexts(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Complete names of contexts."""
    from mainspring.cli.config.contexts import read_contexts
    from mainspring.protocol.errors import MainspringError

    try:
        known = read_contexts().known.values()
    except MainspringError:
        # The file is invalid; the command itself reports it.
        return []
    return _matching(((context.name, context.server) for context in known), incomplete)


def templates(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Complete names of templates."""
    from mainspring.definitions.templates import templates as all_templates

    return _matching(((template.name, template.about) for template in all_templates()), incomplete)


def _offered(offers: Callable[[Client, str], Offers]) -> Completion:
    """Return the completion by candidates of the server, given the incomplete word."""
    return lambda ctx, _parameter, incomplete: _ask(ctx, incomplete, lambda client: offers(client, incomplete))


def files_or_jobs(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete jobs, or files if no job matches."""
    from click.shell_completion import CompletionItem

    return jobs(ctx, parameter, incomplete) or [CompletionItem(incomplete, type="file")]


def _ask(ctx: click.Context, incomplete: str, offers: Callable[[Client], Offers]) -> Items:
    """Return matching candidates of the server; none if it does not answer."""
    from mainspring.cli.options import ConnectionOptions
    from mainspring.protocol.errors import MainspringError

    values = {name: ctx.params.get(name) for name in _CONNECTION_OPTIONS}
    try:
        with ConnectionOptions(**values).client(retry_timeout_seconds=0, timeout_seconds=_TIMEOUT_SECONDS) as client:
            return _matching(offers(client), incomplete)
    except (MainspringError, OSError):
        # Completion can't report errors; the command itself does.
        return []


def _matching(offers: Offers, incomplete: str) -> Items:
    from click.shell_completion import CompletionItem

    return [CompletionItem(value, help=about) for value, about in offers if value.startswith(incomplete)]


def _jobs(client: Client) -> Offers:
    return ((job.name, f"version {job.version}") for job in client.jobs(limit=_MAX_ITEMS))


def _schedules(client: Client) -> Offers:
    return ((schedule.name, schedule.trigger) for schedule in client.schedules(limit=_MAX_ITEMS))


def _workers(client: Client) -> Offers:
    return ((worker.id, worker.hold or worker.status) for worker in client.workers(limit=_MAX_ITEMS))


def _runs(client: Client) -> Offers:
    found = list(client.runs(limit=_MAX_ITEMS))
    if found:
        yield _LATEST, _about(found[0])
    yield from ((run.id, _about(run)) for run in found)


def _runs_or_tasks(client: Client, incomplete: str) -> Offers:
    return _tasks(client, incomplete) if "/" in incomplete or incomplete.startswith("task_") else _runs(client)


def _tasks(client: Client, incomplete: str) -> Iterator[tuple[str, str]]:
    from mainspring.cli.render.tables import format_task_name
    from mainspring.cli.resource_ids import find_run

    run, slash, _ = incomplete.partition("/")
    if slash:
        for task in client.tasks_of(find_run(client, run), limit=_MAX_ITEMS):
            yield f"{run}/{format_task_name(task)}", task.state
        return
    for task in client.tasks(limit=_MAX_ITEMS):
        yield task.id, f"{format_task_name(task)} {task.state}"


def _about(run: RunView) -> str:
    from mainspring.cli.render.output import format_ago
    from mainspring.protocol.clock import SystemClock

    return f"{run.state} {run.job}, {format_ago(run.created_at, SystemClock().wall())}"


def _everything(client: Client, incomplete: str) -> Offers:
    """Offer everything that `mainspring show` accepts."""
    if "/" in incomplete:
        return _tasks(client, incomplete)
    return [*_runs(client), *_jobs(client), *_schedules(client), *_workers(client)]


jobs = _offered(lambda client, _: _jobs(client))
schedules = _offered(lambda client, _: _schedules(client))
workers = _offered(lambda client, _: _workers(client))
runs = _offered(lambda client, _: _runs(client))
tasks = _offered(_tasks)
runs_or_tasks = _offered(_runs_or_tasks)
schedules_or_runs = _offered(lambda client, _: [*_schedules(client), *_runs(client)])
schedules_or_jobs = _offered(lambda client, _: [*_schedules(client), *_jobs(client)])
everything = _offered(_everything)
settings = _offered(lambda client, _: ((one.name, one.about) for one in client.settings()))
tenants = _offered(lambda client, _: ((one.name, one.title) for one in client.tenants(limit=_MAX_ITEMS)))
pools = _offered(lambda client, _: ((one.name, one.note) for one in client.pools(limit=_MAX_ITEMS)))
groups = _offered(lambda client, _: ((one.name, one.note) for one in client.groups(limit=_MAX_ITEMS)))
policies = _offered(lambda client, _: ((one.name, one.note) for one in client.policies(limit=_MAX_ITEMS)))
