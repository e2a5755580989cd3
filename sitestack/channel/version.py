"""The version of what is installed, for journals."""

from __future__ import annotations

from importlib import metadata


def installed_version() -> str:
    """The version of the distribution; "not installed" for a mere copy of the source."""
    try:
        return metadata.version("sitestack")
    except metadata.PackageNotFoundError:
        return "not installed"
