"""The site's key ring, read again whenever its file has changed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from relay.keys.directory import KEY_RING, read_key_ring
from sitestack.model.errors import ConfigurationError
from sitestack.seal.key_ring import KeyRing


class SiteKeys:
    """The key ring of one site. A file that is damaged or gone changes nothing, and is a problem until it is whole again."""

    def __init__(self, directory: Path) -> None:
        """Raises ConfigurationError for a ring that cannot be used."""
        self._directory = directory
        #: What tells the version of the file that was read last from others; None when there was none.
        self._version = self._look_at_file()
        self.ring = read_key_ring(directory)
        #: Why the file cannot be used now; empty while it can.
        self.problem = ""

    def to_json(self) -> dict[str, Any]:
        """What the status says: the ids, which tell nothing of the keys, and how long ago the file was changed (s)."""
        changed = time.time() if self._version is None else self._version[0] / 1e9
        ids = [each.hex() for each in self.ring.keys]
        return {"in_use": self.ring.in_use.hex(), "known": ids, "age_s": round(max(0.0, time.time() - changed), 3)}

    def look(self) -> KeyRing | None:
        """The ring, if its file has changed and holds another one now."""
        version = self._look_at_file()
        if version == self._version:
            return None
        self._version = version
        try:
            ring = read_key_ring(self._directory)
        except ConfigurationError as error:
            self.problem = f"the keys that were read before stay in force ({str(error).removesuffix('.')})"
            return None
        self.problem = ""
        if ring == self.ring:
            return None
        self.ring = ring
        return ring

    def _look_at_file(self) -> tuple[int, int, int, int] | None:
        try:
            found = (self._directory / KEY_RING).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode
