"""What a seed stands for: a topology, a workload and a list of faults, all drawn from it.

Swarm style: each seed turns some kinds of fault on and others off, at rates of its own, so that a run is not the average of
everything. The plan is plain data: a failing seed can be shrunk by leaving faults out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from relay.gateway.session import LinkConfig
from relay.instruments.simulation.faults import Burst, CutStream, Fault, Kill, Leave, Pause, Split, WanCut
from relay.replica.buffer import BufferConfig
from sitestack.config import Agreement, Order

#: How long messages are sent and faults happen, in virtual seconds.
TROUBLE_S = 30.0
SITE_NAMES = ("NYC", "SFO", "LON", "TYO")


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    seed: int
    sites: tuple[tuple[str, int], ...]
    order: Order
    agreement: Agreement
    multicast: bool
    loss: float
    duplication: float
    duplication_late_s: float
    reordering: float
    reordering_late_s: float
    corruption: float
    faults: tuple[Fault, ...]
    messages: int
    size_max: int
    unicast_share: float
    site_share: float
    #: Messages in a batch, at most; None for what the product does by itself.
    batch_count_max: int | None = None
    #: The window of flow control; None for what the product does by itself.
    window_bytes: int | None = None
    budget: BufferConfig = field(default_factory=BufferConfig)
    #: A site that starts only so many seconds after the trouble has begun.
    late: tuple[str, float] | None = None
    #: The pairs of sites that are connected, a tree; the others reach each other by routes. Empty: each with each.
    connections: tuple[tuple[str, str], ...] = ()
    link: LinkConfig = field(default_factory=LinkConfig)
    #: Two sites, and how many bytes pass a second in each direction of a connection of theirs; all at once between the others.
    lines: tuple[tuple[str, str, float], ...] = ()
    #: Everything between sites is later by so much, from the beginning to the end.
    wan_delay_s: float = 0.0


def draw_plain(seed: int) -> Plan:
    """The plan of a seed, without what makes some seeds harsh."""
    rng = random.Random(f"plan {seed}")
    number = 3 + seed % 2 if seed % 5 == 4 else 2
    sites = tuple([(name, rng.choice((1, 2, 3, 3, 3, 4))) for name in SITE_NAMES[:number]])
    return Plan(
        seed=seed,
        sites=sites,
        order="total" if rng.random() < 0.8 else "fifo",
        agreement="uniform" if seed % 7 == 3 else "survivors",
        multicast=rng.random() < 0.7,
        loss=_sometimes(rng, 0.6, 0.2),
        duplication=_sometimes(rng, 0.4, 0.5),
        duplication_late_s=rng.choice((0.01, 0.5, 10.0)),
        reordering=_sometimes(rng, 0.5, 0.3),
        reordering_late_s=rng.choice((0.005, 0.05, 0.3)),
        corruption=_sometimes(rng, 0.3, 0.05),
        faults=_faults(rng, sites),
        messages=rng.choice((50, 150, 300, 300)),
        size_max=rng.choice((20, 200, 200, 5_000)),
        unicast_share=_sometimes(rng, 0.5, 0.3),
        site_share=_sometimes(rng, 0.5, 0.3),
    )


def _sometimes(rng: random.Random, chance: float, most: float) -> float:
    return rng.random() * most if rng.random() < chance else 0.0


def _faults(rng: random.Random, sites: tuple[tuple[str, int], ...]) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        site, members = rng.choice(sites)
        restart = rng.uniform(0.0, 8.0) if members == 1 or rng.random() < 0.5 else None
        kill = Kill(_moment(rng), site, rng.choice((0, 0, 0, 1, 2)), rng.randrange(6), restart)
        faults.append(kill)
        if rng.random() < 0.2:  # and the next in line a moment later
            faults.append(Kill(kill.at + rng.uniform(0.0, 2.0), site, 0, rng.randrange(6), rng.uniform(0.0, 8.0)))
    if rng.random() < 0.3:
        faults.append(Leave(_moment(rng), rng.choice(sites)[0], rng.choice((0, 0, 1))))
    faults += [CutStream(_moment(rng)) for _ in range(rng.choice((0, 0, 1, 3)))]
    if rng.random() < 0.3:
        faults.append(Burst(_moment(rng), rng.uniform(0.2, 1.0)))
    faults += _partitions(rng, sites)
    return tuple(sorted(faults, key=lambda fault: fault.at))


def _partitions(rng: random.Random, sites: tuple[tuple[str, int], ...]) -> list[Fault]:
    faults: list[Fault] = []
    if rng.random() < 0.3:
        for _ in range(rng.choice((1, 1, 2))):
            site, members = rng.choice(sites)
            length = rng.choice((rng.uniform(0.1, 2.0), rng.uniform(3.0, 15.0)))
            faults.append(Split(_moment(rng), length, site, rng.randrange(members) or 1, rng.random() < 0.2))
    if rng.random() < 0.3:
        length = rng.choice((rng.uniform(0.1, 2.0), rng.uniform(3.0, 12.0)))
        faults.append(Pause(_moment(rng), length, rng.choice(sites)[0], rng.choice((0, 0, 1, 2))))
    if rng.random() < 0.3:
        faults.append(WanCut(_moment(rng), rng.uniform(0.1, 15.0), rng.random() < 0.3))
    return faults


def _moment(rng: random.Random) -> float:
    return rng.uniform(0.5, TROUBLE_S - 2.0)
