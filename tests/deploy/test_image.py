"""The Dockerfile: every builder understands it, and its image needs neither root nor a writable file system."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path

import pytest

from tests.deploy.test_compose_up import missing

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


def whole(stage: str) -> list[tuple[str, str]]:
    """The instructions of a stage and, before them, of the stages that it begins with."""
    own = instructions(stage)
    before = own[0][1].split(" ")[0]
    return [*(whole(before) if f" AS {before}\n" in DOCKERFILE else []), *own]


def argument(stage: str, word: str) -> str:
    """That of the only such instruction in a stage and those that it begins with."""
    [only] = [rest for each, rest in whole(stage) if each == word]
    return only


def locked_bytes(lock: str) -> int:
    """Return the size of a lock file's packages as they are installed here."""
    lines = (PROJECT / lock).read_text(encoding="utf-8").splitlines()
    packages = [distribution(line.partition("==")[0]) for line in lines if re.match(r"[\w.-]+==", line)]
    paths = [Path(str(each.locate())) for package in packages for each in package.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file())


def test_the_linter_reports_no_problem() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    result = subprocess.run(
        [hadolint, "--failure-threshold", "style", "Dockerfile"], cwd=PROJECT, capture_output=True, text=True
    )
    assert (result.stdout, result.returncode) == ("", 0)


@pytest.mark.parametrize("stage", ["build", "build-analytics"])
def test_everything_is_installed_from_a_lock_file(stage: str) -> None:
    commands = [command for word, rest in instructions(stage) if word == "RUN" for command in rest.split("&&")]
    installs = [command for command in commands if " install " in command and not command.strip().startswith("apt-get ")]
    assert installs
    assert all("--require-hashes" in each or "--no-deps" in each for each in installs)


def test_the_image_copies_the_build_output_and_runs_no_pip() -> None:
    [copied] = [rest for word, rest in instructions("relay") if word == "COPY"]
    assert copied.startswith("--from=build ")
    assert not any("pip" in rest for word, rest in instructions("relay") if word == "RUN")


@pytest.mark.parametrize("stage", ["relay", "analytics"])
def test_no_image_stage_runs_as_root(stage: str) -> None:
    users = [rest for word, rest in whole(stage) if word == "USER"]
    uid, _, gid = users[-1].partition(":")
    assert int(uid) >= 10_000
    assert int(gid) >= 10_000


def test_a_stop_is_a_graceful_leave_and_health_is_of_this_process() -> None:
    assert argument("relay", "STOPSIGNAL") == "SIGTERM"
    _, _, command = argument("relay", "HEALTHCHECK").partition("CMD ")
    assert json.loads(command) == ["python", "-m", "relay.node.http.probe", "http://127.0.0.1:7800/healthz"]
    # Without a shell in between, which would keep the signal to itself.
    assert json.loads(argument("relay", "ENTRYPOINT")) == ["relay"]
    assert json.loads(argument("relay", "CMD"))[-2:] == ["--http", "7800"]


@pytest.mark.parametrize("stage", ["relay", "analytics"])
def test_labels_state_title_description_version_revision_and_licenses(stage: str) -> None:
    labels = " ".join([rest for word, rest in whole(stage) if word == "LABEL"])
    arguments = dict(rest.split("=") for word, rest in whole(stage) if word == "ARG")
    assert arguments["VERSION"] == tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    for name in ("title", "description", "version", "revision", "licenses"):
        assert f"org.opencontainers.image.{name}=" in labels


def test_nothing_gets_into_the_image_unasked() -> None:
    ignored = (PROJECT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*"
    stages = [each for stage in ("build", "build-analytics") for each in instructions(stage)]
    copied = {word for each, rest in stages if each == "COPY" for word in rest.split()[:-1]}
    allowed = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert all(any(Path(each).match(pattern) for pattern in allowed) for each in copied)
    assert {"sitestack", "relay", "spark"} <= copied


@pytest.mark.long
def test_an_audit_runs_on_the_java_of_the_image(tmp_path: Path) -> None:
    """Spark asks for modules by name when it starts, and does not start without them."""
    jlink = shutil.which("jlink")
    if jlink is None:
        pytest.skip("no jlink is installed here: the Java of the image was not made")
    modules = argument("build-analytics", "ENV").partition("=")[2]
    commands = [part.split() for word, rest in instructions("build-analytics") if word == "RUN" for part in rest.split("&&")]
    [made] = [command for command in commands if command[0] == "jlink"]
    home = tmp_path / "java"
    options = [str(home) if each == "/opt/java" else each.replace('"$JAVA_MODULES"', modules) for each in made[1:]]
    subprocess.run([jlink, *options], check=True, capture_output=True)
    java_bytes = sum(each.stat().st_size for each in home.rglob("*") if each.is_file())
    assert java_bytes + locked_bytes("requirements-spark.lock") < 850_000_000, "with its base the image has more than 1 GB"
    relay, journals = [sys.executable, "-m", "relay"], str(tmp_path / "journals")
    subprocess.run([*relay, "journal", "generate", journals, "--deliveries", "100"], check=True, capture_output=True)
    environment = {**os.environ, "JAVA_HOME": str(home), "PATH": f"{home / 'bin'}:/usr/bin:/bin"}
    audit = [*relay, "audit", journals, "--master", "local[1]", "--json"]
    result = subprocess.run(audit, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["lost"] == 0


@pytest.mark.slow
def test_the_image_runs_without_rights_and_without_a_file_system_to_write_to() -> None:
    if reason := missing():
        pytest.skip(reason)
    subprocess.run(["docker", "build", "--quiet", "--target", "relay", "--tag", "relay-test", "."], cwd=PROJECT, check=True)
    confined = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none"]
    command = ["docker", "run", "--rm", *confined, "relay-test", "node", "--print-config"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "transport:" in result.stdout
