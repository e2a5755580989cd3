"""Relay's command lines inside other commands, and whether the commands accept them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from relay.cli.app import relay

_OURS = ("relay", ".venv/bin/relay")
_OPERATOR = re.compile(r"[()<>|&;]+")
#: After these words a command begins.
_BEFORE = ("do", "then", "{", "--")


def ours(command: str) -> Iterator[list[str]]:
    """The arguments of each `relay` that a shell would run here, or have run by `docker compose exec` and the like."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    begun: list[str] = []
    for word in [*lexer, ";"]:
        if not _OPERATOR.fullmatch(word):
            begun.append(word)
            continue
        for at, each in enumerate(begun):
            if each in _OURS and (at == 0 or "=" in begun[at - 1] or begun[at - 1] in _BEFORE or "exec" in begun[:at]):
                yield begun[at + 1 :]
                break
        begun = []


def names_only(command: str) -> bool:
    """Whether it is the name of a command of ours and no more, as in a sentence about that command."""
    if not command.startswith("relay "):
        return False
    try:
        _, _, rest = _find(shlex.split(command)[1:])
    except click.UsageError:
        return False
    return not rest


def fault(arguments: list[str]) -> str:
    """Return why `relay` refuses these arguments; empty when it accepts them for some values, or they name a
    command.
    """
    try:
        context, command, rest = _find(arguments)
        if not rest:
            return ""
        given, surplus, _ = command.make_parser(context).parse_args([*rest])
    except click.UsageError as error:
        return error.format_message()
    missing = [each.name for each in command.get_params(context) if each.required and not given.get(str(each.name))]
    return f"{context.command_path}: {missing or surplus}" if missing or surplus else ""


def _find(arguments: list[str]) -> tuple[click.Context, click.Command, list[str]]:
    """The innermost command that is named, and what follows its name. Raises UsageError when there is no such command."""
    rest = [*arguments]
    command: click.Command = relay
    context = click.Context(command, info_name="relay")
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        inner = command.get_command(context, rest[0])
        if inner is None:
            raise click.UsageError(f"there is no {context.command_path} {rest[0]}")
        command, context = inner, click.Context(inner, parent=context, info_name=rest.pop(0))
    return context, command, rest
