"""What a seed stands for: a topology, a workload and a list of faults, all drawn from it.

Swarm style: each seed turns some kinds of fault on and others off, at rates of its own, so that a run is not the average of
everything. The plan is plain data: a failing seed can be shrunk by leaving faults out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from sitestack.config import Agreement, Order

#: How long messages are sent and faults happen, in virtual seconds.
TROUBLE_S = 30.0
SITE_NAMES = ("NYC", "SFO", "LON", "TYO")


@dataclass(frozen=True, slots=True)
class Kill:
    """A process dies, as by kill -9, and perhaps another starts at its address."""

    at: float
    site: str
    #: 0 is the coordinator of that moment, 1 the second in line, and so on; too high means the last.
    rank: int
    #: How many datagrams of its next turn still leave: a process can die at any effect.
    datagrams: int
    #: Seconds until a new process starts at the same physical address; None for never.
    restart_after: float | None


@dataclass(frozen=True, slots=True)
class Leave:
    """A process leaves gracefully."""

    at: float
    site: str
    rank: int


@dataclass(frozen=True, slots=True)
class CutStream:
    """Every open bridge connection breaks, somewhere in the middle of its bytes."""

    at: float


@dataclass(frozen=True, slots=True)
class Burst:
    """Nothing arrives inside any site for a while."""

    at: float
    length: float


@dataclass(frozen=True, slots=True)
class Split:
    """A site falls apart for a while: the first hosts do not reach the others, nor (unless `one_way`) the others them."""

    at: float
    length: float
    site: str
    #: How many of the hosts, in order of their numbers, are on the first side.
    hosts: int
    one_way: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """A process stands still for a while, as by SIGSTOP and SIGCONT."""

    at: float
    length: float
    site: str
    rank: int


@dataclass(frozen=True, slots=True)
class WanCut:
    """No bytes pass between two sites for a while, in both directions or in one; nothing is reported either."""

    at: float
    length: float
    one_way: bool


Fault = Kill | Leave | CutStream | Burst | Split | Pause | WanCut


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

    def rates(self) -> dict[str, float]:
        """The continuous faults by name."""
        return {
            "loss": self.loss,
            "duplication": self.duplication,
            "reordering": self.reordering,
            "corruption": self.corruption,
        }


def draw(seed: int) -> Plan:
    """The plan of a seed."""
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
