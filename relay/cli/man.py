"""`relay man`: the manual page, made out of the same commands, options and help texts as `--help`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version

import click

from relay.cli.exits import MEANINGS

#: Environment variables, with what they are for.
ENVIRONMENT = {
    "RELAY_SITE": "The site, in place of site in the configuration.",
    "RELAY_NAME": "The member's name, in place of name in the configuration.",
    "RELAY_KEYS": "The directory with the site's keys, in place of security.keys.",
    "RELAY_PEERS": "The other sites, in place of relay.bridge.peers: SITE=host:port, any number of times.",
    "RELAY_ROUTERS": "The gossip routers, in place of discovery.routers: host:port, any number of times.",
    "RELAY_RUN_DIRECTORY": "Where the status sockets are.",
    "RELAY_JGROUPS_JAR": "The jars for relay bench --peer jgroups or jgroups5, in place of --jgroups-jar; a colon between two.",
}


@click.command(name="man")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Print the manual page.

    To read it: relay man | man -l -. To install it: relay man >/usr/local/share/man/man1/relay.1
    """
    root = ctx.find_root()
    for line in page(root.command, root):
        click.echo(line)


def page(root: click.Command, ctx: click.Context) -> Iterator[str]:
    """The lines of the page, in the language of man(7)."""
    yield f'.TH RELAY 1 "" "relay {version("sitestack")}"'
    yield from (".SH NAME", f"relay \\- {_text(_help(root)[0])}")
    yield from (".SH SYNOPSIS", "\\fBrelay\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]", ".SH COMMANDS")
    for name, each in _commands(root, ctx, "relay"):
        yield from _section(name, each, ctx)
    yield from (".SH EXIT STATUS",)
    for code, meaning in MEANINGS.items():
        yield from (".TP", f"\\fB{code}\\fR", _text(meaning))
    yield ".SH ENVIRONMENT"
    for variable, meaning in ENVIRONMENT.items():
        yield from (".TP", f"\\fB{_text(variable)}\\fR", _text(meaning))


def _commands(group: click.Command, ctx: click.Context, path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that can be run, with its whole name."""
    if not isinstance(group, click.Group):
        yield path, group
        return
    for name in group.list_commands(ctx):
        each = group.get_command(ctx, name)
        if each is not None and not each.hidden:
            yield from _commands(each, ctx, f"{path} {name}")


def _section(name: str, each: click.Command, ctx: click.Context) -> Iterator[str]:
    own = click.Context(each, info_name=name.removeprefix("relay "), parent=ctx)
    yield f'.SS "{_text(name)} {_text(" ".join(each.collect_usage_pieces(own)))}"'
    first, *others = _help(each)
    yield _text(first)
    for paragraph in others:
        yield from (".PP", _text(paragraph))
    for parameter in each.get_params(own):
        told = parameter.get_help_record(own)
        if told is not None:
            option, meaning = told
            yield from (".TP", f"\\fB{_text(option)}\\fR", _text(" ".join(meaning.split())) or "\\&")


def _help(each: click.Command) -> list[str]:
    paragraphs = (each.help or each.name or "").replace("\b", "").split("\n\n")
    return [" ".join(paragraph.split()) for paragraph in paragraphs]


def _text(text: str) -> str:
    """Text as roff takes it: nothing in it is a request, an escape, or a hyphen that would be broken or drawn otherwise."""
    text = re.sub(r"\{.*?\}", lambda choice: choice[0].replace("|", " | "), text)  # a long choice has to fit into lines
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return re.sub(r"^([.'])", r"\\&\1", escaped)
