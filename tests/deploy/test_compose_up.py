"""One compose command gives two data centres of three members, with and without multicast. Needs a container engine."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from relay_lab.drills.tether import afterwards

PROJECT = Path(__file__).parent.parent.parent
SITES = {"NYC": ("nyc-a", "nyc-b", "nyc-c"), "SFO": ("sfo-d", "sfo-e", "sfo-f")}
NAMES = {"NYC": ["A", "B", "C"], "SFO": ["D", "E", "F"]}
#: How long the image and the start of the members may take, and anything after it, on a slow machine.
BUILT_S, LIMIT_S = 600, 120.0

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
        service.pop("ports", None)
        if service["image"] == "relay":
            service["image"] += "-test"
        if "build" in service:
            service["build"]["context"] = str(PROJECT)
    (directory / "compose").mkdir()
    for site in SITES:
        name = f"compose/{site.lower()}.yaml"
        config = yaml.safe_load((PROJECT / name).read_text(encoding="utf-8").replace("198.18.10", "198.18.23"))
        if not multicast:
            project["networks"][site.lower()]["internal"] = True
            config["transport"] |= {"multicast": False, "port": 7601}
            config["discovery"] = {"dns": f"{site.lower()}-members:7601"}
        (directory / name).write_text(yaml.safe_dump(config), encoding="utf-8")
    file = directory / "compose.yaml"
    file.write_text(yaml.safe_dump(project), encoding="utf-8")
    return file


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the two data centres, told whether with multicast, and gives what runs further compose commands on them.

    They are removed also when this process is killed.
    """
    if reason := missing():
        pytest.skip(reason)
    file = tmp_path / "compose.yaml"
    whole = ["docker", "compose", "--project-name", f"relay-test-{uuid.uuid4().hex[:8]}", "--file", str(file)]
    remove = ["down", "--volumes", "--remove-orphans", "--timeout", "1"]

    def compose(*arguments: str) -> str:
        result = subprocess.run([*whole, *arguments], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def begin(multicast: bool) -> Compose:
        write_project(tmp_path, multicast=multicast)
        compose("up", "--build", "--wait", "--wait-timeout", str(BUILT_S))
        return compose

    with subprocess.Popen(afterwards([*whole, *remove]), stdin=subprocess.PIPE, start_new_session=True) as sweeper:
        try:
            yield begin
        finally:
            if file.exists():
                compose(*remove)
            sweeper.communicate(b"\n")


def until(done: Callable[[], bool]) -> None:
    """Wait for something that happens in containers."""
    ends = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < ends
        time.sleep(0.5)


def node(compose: Compose, member: str) -> dict[str, Any]:
    """What a member says of itself."""
    [status] = json.loads(compose("exec", "--no-TTY", member, "relay", "status", "--json"))["nodes"]
    return dict(status)


def seen(compose: Compose, member: str) -> dict[str, list[str]]:
    view = node(compose, member)["global_view"] or {"sites": {}}
    return {where: sorted(names) for where, names in view["sites"].items()}


@pytest.mark.slow
@pytest.mark.needs("a container engine with Compose")
@pytest.mark.conforms("USR-4")
@pytest.mark.parametrize("multicast", [True, False], ids=["multicast", "copies"])
def test_one_command_starts_two_data_centres_whose_members_see_all_six(start: Start, multicast: bool) -> None:
    compose = start(multicast)
    for site, members in SITES.items():
        for member, name in zip(members, NAMES[site], strict=True):
            until(lambda member=member: seen(compose, member) == NAMES)  # type: ignore[misc]
            status = node(compose, member)
            assert (status["site"], status["name"]) == (site, name)
            until(lambda member=member: node(compose, member)["messages"]["delivered"].keys() == NAMES.keys())  # type: ignore[misc]
            assert node(compose, member)["messages"]["gaps"] == 0
            there = compose("exec", "--no-TTY", member, "ls", "/etc/relay/keys").split()
            assert {"site.keys", "bridge.key"} <= set(there)
            assert not {"authority.key", *SITES} & set(there), "only what its site needs"


@pytest.mark.slow
def test_members_stay_healthy_without_the_others_one_is_added_and_a_replaced_configuration_is_taken(
    start: Start, tmp_path: Path
) -> None:
    compose = start(True)
    until(lambda: seen(compose, "sfo-d") == NAMES)
    compose("kill", "nyc-a")
    name = f"relay-test-{uuid.uuid4().hex[:8]}"
    compose("run", "--detach", "--rm", "--name", name, "--env", "RELAY_NAME=G", "nyc-b")
    until(lambda: seen(compose, "sfo-d") == {"NYC": ["B", "C", "G"], "SFO": ["D", "E", "F"]})
    config = tmp_path / "compose" / "nyc.yaml"
    replacement = tmp_path / "compose" / "replacement"
    replacement.write_text(f"{config.read_text()}\nlog: {{level: debug}}\n")
    replacement.rename(config)
    for _ in range(2):
        compose("kill", "--signal", "HUP", "nyc-c")
    until(lambda: "configuration unchanged" in compose("logs", "nyc-c"))
    assert "log.level" in compose("logs", "nyc-c")
    states = [json.loads(line) for line in compose("ps", "--format", "json").splitlines()]
    assert {
        each["Service"]: each["Health"] for each in states if each["Service"].startswith(("nyc-", "sfo-"))
    } == dict.fromkeys(("nyc-b", "nyc-c", "sfo-d", "sfo-e", "sfo-f"), "healthy")
