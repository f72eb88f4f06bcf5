"""Every command with its arguments, options and help, and the columns of the tables that commands print."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

import rich_click as click

from mainspring.cli.commands.local.commands import walk
from mainspring.cli.main import _ALIASES, _PANELS, main
from tests.golden.catalogues import sources
from tests.golden.shapes import compact
from tests.house_rules.source import Source

_MANY = 10
"""An option that this many commands share is listed once."""


def commands_text() -> str:
    """One block for each command; shared options are listed once, at the beginning."""
    tree = {"": main, **{f" {path}": command for path, command in walk(click.Context(main, info_name="mainspring"))}}
    counts = Counter(text for command in tree.values() for text in _parameters(command).values())
    shared = {text for text, count in counts.items() if count >= _MANY}
    lines = ["== options of many commands", *(line for text in sorted(shared) for line in text.splitlines()), ""]
    lines += ["== other names", *(f"  {alias}: {name}" for alias, name in sorted(_ALIASES.items())), ""]
    lines += ["== groups of the help", *(f"  {title}: {', '.join(names)}" for title, names in _PANELS.items()), ""]
    for path, command in tree.items():
        lines += _block(path, command, shared)
    return "\n".join(lines)


def tables_text() -> str:
    """The columns of each table, * for those that only `-o wide` shows."""
    return "\n".join(sorted({line for source in sources() for line in _tables(source)})) + "\n"


def _block(path: str, command: click.Command, shared: AbstractSet[str]) -> Iterator[str]:
    yield f"== mainspring{path}"
    for line in inspect.cleandoc(command.help or "").replace("\b", "").splitlines():
        yield f"  | {line}".rstrip()
    if command.hidden:
        yield "  hidden"
    parameters = _parameters(command)
    for text in parameters.values():
        if text not in shared:
            yield from text.splitlines()
    also = [name for name, text in parameters.items() if text in shared]
    if also:
        yield f"  also {', '.join(also)}"
    yield ""


def _parameters(command: click.Command) -> dict[str, str]:
    """The lines about each parameter of a command, by its first name."""
    context = click.Context(command)
    found = {}
    for parameter in command.params:
        text = f"  {' '.join(_parameter(parameter, context))}"
        if isinstance(parameter, click.Option) and parameter.help:
            text += f"\n      {parameter.help}"
        found[max(parameter.opts, key=len)] = text
    return found


def _parameter(parameter: click.Parameter, context: click.Context) -> Iterator[str]:
    """The syntax, type and default of a parameter."""
    yield ", ".join([*parameter.opts, *parameter.secondary_opts])
    yield _type(parameter)
    if isinstance(parameter, click.Argument) or not getattr(parameter, "is_flag", False):
        yield f"shown as {parameter.make_metavar(context)}"
    if parameter.required:
        yield "required"
    if parameter.nargs != 1:
        yield f"nargs {parameter.nargs}"
    if getattr(parameter, "multiple", False):
        yield "multiple"
    if isinstance(parameter.default, str | int | float):
        yield f"default {compact(parameter.default)}"
    if parameter.envvar:
        yield f"from {parameter.envvar if isinstance(parameter.envvar, str) else ', '.join(parameter.envvar)}"
    if getattr(parameter, "hidden", False):
        yield "hidden"


def _type(parameter: click.Parameter) -> str:
    if getattr(parameter, "is_flag", False):
        return "flag"
    match parameter.type:
        case click.Choice(choices=choices):
            return f"one of {', '.join(map(str, choices))}"
        case click.IntRange(min=least, max=most) | click.FloatRange(min=least, max=most):
            return f"{parameter.type.name} {least} to {most}"
        case _:
            return parameter.type.name


def _tables(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and source.is_under("mainspring.cli"):
            columns = _columns(node)
            if columns:
                yield ", ".join(columns)


def _columns(call: ast.Call) -> list[str]:
    """The columns of a `Table.of(..)`."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="Table"), attr="of"), args=[_, shown], keywords=keywords):
            wide = [word for keyword in keywords if keyword.arg == "wide" for word in _words(keyword.value)]
            return [*_words(shown), *(f"{word}*" for word in wide)]
        case _:
            return []


def _words(text: ast.expr) -> list[str]:
    """The column names in a string, or in the constant parts of one."""
    found = (node.value for node in ast.walk(text) if isinstance(node, ast.Constant))
    return [word.partition("=")[0] for part in found for word in str(part).split()]
