"""The manual page and the completion come from the commands themselves, so that they are never behind them."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from relay.cli import exits, man
from relay.cli.app import COMMANDS, relay
from relay.cli.completion import SHELLS
from relay.cli.man import page
from tests.relay.cli.conftest import Run

PROJECT = Path(__file__).parent.parent.parent.parent
PACKAGES = ("relay", "sitestack", "pyspark_relay")


@pytest.fixture(scope="module")
def manual() -> str:
    return "\n".join(page(relay, click.Context(relay, info_name="relay")))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_section_with_all_options(manual: str, command: str) -> None:
    found = relay.get_command(click.Context(relay), command)
    assert found is not None
    inner = found.commands.values() if isinstance(found, click.Group) else [found]
    for each in inner:
        options = [option for parameter in each.params if isinstance(parameter, click.Option) for option in parameter.opts]
        assert all(option.replace("-", "\\-") in manual for option in options if not option.startswith("_"))
    assert f'.SS "relay {command}' in manual


def test_a_formatter_finds_nothing_wrong_with_it(manual: str) -> None:
    groff = shutil.which("groff") or shutil.which("mandoc")
    if groff is None:
        pytest.skip("neither groff nor mandoc to read the page with")
    command = [groff, "-man", "-Tutf8", "-ww"] if groff.endswith("groff") else [groff, "-Tlint"]
    result = subprocess.run(command, input=manual, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_no_line_begins_with_a_request_that_is_none(manual: str) -> None:
    requests = {line.split()[0] for line in manual.splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".SS", ".PP", ".TP"}


def test_exit_codes_are_in_the_page(manual: str) -> None:
    assert all(f"\\fB{code}\\fR" in manual for code in exits.MEANINGS)


def test_the_environment_is_what_the_code_reads(manual: str) -> None:
    sources = [path for folder in PACKAGES for path in (PROJECT / folder).rglob("*.py") if path != Path(man.__file__)]
    read = {name for path in sources for name in variables(path.read_text(encoding="utf-8"))}
    assert set(man.ENVIRONMENT) == read
    assert all(f"\\fB{name}\\fR" in manual for name in read)


def variables(source: str) -> set[str]:
    """The environment variables of ours that a module reads: strings of their own in its code, which sentences are not."""
    strings = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    return {text for text in strings if isinstance(text, str) and re.fullmatch(r"RELAY_[A-Z_]+", text)}


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_its_script(run: Run, shell: str) -> None:
    code, out, err = run("completion", shell)
    assert (code, err) == (0, "")
    assert "_RELAY_COMPLETE" in out


@pytest.mark.parametrize(("words", "completed"), [("relay sta", "status"), ("relay status --wa", "--watch")])
def test_a_shell_that_asks_is_told_what_is_possible(words: str, completed: str) -> None:
    asked = {"_RELAY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    result = subprocess.run([sys.executable, "-m", "relay"], env={**os.environ, **asked}, capture_output=True, text=True)
    assert completed in result.stdout
