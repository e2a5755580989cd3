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

PROJECT = Path(__file__).parents[2]


def build(folder: str, target: Path) -> zipfile.ZipFile:
    """What `python -m hatchling build` makes of a folder of this checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=PROJECT / folder, check=True, capture_output=True)
    [file] = target.iterdir()
    return zipfile.ZipFile(file)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of a node."""
    return build(".", tmp_path_factory.mktemp("wheel"))


def metadata(wheel: zipfile.ZipFile) -> Message:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return message_from_bytes(wheel.read(name))


def test_it_is_not_called_by_the_name_of_a_stranger(wheel: zipfile.ZipFile) -> None:
    said = metadata(wheel)
    assert said["Name"] == "sitestack"
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Author"]
    assert "Framework :: Trio" in said.get_all("Classifier", [])


def packages(wheel: zipfile.ZipFile) -> set[str]:
    return {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}


def test_it_holds_the_packages_with_their_types_and_data(wheel: zipfile.ZipFile) -> None:
    assert packages(wheel) == {"sitestack", "relay"}
    assert {"sitestack/py.typed", "relay/py.typed", "relay/node/http/dashboard/index.html"} <= set(wheel.namelist())
    packaged = {path.relative_to(PROJECT).as_posix() for root in packages(wheel) for path in (PROJECT / root).rglob("*.py")}
    assert packaged <= set(wheel.namelist())


@pytest.mark.parametrize(
    ("folder", "name", "data"),
    [
        ("lab", "relay_lab", "relay_lab/drills/library/kill-relay.yaml"),
        ("spark", "pyspark_relay", "pyspark_relay/source/data_source.py"),
    ],
)
def test_the_other_distributions_hold_their_package_and_ask_for_the_same_version(
    tmp_path: Path, folder: str, name: str, data: str, wheel: zipfile.ZipFile
) -> None:
    other = build(folder, tmp_path)
    assert packages(other) == {name}
    assert data in other.namelist()
    version = metadata(wheel)["Version"]
    assert metadata(other)["Version"] == version
    assert f"sitestack[node]=={version}" in metadata(other).get_all("Requires-Dist", [])


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
