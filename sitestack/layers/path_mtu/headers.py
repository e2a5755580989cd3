"""The headers of path MTU discovery. Both are unreliable: what is lost counts as what did not pass."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.frame import Header


@dataclass(frozen=True, slots=True)
class Probe(Header):
    """Alone in a datagram of `size` bytes, of which most are padding: answer if it arrives."""

    search: int
    size: int
    padding: bytes


@dataclass(frozen=True, slots=True)
class ProbeAnswer(Header):
    """Answer to Probe: a datagram of `size` bytes has arrived."""

    search: int
    size: int


HEADERS: dict[int, type[Header]] = {0xB0: Probe, 0xB1: ProbeAnswer}
