"""The manual page and the completion come from the commands themselves, so that they are never behind them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from relay.cli import exits
from relay.cli.app import COMMANDS, relay
from relay.cli.completion import SHELLS
from relay.cli.man import ENVIRONMENT, page
from tests.relay.cli.conftest import Run

PROJECT = Path(__file__).parent.parent.parent.parent


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


def test_exit_codes_are_in_the_page_and_in_the_docs(manual: str) -> None:
    codes = {value for name, value in vars(exits).items() if name.startswith("EXIT_")}
    assert set(exits.MEANINGS) == codes
    table = dict(re.findall(r"^\| (\d+) \| (.*) \|$", (PROJECT / "docs" / "operations.md").read_text(encoding="utf-8"), re.M))
    for code, meaning in exits.MEANINGS.items():
        assert table[str(code)] == meaning
        assert f"\\fB{code}\\fR" in manual


def test_the_environment_is_what_the_code_reads() -> None:
    sources = "".join([path.read_text(encoding="utf-8") for path in (PROJECT / "relay" / "node").rglob("*.py")])
    assert all(f'"{variable}"' in sources for variable in ENVIRONMENT)


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


def test_what_is_said_of_the_codes_is_so(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_RUN_DIRECTORY", str(tmp_path))
    assert run("--version").code == exits.EXIT_DONE
    assert run("status").code == exits.EXIT_CHECK_FAILED
    assert run("stratus").code == exits.EXIT_USAGE
