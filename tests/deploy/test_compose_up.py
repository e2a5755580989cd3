"""One compose command gives two data centres of three members, with and without multicast. Needs a container engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parent.parent.parent
SITES = {"NYC": ("nyc-a", "nyc-b", "nyc-c"), "SFO": ("sfo-d", "sfo-e", "sfo-f")}
NAMES = {"NYC": ["A", "B", "C"], "SFO": ["D", "E", "F"]}
#: How long the members may take, from the start of their processes.
HEALTHY_S = 30

Compose = Callable[..., str]
Start = Callable[[bool], Compose]


def missing() -> str:
    """Why no container can be run here; empty when they can."""
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "version"], capture_output=True).returncode:
        return "no container engine is running here: compose was not tried"
    if subprocess.run([docker, "compose", "version"], capture_output=True).returncode:
        return "the container engine has no Compose: it was not tried"
    base = "python:3.11-slim"
    if all(subprocess.run([docker, *how, base], capture_output=True).returncode for how in (["image", "inspect"], ["pull"])):
        return f"{base} cannot be had here: compose was not tried"
    return ""


def write_project(directory: Path, *, multicast: bool) -> Path:
    """The compose file as it stands, but for the numbers of its networks and the tag of its image, so that it can run beside
    another one. Without multicast: on networks that carry none, members send copies, and find each other by a name."""
    text = (PROJECT / "docker-compose.yml").read_text(encoding="utf-8").replace("198.18.10", "198.18.23")
    project: dict[str, Any] = yaml.safe_load(text)
    for service in project["services"].values():
        if "build" in service:
            service["build"]["context"] = str(PROJECT)
            service["image"] += "-test"
    for site in SITES:
        source = project["configs"][site.lower()]
        config = yaml.safe_load((PROJECT / source["file"]).read_text(encoding="utf-8").replace("198.18.10", "198.18.23"))
        if not multicast:
            project["networks"][site.lower()]["internal"] = True
            config["transport"] |= {"multicast": False, "port": 7601}
            config["discovery"] = {"dns": f"{site.lower()}-members:7601"}
        source["file"] = f"{site}.yaml"
        (directory / source["file"]).write_text(yaml.safe_dump(config), encoding="utf-8")
    project["configs"]["prometheus"]["file"] = str(PROJECT / "compose" / "prometheus.yml")
    file = directory / "compose.yaml"
    file.write_text(yaml.safe_dump(project), encoding="utf-8")
    return file


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the two data centres, with or without multicast, and returns a runner of further compose commands."""
    if reason := missing():
        pytest.skip(reason)
    environment = os.environ | {"COMPOSE_PROJECT_NAME": f"relay-test-{uuid.uuid4().hex[:8]}"}
    file = tmp_path / "compose.yaml"

    def compose(*arguments: str) -> str:
        command = ["docker", "compose", "--file", str(file), *arguments]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def begin(multicast: bool) -> Compose:
        write_project(tmp_path, multicast=multicast)
        compose("build", "nyc-a")
        compose("up", "--wait", "--wait-timeout", str(HEALTHY_S))
        return compose

    try:
        yield begin
    finally:
        if file.exists():
            compose("down", "--volumes", "--timeout", "1")


@pytest.mark.slow
@pytest.mark.needs("a container engine with Compose")
@pytest.mark.conforms("USR-4")
@pytest.mark.parametrize("multicast", [True, False], ids=["multicast", "copies"])
def test_one_command_gives_two_data_centres_in_which_everybody_sees_all_six(start: Start, multicast: bool) -> None:
    compose = start(multicast)
    for site, members in SITES.items():
        for member, name in zip(members, NAMES[site], strict=True):
            [node] = json.loads(compose("exec", "--no-TTY", member, "relay", "status", "--json"))["nodes"]
            assert (node["site"], node["name"]) == (site, name)
            assert {where: sorted(names) for where, names in node["global_view"]["sites"].items()} == NAMES
            assert node["messages"]["delivered"].keys() == NAMES.keys(), "the load generator's lines reach both"
            assert node["messages"]["gaps"] == 0
