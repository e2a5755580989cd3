from __future__ import annotations

from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Literal

#: Two builds of one source, equal in behaviour and different in speed.
Build = Literal["compiled", "pure"]


def installed_version() -> str:
    """Return the version of the distribution; "not installed" for a bare copy of the source."""
    try:
        return metadata.version("sitestack")
    except metadata.PackageNotFoundError:
        return "not installed"


def running_build() -> Build:
    """Return the running build. All compiled modules share one extension, so one module stands for
    all.
    """
    spec = find_spec("sitestack.stack.stack")
    return "compiled" if spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES)) else "pure"
