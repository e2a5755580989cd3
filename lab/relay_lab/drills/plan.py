"""A drill as data: its sites, the load, the faults with their times, and the expected result. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

#: Faults of a member. `restart` stops it gracefully if it runs, starts it again, and waits until it
#: has joined. `upgrade` restarts a member of an earlier release with this one. `start` does not
#: wait. `block` is a blocking call in its event loop. `stop-reader` stops the reader of its
#: deliveries.
MemberVerb: TypeAlias = Literal[
    "kill",
    "pause",
    "resume",
    "leave",
    "restart",
    "upgrade",
    "start",
    "fill-disk",
    "free-disk",
    "block",
    "unblock",
    "stop-reader",
]
#: Faults of a link; see `lab/relay_lab/drills/network.py`.
LinkVerb: TypeAlias = Literal["cut", "stall", "half-open", "delay", "slow", "lose", "duplicate", "reorder", "mtu", "heal"]

#: Attacks of a process that is no member; see `lab/relay_lab/drills/hostile/`. By datagrams:
#: `replay` recorded ones; `forge` every header; `bomb` with ones that are expensive to read;
#: `flood`, also at a port without a listener. By connections to the relay: `idle`, `slow-handshake`
#: and `announce` hold them; `plain`, `old-tls` and `claim` send false contents. `lie`: as a linked
#: site, to the relays of all sites.
AttackVerb: TypeAlias = Literal[
    "replay",
    "forge",
    "bomb",
    "flood",
    "flood-unheard",
    "idle",
    "slow-handshake",
    "announce",
    "plain",
    "old-tls",
    "claim",
    "lie",
]

MEMBER_VERBS: tuple[str, ...] = get_args(MemberVerb)
ATTACK_VERBS: tuple[str, ...] = get_args(AttackVerb)
DATAGRAM_ATTACKS = ("replay", "forge", "bomb", "flood", "flood-unheard")
#: Verbs that need an amount.
GRADED = ("delay", "slow", "lose", "duplicate", "reorder", "mtu", *DATAGRAM_ATTACKS, "idle")
#: Verbs that end an earlier fault. A role in their target means the earlier member.
UNDOING = ("resume", "free-disk", "unblock", "heal")
#: Roles that a target may name, resolved at the time of the action.
ROLES = ("relay", "second", "member")
#: The member of a site that the seed picks, fixed for a run.
ANY = "any"


@dataclass(frozen=True, slots=True)
class Action:
    do: Literal[MemberVerb, LinkVerb, AttackVerb] = "kill"
    at_s: float = 0.0
    #: Up to this many seconds later, by the seed.
    spread_s: float = 0.0
    #: A member: SITE.relay, SITE.second, SITE.member (the last in line), SITE.any, or a name. Of an
    #: attack the site.
    target: str = ""
    #: A link: `X - Y` both ways, `X > Y` one way; X and Y are sites or members.
    link: str = ""
    #: Seconds for `delay`, bytes per second for `slow`, a probability for `lose`, `duplicate` and
    #: `reorder`; for `mtu` the bytes of the longest packet that passes; of an attack the packets
    #: per second, or the connections.
    amount: float = 0.0
    #: Whether it is meant for the time after the load.
    after_load: bool = False
    for_s: float = 0.0
    #: The site, outside the drill, whose keys the attacker has; empty: none.
    key_of: str = ""

    def __str__(self) -> str:
        amount = f" {self.amount:g}" if self.amount else ""
        return f"{self.do} {self.target or self.link}{amount}{f' with the key of {self.key_of}' if self.key_of else ''}"


@dataclass(frozen=True, slots=True)
class DrillLoad:
    """The steady state: members of each site send for `seconds`, and longer while an action under load has not taken effect."""

    rate: float = 200.0
    message_bytes: int = 100
    seconds: float = 8.0
    #: one: the last member of each site that runs. all: every member, also a paused one.
    senders: Literal["one", "all"] = "one"


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected result of a drill, besides no loss, duplicate or reordering, and all promises."""

    #: none: everything arrives. exact: gaps report exactly the messages beyond the budget.
    gaps: Literal["none", "exact"] = "none"
    #: Member (SITE.NAME) or site -> the most messages that may be declared lost there; elsewhere
    #: none.
    gaps_max: dict[str, int] = field(default_factory=dict)
    #: The longest silence of another site; 0: only measured.
    silence_s_max: float = 0.0
    #: The longest silence of the own site; 0: only measured.
    own_silence_s_max: float = 0.0
    #: `silence_s_max` in containers and in a cluster; 0: the same.
    silence_elsewhere_s_max: float = 0.0
    #: Whether all links must last (F26).
    steady_links: bool = False
    #: Whether all views must last, without any suspicion.
    steady_views: bool = False
    #: Growth of a member's memory from the first attack on; 0: only measured.
    growth_mib_max: float = 0.0
    #: Times as late as without it that messages of other sites may be during an attack, at the 99th
    #: percentile; 0: only measured. Compared with the worst pause between attacks; a flood with
    #: `flood-unheard`, if there is one.
    lag_times_max: float = 0.0
    #: Site -> its members at the end. Empty: all that were not killed and have not left.
    views: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def gaps_allowed(self, site: str, name: str) -> int:
        """Return how many messages may be declared lost at this member."""
        return self.gaps_max.get(f"{site}.{name}", self.gaps_max.get(site, 0))


@dataclass(frozen=True, slots=True)
class Drill:
    """One drill, as its YAML file describes it."""

    name: str = ""
    why: str = ""
    sites: tuple[str, ...] = ("NYC", "SFO")
    members: int = 3
    load: DrillLoad = field(default_factory=DrillLoad)
    method: tuple[Action, ...] = ()
    verdict: Expectation = field(default_factory=Expectation)
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def harms_sites(self) -> bool:
        """Whether a link inside a site has a fault."""
        return any(one.site == other.site for one, other in self._links())

    @property
    def harms_bridges(self) -> bool:
        return any(one.site != other.site for one, other in self._links())

    @property
    def attacks(self) -> list[Action]:
        return [action for action in self.method if action.do in ATTACK_VERBS]

    @property
    def liar(self) -> str:
        """The linked site that lies; empty: none."""
        return next((action.key_of for action in self.method if action.do == "lie"), "")

    def harms_inside(self, action: Action) -> bool:
        one, other, _ = parse_link(action.link, self.sites, self.members)
        return one.site == other.site

    def does(self, *verbs: str) -> bool:
        return any(action.do in verbs for action in self.method)

    def _links(self) -> Iterator[tuple[Place, Place]]:
        for action in self.method:
            if action.link:
                one, other, _ = parse_link(action.link, self.sites, self.members)
                yield one, other


@dataclass(frozen=True, slots=True)
class Seat:
    site: str
    name: str


@dataclass(frozen=True, slots=True)
class Place:
    """A site, or one member of it by role or name."""

    site: str
    #: Empty: all members of the site.
    who: str = ""


def seat_members(sites: Sequence[str], members: int) -> list[Seat]:
    """Return the members of all sites: A, B, C in the first, D, E, F in the second, and so on."""
    total = len(sites) * members
    labels = [chr(ord("A") + place) if total <= 26 else f"M{place + 1:03d}" for place in range(total)]
    return [Seat(sites[place // members], label) for place, label in enumerate(labels)]


def between_sites(seats: Sequence[Seat]) -> list[tuple[Seat, Seat]]:
    return [(one, other) for one in seats for other in seats if one.site != other.site]


def parse_place(text: str, sites: Sequence[str], members: int) -> Place:
    """Return the place that a text names. Raises ValueError with a sentence."""
    site, dot, who = text.strip().partition(".")
    names = {seat.name: seat.site for seat in seat_members(sites, members)}
    if not dot and site in names:
        return Place(names[site], site)
    if site in sites and (not dot or who in (*ROLES, ANY) or names.get(who) == site):
        return Place(site, who)
    roles = ", ".join(f"{sites[0]}.{role}" for role in (*ROLES, ANY))
    raise ValueError(f"there is no {text.strip()!r}; a member is {roles} or one of {', '.join(names)}.")


def parse_link(text: str, sites: Sequence[str], members: int) -> tuple[Place, Place, bool]:
    """Return both ends, and whether it means both ways. Raises ValueError with a sentence."""
    for sign in ("-", ">"):
        one, found, other = text.partition(sign)
        if found:
            return parse_place(one, sites, members), parse_place(other, sites, members), sign == "-"
    raise ValueError(f"{text!r} is no link; write X - Y for both ways or X > Y for one.")


def at_place(drill: Drill, where: str) -> Drill:
    limit_s = drill.verdict.silence_elsewhere_s_max
    if where == "local" or not limit_s:
        return drill
    return replace(drill, verdict=replace(drill.verdict, silence_s_max=limit_s))


def draw_method(drill: Drill, seed: int) -> list[tuple[float, Action]]:
    rng = random.Random(seed)
    timed = [(action.at_s + rng.random() * action.spread_s, action) for action in drill.method]
    picked = _pick_members(drill, seed)
    named = [
        (at_s, replace(action, target=_named(action.target, picked), link=_named(action.link, picked)))
        for at_s, action in timed
    ]
    return sorted(named, key=lambda each: each[0])


def _pick_members(drill: Drill, seed: int) -> dict[str, str]:
    seats = seat_members(drill.sites, drill.members)
    picked = {}
    for site in drill.sites:
        seat = random.Random(f"{seed} {site}").choice([seat for seat in seats if seat.site == site])
        picked[f"{site}.{ANY}"] = f"{site}.{seat.name}"
    return picked


def _named(text: str, picked: Mapping[str, str]) -> str:
    for anybody, somebody in picked.items():
        text = text.replace(anybody, somebody)
    return text
