"""`mainspring completion`: click's completion scripts for bash, zsh and fish, and our own for PowerShell."""

from __future__ import annotations

import os

import rich_click as click
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

SHELLS = ("bash", "zsh", "fish", "powershell")
_PROGRAMS = ("mainspring", "ms")
_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $env:%(complete_var)s = "powershell_complete"
    $env:COMP_WORDS = $commandAst.ToString()
    $env:COMP_WORD = $wordToComplete
    try {
        %(prog_name)s | ForEach-Object {
            $value, $about = $_ -split "`t", 2
            if (-not $about) { $about = $value }
            [System.Management.Automation.CompletionResult]::new($value, $value, "ParameterValue", $about)
        }
    } finally {
        Remove-Item Env:%(complete_var)s, Env:COMP_WORDS, Env:COMP_WORD -ErrorAction SilentlyContinue
    }
}
"""


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    Examples:
      eval "$(mainspring completion bash)"                       # in ~/.bashrc
      eval "$(mainspring completion zsh)"                        # in ~/.zshrc, after compinit
      mainspring completion fish | source                        # in ~/.config/fish/config.fish
      mainspring completion powershell | Out-String | iex        # in $PROFILE
    """
    for program in _PROGRAMS:
        click.echo(script(shell, program, ctx.find_root().command))


class PowerShellComplete(ShellComplete):
    """PowerShell completion: one line per candidate, with its help after a tab. PowerShell completes files itself."""

    name = "powershell"
    source_template = _POWERSHELL

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the preceding words and the incomplete one."""
        words = split_arg_string(os.environ["COMP_WORDS"])[1:]
        incomplete = os.environ.get("COMP_WORD", "")
        return (words[:-1] if incomplete and words else words), incomplete

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Format a candidate."""
        return f"{item.value}\t{item.help}" if item.help else item.value


def add_shells() -> None:
    """Register the shells that click does not support."""
    add_completion_class(PowerShellComplete)


def script(shell: str, program: str, cli: click.Command) -> str:
    """Return the completion script of a shell for `program`."""
    add_shells()
    kind = get_completion_class(shell)
    assert kind is not None, f"unknown shell {shell}"
    return kind(cli, {}, program, f"_{program.upper()}_COMPLETE").source()
