"""The body of a message with a key, as a channel makes it."""

from __future__ import annotations

from sitestack.model.envelope import KEY, Envelope, wrap
from sitestack.model.message import pack_body


def keyed_body(*payloads: bytes, key: bytes) -> bytes:
    """Payloads in envelopes that have this key; none without one."""
    if not key:
        return pack_body(payloads)
    return pack_body([wrap(Envelope(headers={KEY: key}), payload) for payload in payloads], envelopes=True)
