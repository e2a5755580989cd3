from __future__ import annotations

from importlib import metadata


def installed_version() -> str:
    """Return the version of the distribution; "not installed" for a bare copy of the source."""
    try:
        return metadata.version("sitestack")
    except metadata.PackageNotFoundError:
        return "not installed"
