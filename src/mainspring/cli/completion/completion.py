"""`mainspring completion`: shell completion scripts."""

from __future__ import annotations

import rich_click as click

SHELLS = ("bash", "zsh", "fish", "powershell")
_PROGRAMS = ("mainspring", "ms")


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
    from mainspring.cli.completion.shells import script

    for program in _PROGRAMS:
        click.echo(script(shell, program, ctx.find_root().command))
