"""`relay completion`: the script by which a shell completes commands and options, made by click."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

#: The shells that click knows.
SHELLS = ("bash", "zsh", "fish")


@click.command(name="completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands and options.

    For bash put `eval "$(relay completion bash)"` into ~/.bashrc, for zsh likewise into ~/.zshrc; for fish write it to
    ~/.config/fish/completions/relay.fish.
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows these shells"
    root = ctx.find_root()
    click.echo(found(root.command, {}, "relay", "_RELAY_COMPLETE").source())
