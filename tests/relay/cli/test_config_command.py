"""`relay config`: check a file, print the reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.node.config.config_reference import reference
from tests.harness.command_line import Run

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"


@pytest.mark.parametrize(("file", "other"), [("nyc", "SFO"), ("sfo", "NYC")])
def test_a_sound_file_is_said_to_be_so_with_what_it_amounts_to(run: Run, file: str, other: str) -> None:
    path = EXAMPLES / f"{file}.yaml"
    assert run("config", "check", path) == (0, f"{path}: sound. Site {file.upper()}, linked to {other}.\n", "")


def test_each_problem_is_one_sentence_and_the_exit_code_is_2(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "nyc.yaml"
    file.write_text("site: NYC\nnmae: A\nrelay: {link: {timeout_s: 1}}\n")
    code, out, err = run("config", "check", file)
    assert (code, out) == (2, "")
    assert [line.removeprefix(f"{file}: ") for line in err.splitlines()] == [
        "nmae: unknown key; did you mean name?",
        "relay.link.timeout_s: must be at least twice relay.link.heartbeat_s, or one lost heartbeat cuts the link.",
    ]


def test_what_a_file_leaves_to_the_command_line_and_the_environment_is_taken_from_there(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "any.yaml"
    file.write_text("{}")
    assert run("config", "check", file) == (2, "", f"{file}: site: the site has no name.\n")
    assert run("config", "check", file, "--site", "LON").out == f"{file}: sound. Site LON, linked to no other site.\n"
    monkeypatch.setenv("RELAY_SITE", "NYC")
    monkeypatch.setenv("RELAY_PEERS", "SFO=bridge.sfo")
    code, _, err = run("config", "check", file)
    assert (code, err) == (2, f"{file}: RELAY_PEERS.peers.SFO[0]: must be host:port, not 'bridge.sfo'.\n")
    assert run("config", "check", file, "--name", "x" * 129).code == 2


def test_no_file_is_one_sentence_too(run: Run) -> None:
    assert run("config", "check", "/nowhere.yaml") == (2, "", "/nowhere.yaml: cannot be read (No such file or directory).\n")


def test_the_reference_is_printed(run: Run) -> None:
    assert run("config", "reference") == (0, reference(), "")
