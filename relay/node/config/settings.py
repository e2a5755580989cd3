"""Configuration of a node: its site, and the links of that site to others. Values only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from relay.gateway.config import GatewayConfig, LinkPolicy, RoutesConfig
from relay.gateway.link_table import ROUTE_WINDOW_BYTES
from relay.gateway.wire import ROUTED_OVERHEAD_BYTES
from relay.layer import RelayConfig
from relay.node.bridge.bridge import UNANSWERED_S_MAX, BridgeConfig
from relay.replica.config import BufferConfig, SpillSettings
from relay.replica.held_entries import ENTRIES_MAX
from relay.site_state.config import SiteStateConfig, SiteStateSettings
from relay.unicast.config import RemoteUnicastConfig
from sitestack import config as site_config
from sitestack.config import ANY_INTERFACE, UNFIT_SITE, SiteConfig, can_be_site, datagrams_of
from sitestack.model.address import Physical
from sitestack.model.host import unfit_host
from sitestack.transport.router_link import ROUTERS_MAX

#: Longest logical name of a member, which is part of every HELLO; names made from a host's name are shorter.
NAME_CHARS_MAX = 128
#: Least `relay.link.chunk_bytes`: half a chunk is for unicasts, and a chunk of a few bytes would carry next to nothing.
CHUNK_BYTES_MIN = 1_000

#: Keys that cannot be given, because they follow from another: key -> where its value comes from.
DERIVED = {
    "protocols.sequencer.order": "order",
    "protocols.resolver.multicast": "transport.multicast",
    "protocols.fragment.fragment_bytes_max": "transport.datagram_bytes_max",
}
#: What is wrong when both are asked for: one of them must have been meant otherwise.
KEYS_AND_INSECURE = "it has keys and is to be insecure; say one of both."
#: Datagrams that all entries held for other sites may fill. A joiner is handed them in one frame while its site waits: so many
#: take about a second, several times as many longer than members wait for a joiner.
HELD_DATAGRAMS_MAX = 16_384
#: What a machine calls itself.
LOOPBACK = ("127.0.0.1", "localhost")
#: Source of the defaults of the budget.
_BUFFER = BufferConfig()


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """How much every member holds for sites that cannot be reached; beyond it the oldest entries become a gap there."""

    #: Batches and views held at most. Each takes half a kilobyte of memory besides its messages, and delays a joiner, which is
    #: handed all of them.
    entries: int = _BUFFER.budget_entries
    #: Bytes held at most: the messages, and an allowance per entry. Without this key 64 MiB, or what 16,384 datagrams of
    #: `transport.datagram_bytes_max` carry if that is less.
    bytes: int | None = None
    #: Seconds after its delivery at which an entry is dropped.
    age_s: float = _BUFFER.budget_age_s
    spill: SpillSettings = field(default_factory=SpillSettings)


@dataclass(frozen=True, slots=True)
class RelaySettings(LinkPolicy):
    """The links of this site to others."""

    bridge: BridgeConfig = field(default_factory=BridgeConfig)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    #: Messages to one member of another site.
    unicast: RemoteUnicastConfig = field(default_factory=RemoteUnicastConfig)
    #: The application's state, taken from another site by a member that has nobody to get it from in its own site. For
    #: applications that open their channel with `get_state` and `set_state`; `protocols.state_transfer` bounds the state.
    state: SiteStateSettings = field(default_factory=SiteStateSettings)


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Authentication of whoever talks to this node."""

    #: The directory with the keys of the site, made by `relay keygen`. Needed, unless `insecure` is set.
    keys: str = ""
    #: Run without authentication: whoever reaches the ports can read and send. Must be set, so that nobody does it unawares.
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """The journal, a record of what happens at this node."""

    #: Directory of the segment files. Empty: no journal.
    directory: str = ""
    #: Bytes at which a segment is closed and the next one begun.
    segment_bytes: int = 64 << 20
    #: Keep the messages themselves, not only their digests: for analyses of the journals. Nothing is sent again from there.
    keep_payloads: bool = False
    #: Stop the node when a record cannot be written, instead of going on without the record.
    strict: bool = False
    #: Bytes that the journals of this member may take, those of its earlier processes in the directory included; beyond, the
    #: oldest segments are deleted, and the journal says so. Without this key nothing is deleted for its size.
    retained_bytes_max: int | None = None
    #: Seconds after its last record at which a segment is deleted, or an eighth of that later. Without this key none is deleted
    #: for its age.
    retained_s_max: float | None = None


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Health, status, metrics, the dashboard; events and messages for programs in any language."""

    #: Address to listen at, such as 127.0.0.1:7800. Without it nothing is served.
    bind: Physical | None = None
    #: File with the bearer token that requests must have. Needed where others than this machine can reach the port, unless
    #: `security.insecure` is set. Whether the node is alive and ready is told to everybody.
    token: str = ""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log, which goes to standard error."""

    #: Least urgent level that is logged.
    level: Literal["debug", "info", "warning", "error"] = "info"
    #: auto: for people on a terminal, JSON lines elsewhere.
    format: Literal["auto", "console", "json"] = "auto"


@dataclass(frozen=True, slots=True)
class NodeConfig(SiteConfig):
    """One member of one site. One file serves all members; what differs comes from the command line or the environment."""

    #: The logical name, for people. Empty: a name made from the host's name.
    name: str = ""
    #: The links of this site to others. Without `relay.bridge.peers`, `bind` and `routers` the site is alone.
    relay: RelaySettings = field(default_factory=RelaySettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    journal: JournalSettings = field(default_factory=JournalSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    log: LogSettings = field(default_factory=LogSettings)

    def peer_sites(self) -> tuple[str, ...]:
        """The other sites that this one is configured to be linked to, directly or by a route."""
        bridge = self.relay.bridge
        return tuple([site for site in {**bridge.peers, **bridge.via} if site != self.site])

    def neighbours(self) -> dict[str, tuple[Physical, ...]]:
        """The addresses of each site that this one is linked to directly, and none of this one: a file may name all sites."""
        return {site: places for site, places in self.relay.bridge.peers.items() if site != self.site}

    def has_bridge(self) -> bool:
        """Whether relays of other sites connect to this one, or are called."""
        return bool(self.peer_sites()) or self.relay.bridge.bind is not None or bool(self.relay.bridge.routers)

    def held_bytes_max(self) -> int:
        """Bytes held for other sites at most: the configured ones, or the default."""
        given = self.relay.budget.bytes
        carried = HELD_DATAGRAMS_MAX * self.transport.datagram_bytes_max
        return min(_BUFFER.budget_bytes, carried) if given is None else given

    def relay_layer(self) -> RelayConfig:
        """The configuration of the relay layer, without this site."""
        relay = self.relay
        via = {site: hop for site, hop in relay.bridge.via.items() if site != self.site}
        return RelayConfig(
            gateway=GatewayConfig(
                peers=self.neighbours(),
                **{each.name: getattr(relay, each.name) for each in fields(LinkPolicy)},
                connections_max=relay.bridge.connections_max,
            ),
            buffer=BufferConfig(
                relay.budget.entries,
                self.held_bytes_max(),
                relay.budget.age_s,
                relay.budget.spill if relay.budget.spill.directory else None,
            ),
            unicast=relay.unicast,
            routes=RoutesConfig(via, relay.bridge.forward),
            site_state=self._site_state(),
        )

    def _site_state(self) -> SiteStateConfig:
        state, transfer, link = self.relay.state, self.protocols.state_transfer, self.relay.link
        sites = tuple([site for site in state.sites if site != self.site])
        piece_bytes_max = min(transfer.chunk_bytes_max, link.frame_bytes_max // 2)
        return SiteStateConfig(replace(state, sites=sites), transfer, piece_bytes_max)


def find_problems(config: NodeConfig) -> list[str]:
    """All problems of a configuration, as sentences that begin with the path of a key; empty when there is none."""
    problems = [
        *_relay_problems(config.relay),
        *_budget_problems(config),
        *_peer_problems(config),
        *_route_problems(config),
        *_link_problems(config),
    ]
    if not config.name.isprintable():
        problems.append("name: has characters that cannot be printed.")
    if config.http.bind is not None and (why := unfit_host(config.http.bind.host)):
        problems.append(f"http.bind: {config.http.bind.host!r} {why}")
    if config.security.keys and config.security.insecure:
        problems.append(f"security: {KEYS_AND_INSECURE}")
    journal = config.journal
    if journal.retained_bytes_max is not None and journal.retained_bytes_max < 2 * journal.segment_bytes:
        problems.append("journal.retained_bytes_max: must be at least twice journal.segment_bytes, or nothing of it stays.")
    if "@" in config.name:
        problems.append("name: must not have an @, which stands between the name and the site where people read it.")
    if config.name != config.name.strip():
        problems.append("name: has white space around it.")
    if len(config.name) > NAME_CHARS_MAX:
        problems.append(f"name: must have at most {NAME_CHARS_MAX} characters, not {len(config.name)}.")
    return [*site_config.find_problems(config), *problems]


def _relay_problems(relay: RelaySettings) -> Iterator[str]:
    bridge = relay.bridge
    if bridge.bind is not None and bridge.bind.port == 0:
        yield "relay.bridge.bind: the other sites must know the port, so it cannot be 0."
    if bridge.bind is not None and (why := unfit_host(bridge.bind.host)):
        yield f"relay.bridge.bind: {bridge.bind.host!r} {why}"
    if bridge.unanswered_timeout_s > UNANSWERED_S_MAX:
        yield f"relay.bridge.unanswered_timeout_s: must be at most {UNANSWERED_S_MAX}."
    for index, place in enumerate(bridge.routers):
        if place.port == 0:
            yield f"relay.bridge.routers[{index}]: the port cannot be 0."
        if why := unfit_host(place.host):
            yield f"relay.bridge.routers[{index}]: {place.host!r} {why}"
        if _is_own(place, bridge.bind):
            yield f"relay.bridge.routers[{index}]: {place} is where this site listens itself (relay.bridge.bind)."
    if len(bridge.routers) > ROUTERS_MAX:
        yield f"relay.bridge.routers: names {len(bridge.routers)}, and {ROUTERS_MAX} are the most."
    for name in ("dial_timeout_s", "handshake_s"):
        if getattr(bridge, name) == 0:
            yield f"relay.bridge.{name}: must be more than 0."
    for site in [each for each in bridge.peers if not can_be_site(each)]:
        yield f"relay.bridge.peers: {site!r} cannot be a site: {UNFIT_SITE}"
    for site in [each for each in bridge.via if not can_be_site(each)]:
        yield f"relay.bridge.via: {site!r} cannot be a site: {UNFIT_SITE}"
    for site, places in bridge.peers.items():
        if not places:
            yield f"relay.bridge.peers.{site}: names no address."
        for index, place in enumerate(places):
            if place.port == 0:
                yield f"relay.bridge.peers.{site}[{index}]: the port cannot be 0."
            if why := unfit_host(place.host):
                yield f"relay.bridge.peers.{site}[{index}]: {place.host!r} {why}"
    if relay.unicast.give_up_s <= relay.unicast.retry_s:
        yield "relay.unicast.give_up_s: must be longer than relay.unicast.retry_s, or nothing is sent again."


def _budget_problems(config: NodeConfig) -> Iterator[str]:
    budget = config.relay.budget
    if not 0 < budget.entries <= ENTRIES_MAX:
        yield f"relay.budget.entries: must be from 1 to {ENTRIES_MAX}."
    held = config.held_bytes_max()
    yield from spill_problems(budget.spill, held, budget.age_s)
    # Half a frame, because in a merge a frame holds the entries of several parts of the site.
    frame = config.protocols.fragment.frame_bytes_max // 2
    if held > HELD_DATAGRAMS_MAX * config.transport.datagram_bytes_max:
        yield (
            f"relay.budget.bytes: must be at most {HELD_DATAGRAMS_MAX} times transport.datagram_bytes_max, "
            "because a joiner is handed all of it."
        )
    if held > frame:
        yield f"relay.budget.bytes: must be at most {frame}, half of protocols.fragment.frame_bytes_max."


def spill_problems(spill: SpillSettings, held_bytes: int, held_s: float) -> Iterator[str]:
    """What is wrong with these settings, beside a budget of so many bytes and seconds."""
    if not spill.directory:
        return
    if spill.bytes < 2 * held_bytes:
        yield f"relay.budget.spill.bytes: must be at least {2 * held_bytes}, twice relay.budget.bytes, or little is spilled."
    if spill.age_s < held_s:
        yield "relay.budget.spill.age_s: must be at least relay.budget.age_s, since what is younger is in memory."


def _peer_problems(config: NodeConfig) -> Iterator[str]:
    """A site that is reached where another is, or this one: its relay would call, and be turned away, for ever."""
    bridge, at = config.relay.bridge, dict[Physical, str]()
    others = [site for site in {**bridge.peers, **bridge.via} if site != config.site]
    for site in others:
        if site.casefold() == config.site.casefold():
            yield f"relay.bridge.peers: {site!r} differs from this site, {config.site!r}, in upper and lower case only."
    for site in [each for each in bridge.peers if each != config.site]:
        for index, place in enumerate(bridge.peers[site]):
            if _is_own(place, bridge.bind):
                yield f"relay.bridge.peers.{site}[{index}]: {place} is where this site listens itself (relay.bridge.bind)."
            elif place not in bridge.routers and at.setdefault(place, site) != site:
                yield f"relay.bridge.peers.{site}[{index}]: {place} is an address of {at[place]}, too; a relay is of one site."


def _is_own(place: Physical, bind: Physical | None) -> bool:
    """Whether a relay of this site listens there, whichever machine of it is asked."""
    if bind is None or place.port != bind.port:
        return False
    return place.host == bind.host or (bind.host == ANY_INTERFACE and place.host in LOOPBACK)


def _route_problems(config: NodeConfig) -> Iterator[str]:
    bridge = config.relay.bridge
    if [*bridge.peers] == [config.site]:
        yield f"relay.bridge.peers: names no site but {config.site}, and that is this one."
    for site, hop in bridge.via.items():
        if site in bridge.peers:
            yield f"relay.bridge.via.{site}: the site is among relay.bridge.peers, so it needs no route."
        if hop not in bridge.peers or hop == config.site:
            yield f"relay.bridge.via.{site}: {hop!r} is not among relay.bridge.peers."
    for site in config.relay.when_down:
        if site not in bridge.peers and site not in bridge.via:
            yield f"relay.when_down: {site!r} is neither among relay.bridge.peers nor in relay.bridge.via."
    for site in config.relay.state.sites:
        if site != config.site and site not in bridge.peers and site not in bridge.via:
            yield f"relay.state.sites: {site!r} is neither among relay.bridge.peers nor in relay.bridge.via."
    for site in bridge.forward:
        if site not in bridge.peers and site not in bridge.via:
            yield f"relay.bridge.forward: {site!r} is neither among relay.bridge.peers nor in relay.bridge.via."


def _link_problems(config: NodeConfig) -> Iterator[str]:
    link = config.relay.link
    if link.frame_bytes_max > config.protocols.fragment.frame_bytes_max:
        yield "relay.link.frame_bytes_max: must be at most protocols.fragment.frame_bytes_max, or what arrives stops the site."
    if link.frame_bytes_max * 2 < 3 * config.protocols.batching.message_bytes_max:
        yield "relay.link.frame_bytes_max: must be at least one and a half times protocols.batching.message_bytes_max."
    datagram, datagrams_max = config.transport.datagram_bytes_max, config.protocols.nakack.window_count_max
    arriving = datagrams_of(link.frame_bytes_max, datagram)
    if datagrams_of(config.protocols.batching.message_bytes_max, datagram) <= datagrams_max < arriving:
        yield (
            f"protocols.nakack.window_count_max: must be at least {arriving}, as many datagrams as a frame of "
            "relay.link.frame_bytes_max takes."
        )
    if link.timeout_s < 2 * link.heartbeat_s:
        yield "relay.link.timeout_s: must be at least twice relay.link.heartbeat_s, or one lost heartbeat cuts the link."
    for name in ("hello_s", "write_s", "frame_s"):
        if getattr(link, name) == 0:
            yield f"relay.link.{name}: must be more than 0."
    if 0 < link.chunk_bytes < CHUNK_BYTES_MIN:
        yield f"relay.link.chunk_bytes: must be at least {CHUNK_BYTES_MIN}."
    piece = link.chunk_bytes + ROUTED_OVERHEAD_BYTES
    if link.frame_bytes_max < piece:
        yield f"relay.link.frame_bytes_max: must be at least {piece}, a piece of a route (of relay.link.chunk_bytes)."
    waiting = min(link.window_bytes, ROUTE_WINDOW_BYTES) + link.frame_bytes_max
    if link.routed_bytes_max < waiting:
        yield f"relay.link.routed_bytes_max: must be at least {waiting}, the window of a route and relay.link.frame_bytes_max."
