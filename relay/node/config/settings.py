"""Configuration of a node: its site, and links to other sites. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from typing import Literal

from relay.gateway.config import GatewayConfig, LinkConfig, LinkPolicy, RoutesConfig
from relay.gateway.link_table import ROUTE_WINDOW_BYTES
from relay.gateway.wire import ROUTED_OVERHEAD_BYTES
from relay.journal.encoding import RECORD_BYTES_MAX
from relay.layer import RelayConfig
from relay.node.bridge.bridge import UNANSWERED_S_MAX, BridgeConfig
from relay.replica.config import BufferConfig, SpillSettings
from relay.replica.held_entries import ENTRIES_MAX
from relay.site_state.config import SiteStateConfig, SiteStateSettings
from relay.unicast.config import RemoteUnicastConfig
from sitestack import config as site_config
from sitestack.config import ANY_INTERFACE, ANY_IPV6, UNFIT_SITE, SiteConfig, can_be_site, datagrams_of
from sitestack.model.address import Physical
from sitestack.model.host import unfit_host
from sitestack.transport.router_link import ROUTERS_MAX

#: Characters of a member's name, which each HELLO contains. Generated names are shorter.
NAME_CHARS_MAX = 128
#: Least `relay.link.chunk_bytes`. Half a chunk is for unicasts, so a tiny chunk carries no data.
CHUNK_BYTES_MIN = 1_000

#: Least `relay.link.frame_bytes_max`: room for STATE.
FRAME_BYTES_MIN = 512 * 1024
SPILLED_BYTES_MAX = RECORD_BYTES_MAX - 1024 * 1024

#: Key that cannot be set -> the key that determines it.
DERIVED = {
    "protocols.sequencer.order": "order",
    "protocols.resolver.multicast": "transport.multicast",
    "protocols.fragment.fragment_bytes_max": "transport.datagram_bytes_max",
}
#: Maximum HTTP connections: their answers run in the event loop of the member.
HTTP_CONNECTIONS_MAX = 1_024
#: Maximum connections from other relays: the kernel queues no more.
BRIDGE_CONNECTIONS_MAX = 65_535
KEYS_AND_INSECURE = "`keys` and `insecure` are mutually exclusive; remove one."
#: Maximum datagrams of all entries held for other sites. A joiner receives them in about a second, while its
#: site waits.
HELD_DATAGRAMS_MAX = 16_384
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_BUFFER = BufferConfig()


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """Limits of entries held for unreachable sites; the oldest excess entries become gaps."""

    #: Maximum number of held batches and views: half a kilobyte each beside its messages. A joiner receives all
    #: of them.
    entries: int = _BUFFER.budget_entries
    #: Maximum held bytes, with an allowance for each entry. Default: 64 MiB, or 16,384 datagrams of
    #: `transport.datagram_bytes_max` if that is less.
    bytes: int | None = None
    #: Time from delivery until an entry is dropped.
    age_s: float = _BUFFER.budget_age_s
    spill: SpillSettings = field(default_factory=SpillSettings)


@dataclass(frozen=True, slots=True)
class RelaySettings(LinkPolicy):
    """Links of this site to others."""

    bridge: BridgeConfig = field(default_factory=BridgeConfig)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    #: Messages to one member of another site.
    unicast: RemoteUnicastConfig = field(default_factory=RemoteUnicastConfig)
    #: Transfer of the application's state from another site, for a member that cannot get it from its own.
    #: Needs `get_state` and `set_state`; `protocols.state_transfer` bounds the state.
    state: SiteStateSettings = field(default_factory=SiteStateSettings)


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Authentication of members, sites and routers."""

    #: Directory with the keys of the site (`relay keygen`). Required unless `insecure` is set.
    keys: str = ""
    #: Run without authentication: any host that reaches the ports can read and send.
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """The journal, a record of events at this node."""

    #: Directory of the segment files. Empty: no journal.
    directory: str = ""
    #: Size at which the next segment begins.
    segment_bytes: int = 64 << 20
    #: Record message bodies beside their digests, for analysis only.
    keep_payloads: bool = False
    #: Stop the node when a record cannot be written, instead of continuing without it.
    strict: bool = False
    #: Maximum bytes of this member's journals in the directory, of earlier processes too. The oldest segments
    #: beyond it are deleted, which is recorded.
    retained_bytes_max: int | None = None
    #: Age of a segment's last record at which the segment is deleted, or up to an eighth later.
    retained_s_max: float | None = None


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Health, status, metrics, dashboard, events and messages over HTTP."""

    #: Address to listen at, such as 127.0.0.1:7800. Unset: no HTTP.
    bind: Physical | None = None
    #: File with bearer tokens, one a line: the token, then optionally its name and rights
    #: (publish,read,operate; default: all). SIGHUP rereads it. Required if other machines can reach the port,
    #: unless `security.insecure` is set.
    token: str = ""
    #: PEM file with the certificate chain for HTTPS. SIGHUP rereads it. Empty: HTTP.
    certificate: str = ""
    #: PEM file with the private key of the certificate.
    private_key: str = ""
    #: Maximum connections, three eighths of them for streams of events. Beyond, only `/healthz` and `/readyz`
    #: are answered.
    connections_max: int = 128
    #: Maximum connections of one address, such as a proxy.
    address_connections_max: int = 96
    #: Member or site -> URL of another node's dashboard, for links on the page.
    dashboards: dict[str, str] = field(default_factory=dict)
    #: Log each request: path, status, duration, token name and client address.
    access_log: bool = False

    def url(self) -> str:
        """Return the URL for programs on this machine; empty without HTTP."""
        if self.bind is None:
            return ""
        host = {ANY_INTERFACE: "127.0.0.1", ANY_IPV6: "::1"}.get(self.bind.host, self.bind.host)
        return f"http{'s' if self.certificate else ''}://{Physical(host, self.bind.port)}"

    def streams_max(self) -> int:
        return self.connections_max * 3 // 8


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log, which goes to standard error."""

    #: Least urgent level that is logged.
    level: Literal["debug", "info", "warning", "error"] = "info"
    #: auto: readable text on a terminal, JSON lines elsewhere.
    format: Literal["auto", "console", "json"] = "auto"


@dataclass(frozen=True, slots=True)
class NodeConfig(SiteConfig):
    """One member of one site."""

    #: Logical name of the member. Empty: a name made from the host name.
    name: str = ""
    #: Links of this site to others. Without `relay.bridge.peers`, `bind` and `routers` the site has
    #: none.
    relay: RelaySettings = field(default_factory=RelaySettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    journal: JournalSettings = field(default_factory=JournalSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    log: LogSettings = field(default_factory=LogSettings)

    def peer_sites(self) -> tuple[str, ...]:
        """Return the other sites that are configured directly or by a route."""
        bridge = self.relay.bridge
        return tuple([site for site in {**bridge.peers, **bridge.via} if site != self.site])

    def neighbours(self) -> dict[str, tuple[Physical, ...]]:
        """Return the addresses of each directly linked site, without this site."""
        return {site: places for site, places in self.relay.bridge.peers.items() if site != self.site}

    def has_bridge(self) -> bool:
        """Return whether this site connects to relays of other sites or accepts them."""
        return bool(self.peer_sites()) or self.relay.bridge.bind is not None or bool(self.relay.bridge.routers)

    def held_bytes_max(self) -> int:
        """Return the maximum bytes held for other sites, configured or default."""
        given = self.relay.budget.bytes
        carried = HELD_DATAGRAMS_MAX * self.transport.datagram_bytes_max
        return min(_BUFFER.budget_bytes, carried) if given is None else given

    def relay_layer(self) -> RelayConfig:
        """Return the configuration of the relay layer, without this site."""
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
    """Return all problems as sentences that begin with the path of a key."""
    problems = [
        *_relay_problems(config.relay),
        *_budget_problems(config),
        *_peer_problems(config),
        *_route_problems(config),
        *_offline_problems(config),
        *_link_problems(config),
    ]
    if not config.name.isprintable():
        problems.append("name: has characters that cannot be printed.")
    if config.http.bind is not None and (why := unfit_host(config.http.bind.host)):
        problems.append(f"http.bind: {config.http.bind.host!r} {why}")
    if not 1 <= config.http.address_connections_max <= config.http.connections_max <= HTTP_CONNECTIONS_MAX:
        problems.append(
            "http.connections_max: must be at least http.address_connections_max, that at least 1, and both at most "
            f"{HTTP_CONNECTIONS_MAX}."
        )
    if bool(config.http.certificate) != bool(config.http.private_key):
        problems.append("http.certificate: needs http.private_key, and that needs the certificate.")
    if config.security.keys and config.security.insecure:
        problems.append(f"security: {KEYS_AND_INSECURE}")
    journal = config.journal
    if journal.retained_bytes_max is not None and journal.retained_bytes_max < 2 * journal.segment_bytes:
        problems.append("journal.retained_bytes_max: must be at least twice journal.segment_bytes, or all is deleted.")
    if "@" in config.name:
        problems.append("name: must not contain @, which separates name and site.")
    if config.name != config.name.strip():
        problems.append("name: has white space around it.")
    if len(config.name) > NAME_CHARS_MAX:
        problems.append(f"name: must have at most {NAME_CHARS_MAX} characters, not {len(config.name)}.")
    return [*site_config.find_problems(config), *problems]


def _relay_problems(relay: RelaySettings) -> Iterator[str]:
    bridge = relay.bridge
    if bridge.bind is not None:
        yield from _place_problems("relay.bridge.bind", bridge.bind)
    if bridge.unanswered_timeout_s > UNANSWERED_S_MAX:
        yield f"relay.bridge.unanswered_timeout_s: must be at most {UNANSWERED_S_MAX}."
    for name in ("connections_max", "pending_max"):
        if getattr(bridge, name) > BRIDGE_CONNECTIONS_MAX:
            yield f"relay.bridge.{name}: must be at most {BRIDGE_CONNECTIONS_MAX}."
    for index, place in enumerate(bridge.routers):
        yield from _place_problems(f"relay.bridge.routers[{index}]", place)
        if _is_own(place, bridge.bind):
            yield f"relay.bridge.routers[{index}]: {place} is the address of this site itself (relay.bridge.bind)."
    if len(bridge.routers) > ROUTERS_MAX:
        yield f"relay.bridge.routers: names {len(bridge.routers)}, but at most {ROUTERS_MAX} are allowed."
    for site in [each for each in bridge.peers if not can_be_site(each)]:
        yield f"relay.bridge.peers: {site!r} cannot be a site: {UNFIT_SITE}"
    for site in [each for each in bridge.via if not can_be_site(each)]:
        yield f"relay.bridge.via: {site!r} cannot be a site: {UNFIT_SITE}"
    for site, places in bridge.peers.items():
        if not places:
            yield f"relay.bridge.peers.{site}: names no address."
        for index, place in enumerate(places):
            yield from _place_problems(f"relay.bridge.peers.{site}[{index}]", place)
    if relay.unicast.give_up_s <= relay.unicast.retry_s:
        yield "relay.unicast.give_up_s: must be longer than relay.unicast.retry_s, or no message is retransmitted."


def _place_problems(key: str, place: Physical) -> Iterator[str]:
    if place.port == 0:
        yield f"{key}: the port cannot be 0."
    if why := unfit_host(place.host):
        yield f"{key}: {place.host!r} {why}"


def _budget_problems(config: NodeConfig) -> Iterator[str]:
    budget = config.relay.budget
    if not 0 < budget.entries <= ENTRIES_MAX:
        yield f"relay.budget.entries: must be from 1 to {ENTRIES_MAX}."
    held = config.held_bytes_max()
    yield from spill_problems(budget.spill, held, budget.age_s)
    if budget.spill.directory and config.protocols.batching.message_bytes_max > SPILLED_BYTES_MAX:
        yield f"protocols.batching.message_bytes_max: must be at most {SPILLED_BYTES_MAX} with relay.budget.spill.directory."
    # In a merge, one frame holds the entries of several parts of the site; hence half.
    frame = config.protocols.fragment.frame_bytes_max // 2
    if held > HELD_DATAGRAMS_MAX * config.transport.datagram_bytes_max:
        yield (
            f"relay.budget.bytes: must be at most {HELD_DATAGRAMS_MAX} times transport.datagram_bytes_max, "
            "because a joiner receives all of it."
        )
    if held > frame:
        yield f"relay.budget.bytes: must be at most {frame}, half of protocols.fragment.frame_bytes_max."


def spill_problems(spill: SpillSettings, held_bytes: int, held_s: float) -> Iterator[str]:
    """Yield the problems of spill settings beside a budget of `held_bytes` and `held_s`."""
    if not spill.directory:
        return
    if spill.bytes < 2 * held_bytes:
        yield f"relay.budget.spill.bytes: must be at least {2 * held_bytes}, twice relay.budget.bytes, or little is spilled."
    if spill.age_s < held_s:
        yield "relay.budget.spill.age_s: must be at least relay.budget.age_s, since younger entries are in memory."


def _peer_problems(config: NodeConfig) -> Iterator[str]:
    """Yield peers whose address or name belongs to another site or this one."""
    bridge, at = config.relay.bridge, dict[Physical, str]()
    for site in config.peer_sites():
        if site.casefold() == config.site.casefold():
            key = "peers" if site in bridge.peers else "via"
            yield f"relay.bridge.{key}: {site!r} differs from this site, {config.site!r}, in upper and lower case only."
    for site in [each for each in bridge.peers if each != config.site]:
        for index, place in enumerate(bridge.peers[site]):
            if place.host in (ANY_INTERFACE, ANY_IPV6):
                yield f"relay.bridge.peers.{site}[{index}]: {place.host} leads each machine to itself; name the host of {site}."
            elif _is_own(place, bridge.bind):
                yield f"relay.bridge.peers.{site}[{index}]: {place} is the address of this site itself (relay.bridge.bind)."
            elif place not in bridge.routers and at.setdefault(place, site) != site:
                yield f"relay.bridge.peers.{site}[{index}]: {place} is also an address of {at[place]}; a relay serves one site."


def _is_own(place: Physical, bind: Physical | None) -> bool:
    """Return whether a relay of this site, on any of its machines, listens at this address."""
    if bind is None or place.port != bind.port:
        return False
    return place.host == bind.host or (bind.host in (ANY_INTERFACE, ANY_IPV6) and place.host in LOOPBACK)


def _route_problems(config: NodeConfig) -> Iterator[str]:
    bridge = config.relay.bridge
    if [*bridge.peers] == [config.site]:
        yield f"relay.bridge.peers: names no site but {config.site}, which is this site."
    for site, hop in bridge.via.items():
        if site in bridge.peers:
            yield f"relay.bridge.via.{site}: the site is among relay.bridge.peers, so it needs no route."
        if hop not in bridge.peers or hop == config.site:
            yield f"relay.bridge.via.{site}: {hop!r} is not among relay.bridge.peers."
    relay = config.relay
    named: dict[str, Iterable[str]] = {
        "relay.when_down": relay.when_down,
        "relay.offline_after_s": relay.offline_after_s,
        "relay.state.sites": [site for site in relay.state.sites if site != config.site],
        "relay.bridge.forward": bridge.forward,
    }
    for key, sites in named.items():
        for site in sites:
            if site not in bridge.peers and site not in bridge.via:
                yield f"{key}: {site!r} is neither among relay.bridge.peers nor in relay.bridge.via."


def _offline_problems(config: NodeConfig) -> Iterator[str]:
    relay = config.relay
    if relay.offline_after_s and config.membership.when_split != "majority":
        yield "relay.offline_after_s: needs membership.when_split: majority, or a part of a split site decides for all of it."
    for site, after_s in relay.offline_after_s.items():
        if after_s <= relay.grace_s:
            yield f"relay.offline_after_s.{site}: must be more than relay.grace_s, or a failover there takes the site offline."


def _link_problems(config: NodeConfig) -> Iterator[str]:
    link = config.relay.link
    if link.frame_bytes_max > config.protocols.fragment.frame_bytes_max:
        yield "relay.link.frame_bytes_max: must be at most protocols.fragment.frame_bytes_max, or a frame can stop the site."
    if link.frame_bytes_max < FRAME_BYTES_MIN:
        yield f"relay.link.frame_bytes_max: must be at least {FRAME_BYTES_MIN}, or STATE may not fit."
    if link.frame_bytes_max * 2 < 3 * config.protocols.batching.message_bytes_max:
        yield "relay.link.frame_bytes_max: must be at least one and a half times protocols.batching.message_bytes_max."
    datagram, datagrams_max = config.transport.datagram_bytes_max, config.protocols.nakack.window_count_max
    arriving = datagrams_of(link.frame_bytes_max, datagram)
    if datagrams_of(config.protocols.batching.message_bytes_max, datagram) <= datagrams_max < arriving:
        yield (
            f"protocols.nakack.window_count_max: must be at least {arriving}, as many datagrams as a frame of "
            "relay.link.frame_bytes_max takes."
        )
    budget = config.held_bytes_max()
    if link.window_bytes > budget // 2 and link.window_bytes != LinkConfig().window_bytes:
        yield f"relay.link.window_bytes: must be at most {budget // 2}, half of relay.budget.bytes."
    least = config.relay.pace_min_bytes_s
    if link.rate_max_bytes_s is not None and link.rate_max_bytes_s < least:
        yield f"relay.link.rate_max_bytes_s: must be at least {least}, relay.pace_min_bytes_s, or no sender waits for the site."
    if link.compress is not None and find_spec("zstandard") is None:
        yield "relay.link.compress: needs the package zstandard; install it (pip install zstandard), or unset the key."
    if link.timeout_s < 2 * link.heartbeat_s:
        yield "relay.link.timeout_s: must be at least twice relay.link.heartbeat_s, or one lost heartbeat cuts the link."
    if 0 < link.chunk_bytes < CHUNK_BYTES_MIN:
        yield f"relay.link.chunk_bytes: must be at least {CHUNK_BYTES_MIN}."
    piece = link.chunk_bytes + ROUTED_OVERHEAD_BYTES
    if link.frame_bytes_max < piece:
        yield f"relay.link.frame_bytes_max: must be at least {piece}, a piece of a route (of relay.link.chunk_bytes)."
    waiting = min(link.window_bytes, ROUTE_WINDOW_BYTES) + link.frame_bytes_max
    if link.routed_bytes_max < waiting:
        yield f"relay.link.routed_bytes_max: must be at least {waiting}, the window of a route and relay.link.frame_bytes_max."
