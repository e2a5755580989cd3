"""A group of commands, including plugins from other distributions."""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points

import click

#: Command -> its distribution, for the error if it is not installed.
BROUGHT_BY = {
    "demo": "relay-lab",
    "simulate": "relay-lab",
    "drill": "relay-lab",
    "soak": "relay-lab",
    "bench": "relay-lab",
    "journal generate": "relay-lab",
    "audit": "pyspark-relay",
}


class CommandGroup(click.Group):
    """Imports each command only when it is used, to keep nodes small and fast to start.

    Commands come from `modules`, from decorators, and from entry points: group `relay.commands` for
    `relay`, `relay.commands.journal` for `relay journal`. An entry point's value is a
    `click.Command`.
    """

    def __init__(self, *args: object, modules: dict[str, str] | None = None, **attributes: object) -> None:
        """`modules` maps the name of a command to the module that defines it as `command`."""
        super().__init__(*args, **attributes)  # type: ignore[arg-type]  # click's own, passed through
        self._modules = modules or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names: built-in commands in the order of the table, then plugins."""
        return [*self._modules, *super().list_commands(ctx), *self._plugins(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or None, which click reports as unknown.

        Raises `click.UsageError` with installation advice for a command of a missing distribution.
        """
        if cmd_name in self._modules:
            command = importlib.import_module(self._modules[cmd_name]).command
        elif (plugin := self._plugins(ctx).get(cmd_name)) is not None:
            command = plugin.load()
        elif (whole := f"{_path(ctx)} {cmd_name}".strip()) in BROUGHT_BY and not ctx.resilient_parsing:
            distribution = BROUGHT_BY[whole]
            raise click.UsageError(
                f"the command comes with {distribution}, which is not installed: pip install {distribution}", ctx
            )
        else:
            return super().get_command(ctx, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def _plugins(self, ctx: click.Context) -> dict[str, EntryPoint]:
        group = ".".join(["relay.commands", *_path(ctx).split()])
        return {entry.name: entry for entry in sorted(entry_points(group=group), key=lambda entry: entry.name)}


def _path(ctx: click.Context) -> str:
    """Return the name of the group as typed, without `relay`; "" for `relay` itself."""
    return " ".join(ctx.command_path.split()[1:])
