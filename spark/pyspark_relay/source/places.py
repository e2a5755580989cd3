from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from sitestack.model.errors import ConfigurationError

#: A `file:` address, also in Spark's form `file:/path`.
_FILE = re.compile(r"file:(?://(?:localhost)?)?(/(?!/).*)", re.IGNORECASE | re.DOTALL)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://|file:", re.IGNORECASE)


def local_path(place: str) -> Path:
    """Convert a path or `file:` address. Raises ConfigurationError for other schemes."""
    if (found := _FILE.fullmatch(place)) is not None:
        return Path(unquote(found[1]))
    if (scheme := _SCHEME.match(place)) is None:
        return Path(place)
    if scheme[1] in (None, "file"):
        raise ConfigurationError(f"{place}: the address of a file on this machine is file:///path.")
    raise ConfigurationError(f"{place}: Relay's own reader of journals needs a file system: mount or copy the journals.")
