"""Options of the long-running processes (`server`, `worker`, `up`). Sources in order of precedence:

    --log-limit 1Gi                       command line
    MAINSPRING_SERVER__LOG_LIMIT=1Gi      environment
    [server] log_limit = "1Gi"            project file; may use `${env:NAME}` and `${file:/path}`

Paths in the project file are relative to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import rich_click as click

from mainspring.cli.options import Call

if TYPE_CHECKING:
    from typing import Any

    from mainspring.cli.config.project_file import ProjectFile

T = TypeVar("T")

_SQLITE = "sqlite:///"
_COMMAND_LINE_ONLY = frozenset({"help", "context"})


class ProcessCommand(click.RichCommand):
    """A command whose options come from the command line, the environment and the project file."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for option in self._options():
            others = [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()
            option.envvar = [variable(self.name or "", option), *others]

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments, with defaults from the project file."""
        from mainspring.cli.config.project_file import find_project_file

        if not extra.get("resilient_parsing"):
            extra["default_map"] = self.options_from(find_project_file(), reveal=True)
        return super().make_context(info_name, args, parent, **extra)

    def options_from(self, project: ProjectFile | None, *, reveal: bool) -> dict[str, object]:
        """Return the options in the project file by parameter name; secret references are resolved if `reveal`."""
        if project is None:
            return {}
        options = {option_key(option): option for option in self._options()}
        configured = project.section(self.name or "", options)
        return {
            options[key].name or key: _resolved(options[key], value, project.path.parent, reveal=reveal)
            for key, value in configured.items()
        }

    def _options(self) -> Iterator[click.Option]:
        """Yield the options that can also be set in the environment and the project file."""
        return (
            option
            for option in self.params
            if isinstance(option, click.Option) and option.name not in _COMMAND_LINE_ONLY
        )


def quantity(parse: Callable[[str], T]) -> Callable[[click.Context, click.Parameter, str | None], T | None]:
    """Return the callback of an option parsed by a function that raises ValueError."""

    def callback(ctx: click.Context, parameter: click.Parameter, value: str | None) -> T | None:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, parameter) from error

    return callback


def with_log_options(command: Call) -> Call:
    """Add --log-format and --log-level to a server or worker."""
    text_or_json = click.option(
        "--log-format", envvar="MAINSPRING_LOG_FORMAT", type=click.Choice(["text", "json"]), default="text",
        show_default=True, help="Log format on stderr.",
    )  # fmt: skip
    return text_or_json(log_level_option("info", "Minimum log level.", "MAINSPRING_LOG_LEVEL")(command))


def log_level_option(default: str, about: str, variable: str | None = None) -> Callable[[Call], Call]:
    """Add --log-level."""
    levels = click.Choice(["debug", "info", "warning", "error"])
    return click.option("--log-level", envvar=variable, type=levels, default=default, show_default=True, help=about)


container_engine_option = click.option(
    "--container-engine", default="auto", show_default=True, metavar="COMMAND",
    help="Container engine, such as podman; auto finds docker or podman.",
)  # fmt: skip


def invoker_option(command: Call) -> Call:
    """Add --invoker to a command that runs pipelines in this process."""
    return click.option(
        "--invoker", metavar="INVOKER", callback=_invoker,
        help="LLM invoker: command:.., python:MODULE:FUNCTION, or a URL.",
    )(command)  # fmt: skip


def _invoker(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    from mainspring.core.work.invoker_options import parse_invoker
    from mainspring.protocol.errors import Refused

    try:
        if value:
            parse_invoker(value)
    except Refused as refused:
        why = [str(refused), *(f"{fault.where}: {fault.why}" for fault in refused.faults)]
        raise click.BadParameter("; ".join(why), ctx, parameter) from refused
    return value


def option_key(option: click.Option) -> str:
    """Return the key of an option in the project file: its long name, with _ for -."""
    return max(option.opts, key=len).lstrip("-").replace("-", "_")


def variable(command: str, option: click.Option) -> str:
    """Return the environment variable of an option."""
    return f"MAINSPRING_{command.upper()}__{option_key(option).upper()}"


def _resolved(option: click.Option, value: object, directory: Path, *, reveal: bool) -> object:
    """Resolve a value of the project file: secret references and relative paths. Raises Refused."""
    if isinstance(value, Mapping):
        return [f"{name}={content}" for name, content in value.items()]
    if isinstance(value, list):
        return [_resolved_one(option, one, directory, reveal=reveal) for one in value]
    if option.multiple:
        return [_resolved_one(option, value, directory, reveal=reveal)]
    return _resolved_one(option, value, directory, reveal=reveal)


def _resolved_one(option: click.Option, value: object, directory: Path, *, reveal: bool) -> object:
    if not isinstance(value, str):
        return value
    if reveal:
        from mainspring.cli.config.secret_references import expand

        value = expand(value)
    if isinstance(option.type, click.Path):
        return str(directory / value)
    if value.startswith(_SQLITE):
        return f"{_SQLITE}{directory / value.removeprefix(_SQLITE)}"
    return value
