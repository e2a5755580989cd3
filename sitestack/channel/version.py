"""The version of what is installed, and whether it is compiled."""

from __future__ import annotations

from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Literal

#: Two builds of one source, which behave the same at different speeds.
Build = Literal["compiled", "pure"]


def installed_version() -> str:
    """The version of the distribution; "not installed" for a mere copy of the source."""
    try:
        return metadata.version("sitestack")
    except metadata.PackageNotFoundError:
        return "not installed"


def running_build() -> Build:
    """Which build runs here: all compiled modules come in one extension, so one of them stands for all."""
    spec = find_spec("sitestack.stack.stack")
    return "compiled" if spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES)) else "pure"
