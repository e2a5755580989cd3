"""The wheel: its name is free on the package index, it holds our packages alone, and its page shows no dead link."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from tests.structure.policy import PACKAGES

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """What `python -m hatchling build` makes of this checkout."""
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    [file] = target.iterdir()
    return zipfile.ZipFile(file)


def metadata(wheel: zipfile.ZipFile) -> Message:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return message_from_bytes(wheel.read(name))


def test_it_is_not_called_by_the_name_of_a_stranger(wheel: zipfile.ZipFile) -> None:
    said = metadata(wheel)
    assert said["Name"] == "sitestack"
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Author"]
    assert "Framework :: Trio" in said.get_all("Classifier", [])


def test_it_holds_the_packages_with_their_types_and_data(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == set(PACKAGES)
    assert {"sitestack/py.typed", "relay/py.typed", "relay/instruments/drills/library/kill-relay.yaml"} <= names
    packaged = {path.relative_to(PROJECT).as_posix() for root in PACKAGES for path in (PROJECT / root).rglob("*.py")}
    assert packaged <= names


def test_the_page_of_an_index_has_no_link_that_only_a_checkout_has(wheel: zipfile.ZipFile) -> None:
    page = metadata(wheel).get_payload()
    assert isinstance(page, str)
    assert page.startswith("# Relay")
    assert [target for target in re.findall(r"\]\(([^)]+)\)", page) if "://" not in target] == []


def test_no_page_tells_to_install_what_is_somebody_elses() -> None:
    name = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
    pages = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md"), *(PROJECT / "relay").rglob("*.py")]
    installed = {
        (page.name, what)
        for page in pages
        for what in re.findall(r"pip install ['\"\\]*([\w./-]+)", page.read_text(encoding="utf-8"))
    }
    assert installed
    assert {what for _, what in installed if not what.startswith((".", name, f"dist/{name}"))} == set()
