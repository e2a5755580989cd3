"""Commands in the sentences of the pages: each of ours is a command that there is, with options that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from relay.cli.app import relay

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "k8s" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def fault(text: str) -> str:
    """What is wrong with a command line of ours; nothing when it can be given, whatever its arguments are."""
    name, found, arguments = "relay", relay, shlex.split(text)[1:]
    command: click.Command = found
    context = click.Context(command, info_name=name)
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        inner = command.get_command(context, arguments[0])
        if inner is None:
            return f"there is no {name} {arguments[0]}"
        name, command = f"{name} {arguments.pop(0)}", inner
        context = click.Context(inner, parent=context, info_name=name)
    known = {each for parameter in command.get_params(context) for each in (*parameter.opts, *parameter.secondary_opts)}
    given = [word.split("=")[0] for word in arguments if word.startswith("-") and len(word) > 1]
    return "; ".join(f"{name} has no {option}" for option in given if option not in known)


def spans_of(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`(relay [^`\n]+)`", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_in_sentences_can_be_given(page: Path) -> None:
    assert {span: what for span in spans_of(page) if (what := fault(span))} == {}


def test_they_are_found() -> None:
    assert sum(len(spans_of(page)) for page in PAGES) > 100


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("relay frobnicate", "there is no relay frobnicate"),
        ("relay site away SFO", "there is no relay site away"),
        ("relay status --colour", "relay status has no --colour"),
        ("relay drill NAME --repeat 3 --json", ""),
        ("relay --version", ""),
    ],
)
def test_a_command_that_there_is_not_is_noticed(text: str, told: str) -> None:
    assert fault(text) == told
