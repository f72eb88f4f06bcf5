"""Generate the page of commands."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Sequence

import rich_click as click

from mainspring.cli.commands.local.commands import walk
from mainspring.cli.main import main
from tools.markdown import code, table

_BEGINNING = """\
# Commands

The output of `mainspring COMMAND --help` for every command. [The command line](cli.md) describes what they have in
common: names, server selection, output formats, exit codes, and submitted files.
"""
_SHARED_BEGINNING = """\
## Common options

Commands with one of these options list it by name only.
"""
_EXAMPLES = "\b\nExamples:\n"
_SHARED_BY = 20
"""An option of this many commands is explained once."""

Option = tuple[str, str]
"""Syntax and description of an option."""


def commands_page() -> str:
    """Return the text of the page."""
    root = click.Context(main, info_name="mainspring")
    tree = dict(walk(root))
    counts = Counter(option for command in tree.values() for option in _options(command))
    shared = {option for option, count in counts.items() if count >= _SHARED_BY}
    lines = [_BEGINNING, _SHARED_BEGINNING, *table(["Option", ""], sorted(shared, key=_by_long_name))]
    for path, command in tree.items():
        lines += _section(path, command, shared)
    return "\n".join(lines)


def _section(path: str, command: click.Command, shared: set[Option]) -> Iterator[str]:
    """Return the lines about one command."""
    about, _, examples = inspect.cleandoc(command.help or "").partition(_EXAMPLES)
    yield f"## mainspring {path}"
    yield ""
    yield code(" ".join(["mainspring", path, *_usage(command)]))
    yield ""
    yield about.strip()
    yield ""
    own = [option for option in _options(command) if option not in shared]
    yield from table(["Option", ""], own)
    also = [_first_name(option) for option in _options(command) if option in shared]
    if also:
        yield f"Also {', '.join(also)}."
        yield ""
    yield "```"
    yield inspect.cleandoc(examples)
    yield "```"
    yield ""


def _usage(command: click.Command) -> Iterator[str]:
    """Return the usage after the command's name."""
    context = click.Context(command)
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            yield parameter.make_metavar(context)
    if isinstance(command, click.Group):
        yield "[VERB]"


def _options(command: click.Command) -> list[Option]:
    """Return the options of a command, in order."""
    context = click.Context(command)
    return [
        (_written(option, context), _explained(option))
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
    ]


def _written(option: click.Option, context: click.Context) -> str:
    """Format an option: its names, and the metavar after the long one."""
    names = [code(name) for name in sorted([*option.opts, *option.secondary_opts], key=len)]
    if not option.is_flag and not option.count:
        names[-1] = code(f"{names[-1].strip('`')} {_value(option, context)}")
    return ", ".join(names)


def _value(option: click.Option, context: click.Context) -> str:
    """Return the metavar of an option."""
    is_range = option.metavar is None and isinstance(option.type, click.IntRange | click.FloatRange)
    return "NUMBER" if is_range else option.make_metavar(context).strip("[]")


def _explained(option: click.Option) -> str:
    """Return the description and the default of an option."""
    words = option.help or ""
    if option.required:
        words += " Required."
    if option.multiple:
        words += " Repeatable."
    if isinstance(option.default, str | int | float) and not option.is_flag:
        words += f" Default: {code(str(option.default))}."
    return words


def _by_long_name(option: Sequence[str]) -> str:
    return option[0].partition("--")[2]


def _first_name(option: Option) -> str:
    return code(option[0].split("`")[1].split(" ")[0])
