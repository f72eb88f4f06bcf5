"""The script by which a shell asks for completions: click's own for bash, zsh and fish, and ours for PowerShell."""

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


class PowerShellComplete(ShellComplete):
    """PowerShell: a line for each offer, its explanation behind a tab. Files are PowerShell's own business."""

    name = "powershell"
    source_template = _POWERSHELL

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is typed, and that one."""
        words = split_arg_string(os.environ["COMP_WORDS"])[1:]
        incomplete = os.environ.get("COMP_WORD", "")
        return (words[:-1] if incomplete and words else words), incomplete

    def format_completion(self, item: CompletionItem[str]) -> str:
        """One offer."""
        return f"{item.value}\t{item.help}" if item.help else item.value


def add_shells() -> None:
    """Make the shells known that click does not know."""
    add_completion_class(PowerShellComplete)


def script(shell: str, program: str, cli: click.Command) -> str:
    """What a shell has to run so that it completes `program`."""
    add_shells()
    kind = get_completion_class(shell)
    assert kind is not None, f"{shell} is none of the shells that can be asked for"
    return kind(cli, {}, program, f"_{program.upper()}_COMPLETE").source()
