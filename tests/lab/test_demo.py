"""The demo: real processes, real multicast, a real bridge; and no process is left, whatever happens."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay_lab.cli.demo import default_text, read_lines
from sitestack.model.errors import ConfigurationError
from tests.harness.command_line import Run
from tests.lab.drills.test_tether import assert_gone, is_running, with_children

#: Much longer than any of it takes, for slow machines.
LIMIT_S = 120.0
RELAY = (sys.executable, "-m", "relay")


def demo(*options: str | Path) -> dict[str, Any]:
    """The result of a demo that passes."""
    ran = subprocess.run([*RELAY, "demo", "--json", *options], capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    return dict(json.loads(ran.stdout))


@pytest.mark.long
@pytest.mark.parametrize("discovery", ["multicast", "hosts", "ipv6"])
def test_a_file_arrives_at_both_sites_whole_and_in_order(run: Run, tmp_path: Path, discovery: str) -> None:
    text = tmp_path / "text"
    text.write_text("".join(f"line {number}\n" for number in range(60)))
    options = f"--kill none --rate 100 --members 2 --discovery {discovery}".split()
    result = demo(*options, "--input", text, "--journal", tmp_path / "journal")
    assert result["sites"] == {"NYC": ["A", "B"], "SFO": ["C", "D"]}
    assert result["sent"] == 120
    assert result["delivered"] == dict.fromkeys("ABCD", 120)
    assert (result["lost"], result["duplicated"], result["reordered"], result["gaps"]) == (0, 0, 0, 0)
    assert result["failover_s"] is None
    for hashes in result["order_hash"].values():
        assert len(set(hashes.values())) == 1
    assert result["verdict"] == "pass"
    assert run("check", tmp_path / "journal").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("discovery", ["multicast", "ipv6"])
def test_killing_the_relay_half_way_loses_nothing(discovery: str) -> None:
    result = demo("--discovery", discovery)
    assert result["delivered"]["A"] < result["sent"]
    assert {result["delivered"][name] for name in "BCDEF"} == {result["sent"]}
    assert (result["lost"], result["duplicated"], result["reordered"], result["gaps"]) == (0, 0, 0, 0)
    assert 0 < result["failover_s"] < 30


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with with_children([*RELAY, "demo"], tmp_path) as (process, children):
        process.send_signal(number)
        assert process.wait(LIMIT_S) == 130
    assert not any(map(is_running, children))
    assert list(tmp_path.iterdir()) == []


def test_the_members_of_a_killed_demo_are_killed(tmp_path: Path) -> None:
    with with_children([*RELAY, "demo"], tmp_path) as (process, members):
        process.kill()
        assert_gone(members)


def test_the_default_text_is_a_real_one() -> None:
    assert b"Apache License" in default_text()
    assert len(read_lines(None)) > 100


@pytest.mark.parametrize(("text", "lines"), [(b"a\nb\n", [b"a", b"b"]), (b"a\n\nb", [b"a", b"", b"b"]), (b"\n", [b""])])
def test_the_lines_of_a_file_are_published(tmp_path: Path, text: bytes, lines: list[bytes]) -> None:
    (tmp_path / "text").write_bytes(text)
    assert read_lines(tmp_path / "text") == lines


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").touch()
    with pytest.raises(ConfigurationError, match="holds no line"):
        read_lines(tmp_path / "text")
