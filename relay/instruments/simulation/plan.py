"""A plan: sites, what they are told to do, and a list of faults. Plain data, so it can be stored, read and shrunk.

`generator.py` draws plans from seeds, `plan_json.py` writes and reads them, `run.py` carries them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

from relay.gateway.session import LinkConfig
from relay.instruments.simulation.faults import Fault
from relay.replica.buffer import BufferConfig
from sitestack.config import Agreement, Order

#: How long messages are sent and faults happen, in virtual seconds.
LOAD_S = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. A field that is added needs a default, or the plans that are stored cannot be read any more."""

    #: Of all randomness in the run itself: latencies, what is lost, who sends what.
    seed: int
    #: Name and number of members of each.
    sites: tuple[tuple[str, int], ...]
    order: Order
    agreement: Agreement
    #: Whether members find and reach each other by multicast; else at addresses that they are given.
    multicast: bool
    #: The share of all datagrams that is lost, comes twice, comes late, or is spoilt.
    loss: float
    duplication: float
    duplication_late_s: float
    reordering: float
    reordering_late_s: float
    corruption: float
    faults: tuple[Fault, ...]
    #: How many messages are sent in all, each of up to `size_max` bytes.
    messages: int
    size_max: int
    #: The shares of these that go to one member, and to the own site only.
    unicast_share: float
    site_share: float
    #: Messages in a batch, at most; None for what the product does by itself.
    batch_count_max: int | None = None
    #: The window of flow control; None for what the product does by itself.
    window_bytes: int | None = None
    budget: BufferConfig = field(default_factory=BufferConfig)
    #: A site that starts only so many seconds after the load has begun.
    late: tuple[str, float] | None = None
    #: The pairs of sites that are connected, a tree; the others reach each other by routes. Empty: each with each.
    connections: tuple[tuple[str, str], ...] = ()
    link: LinkConfig = field(default_factory=LinkConfig)
    #: Two sites, and how many bytes pass a second in each direction of a connection of theirs; all at once between the others.
    lines: tuple[tuple[str, str, float], ...] = ()
    #: Everything between sites is later by so much, from the beginning to the end.
    wan_delay_s: float = 0.0

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of sites that are connected."""
        return self.connections or tuple(combinations([name for name, _ in self.sites], 2))

    def between(self) -> list[str]:
        """The sites that messages of others pass through: all that are no end of a tree."""
        ends = [name for pair in self.connections for name in pair]
        return [name for name, _ in self.sites if ends.count(name) > 1]
