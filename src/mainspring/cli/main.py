"""The root command: lazy imports and common error handling (`exits.py`).

A command's module is imported only when the command is called, which keeps `mainspring --help` under 0.3 s. Modules of
lists and actions import only click, `options` and `resource` at the top, and everything else inside functions, so that
their help and the completion of their options are as fast.

To add a command: write it in `commands/` (lists and actions with `resource`), add it to `_MODULES` and to a panel of
`_PANELS`, and add its arguments to tests/cli/calls.py.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from rich_click.rich_help_formatter import RichHelpFormatter

from mainspring.cli.exits import report_errors
from mainspring.cli.options import FORMATS, OUTPUT

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence
    from typing import Any

_MODULES = {
    "commands.admin.audit": ("audit",),
    "commands.admin.ca": ("ca",),
    "commands.admin.settings": ("settings",),
    "commands.admin.token": ("join-token", "token"),
    "commands.admin.webhooks": ("webhooks",),
    "commands.local.commands": ("commands", "version"),
    "commands.local.demo": ("demo",),
    "commands.local.openapi": ("openapi",),
    "commands.operations.alerts": ("alerts",),
    "commands.operations.doctor": ("doctor",),
    "commands.operations.simulate": ("simulate",),
    "commands.operations.smoke": ("smoke",),
    "commands.operations.workers": ("cordon", "drain", "evict", "uncordon", "workers"),
    "commands.pipelines.deploy": ("deploy",),
    "commands.pipelines.examples": ("example", "init", "schema"),
    "commands.pipelines.imports": ("import",),
    "commands.pipelines.plan": ("plan",),
    "commands.pipelines.scheduler": ("scheduler",),
    "commands.pipelines.validate": ("validate",),
    "commands.processes.server": ("server",),
    "commands.processes.up": ("up",),
    "commands.processes.worker": ("worker",),
    "commands.runs.actions": ("cancel", "clear", "extend", "kill", "pause", "promote", "rerun", "resume", "retry"),
    "commands.runs.artifacts": ("artifacts",),
    "commands.runs.jobs": ("durations", "history", "jobs"),
    "commands.runs.run": ("run",),
    "commands.runs.runs": ("dead-letters", "decisions", "graph", "logs", "runs", "show", "tasks"),
    "commands.runs.submit": ("submit",),
    "commands.runs.watch": ("watch",),
    "commands.runs.why": ("why",),
    "commands.schedules.events": ("events",),
    "commands.schedules.schedules": ("next", "schedules", "upcoming"),
    "commands.schedules.trigger": ("backfill", "trigger"),
    "commands.sharing.freezes": ("freeze", "freezes", "unfreeze"),
    "commands.sharing.groups": ("groups",),
    "commands.sharing.pools": ("policies", "pools"),
    "commands.sharing.queue": ("queue",),
    "commands.sharing.quota": ("quota",),
    "commands.sharing.tenants": ("tenants",),
    "commands.top.top": ("top",),
    "completion.completion": ("completion",),
    "config.config": ("config",),
    "config.context": ("context",),
}
"""Commands of each module."""
_COMMANDS = {name: module for module, names in _MODULES.items() for name in names}
_FUNCTIONS = {"dead-letters": "dead_letters", "join-token": "join_token", "next": "next_runs", "import": "imports"}
"""Functions that are not named like their command."""
_ALIASES = {"ls": "jobs", "list": "jobs", "dev": "up"}
"""Hidden aliases."""

_PANELS = {
    "Develop pipelines": ("init", "example", "validate", "plan", "import", "deploy"),
    "Run": ("demo", "up", "run", "submit", "trigger", "backfill", "watch", "logs", "top"),
    "Inspect": (
        "jobs", "runs", "tasks", "queue", "why", "show", "graph", "schedules", "next", "upcoming", "events", "alerts",
        "durations", "history", "decisions", "artifacts",
    ),
    "Manage runs": (
        "cancel", "retry", "rerun", "promote", "kill", "extend", "clear", "pause", "resume", "freeze", "unfreeze",
        "freezes", "dead-letters",
    ),
    "Operate Mainspring": (
        "server", "worker", "scheduler", "workers", "drain", "cordon", "evict", "uncordon", "token", "join-token", "ca",
        "settings", "webhooks", "audit", "doctor", "smoke", "simulate",
    ),
    "Share capacity": ("tenants", "quota", "groups", "pools", "policies"),
    "Configure this CLI": ("context", "config", "completion", "commands", "openapi", "schema", "version"),
}  # fmt: skip
"""Groups of commands in --help."""


class _HelpFormatter(RichHelpFormatter):
    """Formats help with a blank line between paragraphs and with indented examples."""

    def rich_text(self, text: Any, style: Any = "") -> Any:
        """Return styled text. The blank first line keeps a common indentation of the other lines."""
        return super().rich_text(f"\n{text}" if isinstance(text, str) else text, style)


click.RichContext.formatter_class = _HelpFormatter


class Commands(click.RichGroup):
    """A group that imports a command when it is called."""

    _is_listing = False

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the help without importing the commands, which would take 50 ms."""
        self._is_listing = True
        try:
            super().format_help(ctx, formatter)  # type: ignore[arg-type]  # rich_click makes its own kinds of both
        finally:
            self._is_listing = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, or None if there is none of this name."""
        name = _ALIASES.get(cmd_name, cmd_name)
        if name not in _COMMANDS:
            return None
        if self._is_listing and (summary := _summary_of(name)) is not None:
            return click.Command(name, help=summary)
        command: click.Command = getattr(import_module(f"mainspring.cli.{_COMMANDS[name]}"), _FUNCTIONS.get(name, name))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the command. Raises UsageError with a suggestion."""
        if not ctx.resilient_parsing and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from mainspring.core.text.suggestions import did_you_mean

            raise click.UsageError(f"there is no command `{args[0]}`{did_you_mean(args[0], _COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments."""
        output_format = _output_format(args)
        with report_errors(lambda: output_format):
            ctx = super().make_context(info_name, args, parent, **extra)
        ctx.meta[OUTPUT] = output_format
        return ctx

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Mainspring's errors become a message on stderr and an exit code, never a traceback."""
        with report_errors(lambda: ctx.meta[OUTPUT]):
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result

    def _main_shell_completion(
        self, ctx_args: MutableMapping[str, Any], prog_name: str, complete_var: str | None = None
    ) -> None:
        """Run shell completion if the shell requests it."""
        variable = complete_var or f"_{prog_name.replace('-', '_').replace('.', '_')}_COMPLETE".upper()
        if os.environ.get(variable):
            from mainspring.cli.completion.completion import add_shells

            add_shells()
            super()._main_shell_completion(ctx_args, prog_name, complete_var)


def _summary_of(name: str) -> str | None:
    """Return the first paragraph of a command's docstring, read from its source; None if there is no source."""
    source = Path(__file__).parent.joinpath(*_COMMANDS[name].split(".")).with_suffix(".py")
    function = _FUNCTIONS.get(name, name)
    try:
        text = source.read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(rf'^def {function}\(.*?^    """(.*?)(?:\n\n|""")', text, re.DOTALL | re.MULTILINE)
    return " ".join(found[1].split()) if found else None


def _output_format(args: Sequence[str]) -> str:
    """Return the requested output format, as far as it is visible before the arguments are parsed."""
    output_format = "table"
    for word, after in zip(args, [*args[1:], ""], strict=False):
        value = after if word in {"-o", "--output"} else word.removeprefix("--output=").removeprefix("-o")
        if word.startswith(("-o", "--output")) and value in FORMATS:
            output_format = value
    return output_format


@click.command(
    cls=Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "rich_help_config": {
            "text_paragraph_linebreaks": "\n\n",
            "padding_helptext_first_line": (0, 0, 1, 0),
            "command_groups": {
                "main": [{"name": name, "commands": list(commands)} for name, commands in _PANELS.items()]
            },
        },
    },
)
def main() -> None:
    """Mainspring, a durable job orchestrator."""


if __name__ == "__main__":
    main()
