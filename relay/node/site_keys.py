"""Key ring of the site, reread after each change of its file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from relay.keys.certificates import BRIDGE_CERTIFICATE
from relay.keys.directory import KEY_RING, read_key_ring
from relay.node.bridge.credentials import Credentials, file_version, read_own_facts
from relay.node.config.settings import NodeConfig
from sitestack.model.errors import ConfigurationError
from sitestack.seal.key_ring import KeyRing


class SiteKeys:
    """Key ring of one site. A damaged or missing file is a problem, and leaves the ring in use."""

    def __init__(self, directory: Path) -> None:
        """Read the ring. Raises ConfigurationError if it is unusable."""
        self._directory = directory
        self._version = file_version(directory / KEY_RING)
        self.ring = read_key_ring(directory)
        self.problem = ""

    def to_json(self) -> dict[str, Any]:
        """Return the key ids and the file's age (s)."""
        changed = time.time() if self._version is None else self._version[0] / 1e9
        ids = [each.hex() for each in self.ring.keys]
        return {"in_use": self.ring.in_use.hex(), "known": ids, "age_s": round(max(0.0, time.time() - changed), 3)}

    def look(self) -> KeyRing | None:
        version = file_version(self._directory / KEY_RING)
        if version == self._version:
            return None
        self._version = version
        try:
            ring = read_key_ring(self._directory)
        except ConfigurationError as error:
            self.problem = f"the previous keys stay in use ({str(error).removesuffix('.')})"
            self._version = None  # to read again
            return None
        self.problem = ""
        if ring == self.ring:
            return None
        self.ring = ring
        return ring


def read_secrets(config: NodeConfig) -> tuple[SiteKeys | None, Credentials | None]:
    """Return the keys of the site, and its credentials at other sites. Raises ConfigurationError."""
    if not config.security.keys:
        return None, None
    directory = Path(config.security.keys)
    if (directory / BRIDGE_CERTIFICATE).exists():
        read_own_facts(directory / BRIDGE_CERTIFICATE, config.site)
    return SiteKeys(directory), Credentials(directory, config.site) if config.has_bridge() else None
