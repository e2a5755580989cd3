"""`relay drill --on compose` with a real engine: one drill, and one that is interrupted; nothing is left of either."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.deploy.test_compose_up import missing
from tests.lab.test_demo import RELAY

PROJECT = Path(__file__).parent.parent.parent
#: Much longer than it takes, an image that has to be built included.
LIMIT_S = 540.0
PAUSE = """
name: pause
why: A member stands still when the run is given up, which an engine does not end by itself.
load: {rate: 50, seconds: 60}
method: [{do: pause, target: NYC.B}]
"""


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout


def left_behind(project: str) -> dict[str, list[str]]:
    """What there is of a project."""
    mine = ("--quiet", "--filter", f"label=com.docker.compose.project={project}")
    kinds = {"containers": ("ps", "--all"), "networks": ("network", "ls"), "volumes": ("volume", "ls")}
    return {kind: docker(*command, *mine).split() for kind, command in kinds.items()}


def project_in(directory: Path) -> str:
    """The name of the project whose file is in a directory; empty while there is none."""
    files = list(directory.glob("relay-drill-*/compose.json"))
    return str(json.loads(files[0].read_text())["name"]) if files and files[0].stat().st_size else ""


@pytest.fixture(scope="module", autouse=True)
def engine() -> None:
    if reason := missing():
        pytest.skip(reason)


@pytest.mark.slow
@pytest.mark.needs("a container engine with Compose")
@pytest.mark.conforms("USR-6")
def test_a_relay_that_is_killed_in_its_container_loses_nothing(tmp_path: Path) -> None:
    command = [*RELAY, "drill", "kill-relay", "--on", "compose", "--json", "--report", str(tmp_path / "report.html")]
    ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    result = json.loads(ran.stdout)
    assert (result["on"], result["verdict"]) == ("compose", "pass")
    assert (result["lost"], result["duplicated"], result["reordered"], result["gaps"]) == (0, 0, 0, 0)
    [run] = result["runs"]
    assert run["means"] == ["kill: SIGKILL to the container."]
    assert not any(run["queues"].values())
    assert "PASS" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_an_interrupted_run_leaves_no_container_network_or_volume(tmp_path: Path) -> None:
    (tmp_path / "pause.yaml").write_text(PAUSE)
    command = [*RELAY, "drill", str(tmp_path / "pause.yaml"), "--on", "compose"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as ran:
        deadline = time.monotonic() + LIMIT_S
        while not ((project := project_in(tmp_path)) and "(Paused)" in docker("ps", "--filter", f"name={project}")):
            assert ran.poll() is None, ran.stderr and ran.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.2)  # nothing tells when an engine has paused a container
        assert all(left_behind(project).values())
        ran.send_signal(signal.SIGINT)
        assert ran.wait(LIMIT_S) == 130
    assert left_behind(project) == {"containers": [], "networks": [], "volumes": []}
    assert [path.name for path in tmp_path.iterdir()] == ["pause.yaml"]
