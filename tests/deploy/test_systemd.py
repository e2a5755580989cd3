"""The systemd unit is valid for systemd, and starts a node with existing options."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from relay.cli.exits import EXIT_USAGE
from relay.cli.node import command

UNIT = Path(__file__).parent.parent.parent / "deploy" / "systemd" / "relay@.service"


def setting(name: str) -> str:
    [value] = [line.partition("=")[2] for line in UNIT.read_text(encoding="utf-8").splitlines() if line.startswith(f"{name}=")]
    return value


def test_systemd_understands_it(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze to read the unit with")
    here = tmp_path / "relay@A.service"
    here.write_text(UNIT.read_text(encoding="utf-8").replace("/usr/bin/relay", "/bin/true"), encoding="utf-8")
    result = subprocess.run([analyze, "verify", here], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_it_starts_a_node_by_options_that_there_are() -> None:
    _, verb, _, *options = setting("ExecStart").split()
    assert verb == "node"
    result = CliRunner().invoke(command, ["nowhere.yaml", *options])
    assert "no such option" not in result.output.lower()


def test_wrong_configuration_is_not_tried_again() -> None:
    assert setting("RestartPreventExitStatus") == str(EXIT_USAGE)
    assert setting("ExecReload").endswith("-HUP $MAINPID")
