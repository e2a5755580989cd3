"""The Dockerfile: every builder understands it, and what it makes needs neither root nor a file system to write to."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.structure.policy import PACKAGES

PROJECT = Path(__file__).parent.parent.parent
DOCKERFILE = (PROJECT / "Dockerfile").read_text(encoding="utf-8")


def instructions(stage: str) -> list[tuple[str, str]]:
    """(instruction, argument) of a stage, its FROM included, with continued lines joined and comments left out."""
    lines = [line for line in DOCKERFILE.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]
    starts = [place for place, (word, _) in enumerate(found) if word == "FROM"] + [len(found)]
    for start, end in pairwise(starts):
        if found[start][1].endswith(f" AS {stage}"):
            return found[start:end]
    raise AssertionError(f"there is no stage {stage}")


def argument(stage: str, word: str) -> str:
    """That of the only such instruction in a stage."""
    [only] = [rest for each, rest in instructions(stage) if each == word]
    return only


def test_the_linter_has_nothing_to_say() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    result = subprocess.run(
        [hadolint, "--failure-threshold", "style", "Dockerfile"], cwd=PROJECT, capture_output=True, text=True
    )
    assert (result.stdout, result.returncode) == ("", 0)


def test_a_builder_without_extensions_understands_it() -> None:
    assert not re.search(r"(?im)^#\s*syntax\s*=", DOCKERFILE)
    assert "--mount" not in DOCKERFILE
    assert "<<" not in DOCKERFILE


@pytest.mark.parametrize("stage", ["build", "build-analytics"])
def test_everything_is_installed_from_a_lock_file(stage: str) -> None:
    commands = [command for word, rest in instructions(stage) if word == "RUN" for command in rest.split("&&")]
    installs = [command for command in commands if " install " in command]
    assert installs
    assert all("--require-hashes" in each or "--no-deps" in each for each in installs)


def test_the_image_holds_what_was_built_and_not_what_builds() -> None:
    [copied] = [rest for word, rest in instructions("relay") if word == "COPY"]
    assert copied.startswith("--from=build ")
    assert not any("pip" in rest for word, rest in instructions("relay") if word == "RUN")


@pytest.mark.parametrize("stage", ["relay", "analytics"])
def test_nobody_runs_as_root(stage: str) -> None:
    users = [rest for word, rest in instructions(stage) if word == "USER"]
    uid, _, gid = users[-1].partition(":")
    assert int(uid) >= 10_000
    assert int(gid) >= 10_000


def test_a_stop_is_a_graceful_leave_and_health_is_readiness() -> None:
    assert argument("relay", "STOPSIGNAL") == "SIGTERM"
    _, _, command = argument("relay", "HEALTHCHECK").partition("CMD ")
    assert json.loads(command) == ["python", "-m", "relay.node.http.probe", "http://127.0.0.1:7800/readyz"]
    # Without a shell in between, which would keep the signal to itself.
    assert json.loads(argument("relay", "ENTRYPOINT")) == ["relay"]
    assert json.loads(argument("relay", "CMD"))[-2:] == ["--http", "7800"]


def test_nothing_gets_into_the_image_unasked() -> None:
    ignored = (PROJECT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*"
    copied = {word for each, rest in instructions("build") if each == "COPY" for word in rest.split()[:-1]}
    allowed = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert all(any(Path(each).match(pattern) for pattern in allowed) for each in copied)
    assert set(PACKAGES) <= copied


@pytest.mark.slow
def test_the_image_runs_without_rights_and_without_a_file_system_to_write_to() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "version"], capture_output=True).returncode:
        pytest.skip("no container engine is running here: the image was not built")
    base = instructions("relay")[0][1].split(" ")[0]
    if all(subprocess.run([docker, *how, base], capture_output=True).returncode for how in (["image", "inspect"], ["pull"])):
        pytest.skip(f"{base} cannot be had here: the image was not built")
    subprocess.run([docker, "build", "--quiet", "--target", "relay", "--tag", "relay-test", "."], cwd=PROJECT, check=True)
    confined = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none"]
    command = [docker, "run", "--rm", *confined, "relay-test", "node", "--print-config"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "transport:" in result.stdout
