"""The configuration of a site: values only. `find_problems` lists conflicts."""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from sitestack.layers.batching import SIZE_BYTES, BatchingConfig
from sitestack.layers.discovery import DiscoveryConfig
from sitestack.layers.failure_detection import FailureDetectionConfig
from sitestack.layers.flow_control import FlowControlConfig
from sitestack.layers.fragment import FragmentConfig
from sitestack.layers.fragment.headers import PIECE_OVERHEAD_BYTES
from sitestack.layers.membership import MembershipConfig
from sitestack.layers.nakack import NakAckConfig
from sitestack.layers.path_mtu import PathMtuConfig
from sitestack.layers.resolver import ResolverConfig
from sitestack.layers.sequencer import SequencerConfig
from sitestack.layers.short_ids import ShortIdsConfig
from sitestack.layers.stability import StabilityConfig
from sitestack.layers.state_transfer import StateTransferConfig
from sitestack.layers.unicast import UnicastConfig
from sitestack.model.address import Physical
from sitestack.model.address_cache import PHYSICAL_MAX
from sitestack.model.host import ip_version, is_address, unfit_host
from sitestack.seal.envelope import OVERHEAD_BYTES
from sitestack.wire.codec import DATAGRAM_BYTES_MAX

Order = Literal["total", "fifo"]
TransportKind = Literal["udp", "tcp", "tunnel"]
Agreement = Literal["survivors", "uniform"]

#: Smaller datagrams have no room for the headers of a view of a few dozen members.
DATAGRAM_BYTES_MIN = 1_024
#: Maximum overhead of a message in a frame: its batch's size table and identity, and the headers.
MESSAGE_OVERHEAD_BYTES = 1024 * 1024
#: Room in each datagram for the headers of the layers below fragmentation and of the datagram.
HEADERS_BELOW_BYTES = 256
#: Bytes of the largest message in which a member tells all locks of its site (`structures/locks.py`).
LOCKS_BYTES_MAX = 1024 * 1024
SITE_CHARS_MAX = 64
#: The largest buffer that the kernel grants.
BUFFER_BYTES_MAX = 1 << 30
#: Why `can_be_site` returns False.
UNFIT_SITE = (
    f"a site's name has 1 to {SITE_CHARS_MAX} printable characters, none of them white space or one of / = @ , >, "
    "and does not begin with a dot."
)
#: Bind to all interfaces; neither is a member's address. With `ANY_IPV6` servers also accept IPv4.
ANY_INTERFACE, ANY_IPV6 = "0.0.0.0", "::"
#: With the first interface and its external address, the maximum of a contact.
MORE_INTERFACES_MAX = PHYSICAL_MAX - 2
#: Reference intervals: heartbeats and retransmissions.
_HEARTBEAT = "protocols.failure_detection.heartbeat_interval_s"
_REPEATED = "protocols.unicast.retransmit_interval_s"
#: Suffixes of the names of bounds, intervals and waits.
POSITIVE: tuple[str, ...] = ("_max", "bytes", "_interval_s", "_attempts", "heartbeat_s", "_hold_s", "dial_s", "retry_s")
POSITIVE += ("ask_delay_s", "dial_timeout_s", "handshake_s", "hello_s", "write_s", "frame_s", "max_bytes_s")


@dataclass(frozen=True, slots=True)
class TransportConfig:
    """The sockets of a member."""

    #: tcp where the network blocks UDP: without multicast, so `discovery.initial_hosts` must name some
    #: members. tunnel where members accept no connections: all datagrams go through `discovery.routers`. The
    #: same for all members of the site.
    kind: TransportKind = "udp"
    #: Address, name, or subnet (10.1.0.0/24) of the network interface. Empty: the one on the route to the
    #: group, or else to an initial host.
    interface: str = ""
    #: Use IPv6 in all of the site. For both versions, name an address or subnet of IPv4 in `more_interfaces`.
    ipv6: bool = False
    #: With udp: further interfaces. Every multicast leaves by all of them, so one network may fail.
    more_interfaces: tuple[str, ...] = ()
    #: UDP port of this member, and TCP port of watch connections; 0: one that is free in both. Set it for a
    #: firewall, or if `discovery.initial_hosts` names this member.
    port: int = 0
    #: Whether the network carries IP multicast. Most clouds and container networks do not; then name some
    #: members in `discovery.initial_hosts`.
    multicast: bool = True
    #: The multicast group. Empty: derived from the site's name; with IPv6 of site scope (ff15::).
    multicast_group: str = ""
    #: UDP port of the group, the same for all members.
    multicast_port: int = 7_600
    #: Maximum routers that a multicast crosses, plus one.
    multicast_ttl_hops: int = 1
    #: Maximum size of a datagram, with its seal. Large ones cost less, but one lost IP fragment loses all:
    #: use 1,400 on lossy networks.
    datagram_bytes_max: int = 60_000
    #: Kernel buffer for received datagrams. Above the system's limit it needs privileges; statistics report
    #: its size.
    receive_buffer_bytes: int = 8 << 20
    #: Kernel buffer for datagrams to send.
    send_buffer_bytes: int = 2 << 20
    #: Queue while the kernel's buffer is full. Further datagrams are dropped and retransmitted.
    send_queue_bytes_max: int = 4 << 20
    #: Maximum datagrams read in a turn, so that a flood cannot starve timers.
    receive_datagrams_max: int = 256
    #: The address at which others reach this member, with address translation. Peers without a response from
    #: it try the interface's address.
    external_host: str = ""
    #: The port that belongs to it; 0: the same.
    external_port: int = 0
    #: With tcp: time after which an idle connection closes. It reopens on demand.
    connection_idle_s_max: float = 30.0

    @property
    def has_multicast(self) -> bool:
        """Whether one datagram can reach all members."""
        return self.kind == "tunnel" or (self.multicast and self.kind == "udp")

    def group(self, site: str, version: int = 0) -> Physical:
        """Return the multicast group of a site. `version`: IP version of an interface, if it differs."""
        number = zlib.crc32(site.encode())
        host = f"239.192.{number >> 8 & 0xFF}.{number & 0xFF}"
        if (version or self.version_at(self.interface)) == 6:
            host = f"ff15::{number >> 16:x}:{number & 0xFFFF:x}"
        return Physical(self.multicast_group or host, self.multicast_port)

    def version_at(self, interface: str) -> int:
        """Return the IP version of sockets at this interface."""
        return ip_version(interface) or (6 if self.ipv6 else 4)

    @property
    def ip_versions(self) -> frozenset[int]:
        """Return the IP versions of the addresses to which this member can send."""
        return frozenset(map(self.version_at, (self.interface, *self.more_interfaces)))


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """The application's interface."""

    #: Maximum time to open a channel: find members, join, and install the first view.
    join_timeout_s: float = 60.0
    #: Time for which a member retries while no name of `discovery` resolves; then it starts alone. With an
    #: empty `transport.interface` it also waits this long for a network, and fails without one.
    resolve_timeout_s: float = 10.0
    #: Interval at which these names are resolved again.
    resolve_interval_s: float = 10.0
    #: If an application does not read while `protocols.flow_control.backlog_bytes_max` wait for it, all
    #: senders of its site stop. Then its member leaves (exclude), or skips messages as gaps (gap), or all
    #: senders wait without limit (slow).
    backlog_policy: Literal["exclude", "gap", "slow"] = "exclude"
    #: Time that its site waits before the policy applies.
    backlog_hold_s: float = 10.0


@dataclass(frozen=True, slots=True)
class ProtocolsConfig:
    """The protocols that hardly ever need tuning."""

    #: How messages become batches.
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    state_transfer: StateTransferConfig = field(default_factory=StateTransferConfig)
    #: Total order through the coordinator.
    sequencer: SequencerConfig = field(default_factory=SequencerConfig)
    #: Lead of senders over receivers, which fills the buffers of a slow receiver and of all members.
    flow_control: FlowControlConfig = field(default_factory=FlowControlConfig)
    stability: StabilityConfig = field(default_factory=StabilityConfig)
    #: Messages that are larger than a datagram.
    fragment: FragmentConfig = field(default_factory=FragmentConfig)
    #: Reliable messages between two members.
    unicast: UnicastConfig = field(default_factory=UnicastConfig)
    #: Reliable multicast: receivers request lost datagrams.
    nakack: NakAckConfig = field(default_factory=NakAckConfig)
    #: Detection of dead members. By default a silent member is suspected after 3.5 to 4 seconds, a killed one
    #: at once.
    failure_detection: FailureDetectionConfig = field(default_factory=FailureDetectionConfig)
    #: The largest datagram that reaches a member.
    path_mtu: PathMtuConfig = field(default_factory=PathMtuConfig)
    #: Where members are: from addresses to hosts and ports.
    resolver: ResolverConfig = field(default_factory=ResolverConfig)
    #: Numbers of two bytes on the wire in place of uuids.
    short_ids: ShortIdsConfig = field(default_factory=ShortIdsConfig)


@dataclass(frozen=True, slots=True)
class SiteConfig:
    """One site. The same for all its members, except for the machine's settings in `transport`."""

    #: The name of the site. Members ignore other sites.
    site: str = ""
    #: total: one order for all members. fifo: one for each sender, which saves one hop.
    order: Order = "total"
    #: Members that agree on deliveries: survivors; or (uniform) crashed ones too, at the cost of a wait until
    #: each message is stable.
    agreement: Agreement = "survivors"
    transport: TransportConfig = field(default_factory=TransportConfig)
    #: How members find each other.
    discovery: DiscoveryConfig = field(default_factory=DiscoveryConfig)
    #: How members join, leave and are excluded.
    membership: MembershipConfig = field(default_factory=MembershipConfig)
    channel: ChannelConfig = field(default_factory=ChannelConfig)
    protocols: ProtocolsConfig = field(default_factory=ProtocolsConfig)

    @property
    def parameters(self) -> str:
        """Parameters that all members must share, as text: with others they would not deliver the same."""
        members = self.membership.members
        split = "" if self.membership.when_split == "both" else f", when_split majority of {members} members"
        return f"order {self.order}, agreement {self.agreement}{split}"


def lan(site: str) -> SiteConfig:
    """Return the defaults: several machines on one network that carries multicast."""
    return SiteConfig(site=site)


def local(site: str) -> SiteConfig:
    """Return a configuration for members on one machine, over the loopback interface."""
    return SiteConfig(site=site, transport=TransportConfig(interface="127.0.0.1"))


def named_hosts(site: str, initial_hosts: tuple[Physical, ...], port: int) -> SiteConfig:
    """Return a configuration without multicast: some members, at a fixed port, name the others."""
    return SiteConfig(
        site=site,
        transport=TransportConfig(multicast=False, port=port, datagram_bytes_max=1_400),
        discovery=DiscoveryConfig(initial_hosts=initial_hosts),
    )


def find_problems(config: SiteConfig) -> list[str]:
    """Return all problems of a configuration: sentences that begin with the path of a key."""
    return [
        *_site_problems(config),
        *_size_problems(config),
        *_transport_problems(config.transport),
        *implausible_numbers(config),
    ]


def datagrams_of(message_bytes: int, datagram_bytes_max: int) -> int:
    """Return the maximum number of datagrams for a frame with a message of this size."""
    datagram_bytes = max(datagram_bytes_max, DATAGRAM_BYTES_MIN) - OVERHEAD_BYTES  # leaves room for the seal
    piece_bytes = datagram_bytes - HEADERS_BELOW_BYTES - PIECE_OVERHEAD_BYTES
    return -(-(message_bytes + MESSAGE_OVERHEAD_BYTES) // piece_bytes)


def can_be_site(name: str) -> bool:
    """Return whether a site may have this name, which also occurs in a path of keys, RELAY_PEERS and addresses."""
    is_plain = name.isprintable() and not any(each.isspace() or each in "/=@,>" for each in name)
    return 0 < len(name) <= SITE_CHARS_MAX and is_plain and not name.startswith(".")


def _site_problems(config: SiteConfig) -> Iterator[str]:
    if not config.site:
        yield "site: the site has no name."
    elif not can_be_site(config.site):
        yield f"site: {UNFIT_SITE}"
    discovery = config.discovery
    named = discovery.initial_hosts or discovery.routers or discovery.dns is not None
    if not config.transport.has_multicast and not named:
        yield (
            "discovery.initial_hosts: without multicast name some members here, all of them by discovery.dns, "
            "or gossip routers by discovery.routers; otherwise members cannot find each other."
        )
    yield from _router_problems(config)
    if discovery.dns is not None and discovery.dns.port == 0:
        yield "discovery.dns: the port cannot be 0; it is the transport.port of all members."
    for at, places in (("initial_hosts", discovery.initial_hosts), ("routers", discovery.routers)):
        for index, place in enumerate(places):
            if why := unfit_host(place.host):
                yield f"discovery.{at}[{index}]: {place.host!r} {why}"
            elif place.host in (ANY_INTERFACE, ANY_IPV6):
                yield f"discovery.{at}[{index}]: {place.host} leads each machine to itself; name a host."
            elif why := _other_version(place.host, config.transport.ip_versions):
                yield f"discovery.{at}[{index}]: {why}"
    if discovery.dns is not None and (why := unfit_host(discovery.dns.host)):
        yield f"discovery.dns: {discovery.dns.host!r} {why}"
    protocols = config.protocols
    detection = protocols.failure_detection
    if config.membership.leader.flush_timeout_s <= detection.timeout_s + detection.verify_timeout_s:
        yield (
            "membership.leader.flush_timeout_s: must be longer than protocols.failure_detection.timeout_s and "
            "verify_timeout_s together, or members are left out that are only slow."
        )
    if detection.timeout_s < 2 * detection.heartbeat_interval_s:
        yield (
            "protocols.failure_detection.timeout_s: must be at least twice protocols.failure_detection.heartbeat_interval_s, "
            "or one lost heartbeat makes a member suspect."
        )
    if protocols.fragment.idle_s <= protocols.unicast.give_up_s:
        yield "protocols.fragment.idle_s: must be longer than protocols.unicast.give_up_s; otherwise late pieces are dropped."
    membership = config.membership
    if membership.when_split == "majority" and membership.members < 2:
        yield "membership.members: with membership.when_split majority, give the number of members of the complete site."
    if membership.when_split == "both" and membership.members:
        yield "membership.members: only membership.when_split majority reads it; remove it, or set majority."
    locks = (membership.when_split, config.agreement, config.order) == ("majority", "uniform", "total")
    if locks and protocols.batching.message_bytes_max < LOCKS_BYTES_MAX:
        yield "protocols.batching.message_bytes_max: at least 1 MiB, since the members exchange their locks in one message."
    yield from _pace_problems(config)


def _pace_problems(config: SiteConfig) -> Iterator[str]:
    """Yield timeouts that expire before the second attempt, so that one lost datagram decides; and early tombstones."""
    resolver, unicast = config.protocols.resolver, config.protocols.unicast
    heartbeat_s, quarantine = config.protocols.failure_detection.heartbeat_interval_s, config.membership.quarantine
    for place, limit_s, pace, pace_s in (
        ("membership.quarantine.silence_s", quarantine.silence_s, _HEARTBEAT, heartbeat_s),
        ("discovery.stranger_s", config.discovery.stranger_s, _HEARTBEAT, heartbeat_s),
        ("protocols.resolver.give_up_s", resolver.give_up_s, "protocols.resolver.ask_interval_s", resolver.ask_interval_s),
        ("protocols.unicast.give_up_s", unicast.give_up_s, f"{_REPEATED}_max", unicast.retransmit_interval_s_max),
        ("protocols.unicast.linger_s", unicast.linger_s, _REPEATED, unicast.retransmit_interval_s),
    ):
        if limit_s < 2 * pace_s:
            yield f"{place}: must be at least twice {pace}, or one lost datagram decides."
    if quarantine.limit_s < quarantine.silence_s:
        yield "membership.quarantine.limit_s: must not be less than membership.quarantine.silence_s."
    if unicast.tombstone_s <= max(unicast.give_up_s, unicast.idle_s):
        yield (
            "protocols.unicast.tombstone_s: must be longer than protocols.unicast.give_up_s and idle_s; "
            "otherwise retransmissions are delivered twice."
        )


def _router_problems(config: SiteConfig) -> Iterator[str]:
    discovery = config.discovery
    for index, place in enumerate(discovery.routers):
        if place.port == 0:
            yield f"discovery.routers[{index}]: the port cannot be 0."
    if config.transport.kind == "tunnel" and not discovery.routers:
        yield "discovery.routers: with transport.kind tunnel all goes through routers, so name at least one."
    if config.transport.kind == "tunnel" and (discovery.initial_hosts or discovery.dns is not None):
        yield "discovery.initial_hosts, discovery.dns: with transport.kind tunnel all goes through routers, so name none."


def _size_problems(config: SiteConfig) -> Iterator[str]:
    protocols = config.protocols
    batching, fragment = protocols.batching, protocols.fragment
    if batching.batch_bytes_max > protocols.flow_control.window_bytes:
        yield "protocols.batching.batch_bytes_max: a batch must fit into protocols.flow_control.window_bytes."
    if batching.message_bytes_max > protocols.flow_control.backlog_bytes_max:
        yield "protocols.batching.message_bytes_max: a message must fit into protocols.flow_control.backlog_bytes_max."
    if fragment.frame_bytes_max < batching.message_bytes_max + MESSAGE_OVERHEAD_BYTES:
        yield "protocols.fragment.frame_bytes_max: must be at least 1 MiB more than protocols.batching.message_bytes_max."
    if fragment.partial_bytes_max < 2 * fragment.frame_bytes_max:
        yield "protocols.fragment.partial_bytes_max: must be at least twice protocols.fragment.frame_bytes_max."
    body = max(batching.message_bytes_max + SIZE_BYTES, batching.batch_bytes_max)
    # Two scopes: each may send a batch while it has none in transit.
    sent = batching.window_bytes + 2 * body
    if protocols.sequencer.undelivered_bytes_max < sent:
        yield (
            f"protocols.sequencer.undelivered_bytes_max: must be at least {sent}, protocols.batching.window_bytes and two "
            "of the largest batches."
        )
    # Only whole frames become stable: a frame with more numbers than a stream may have would block
    # it forever.
    datagrams = datagrams_of(body, config.transport.datagram_bytes_max)
    if protocols.nakack.window_count_max < datagrams:
        yield (
            f"protocols.nakack.window_count_max: must be at least {datagrams}, as many datagrams of "
            "transport.datagram_bytes_max as a message of protocols.batching.message_bytes_max takes."
        )
    forwarded = 2 * (body + MESSAGE_OVERHEAD_BYTES)
    if protocols.unicast.queue_bytes_max < forwarded:
        yield f"protocols.unicast.queue_bytes_max: must be at least {forwarded}, twice the largest batch and 1 MiB."


def _transport_problems(config: TransportConfig) -> Iterator[str]:
    for name in ("port", "multicast_port", "external_port"):
        if not 0 <= getattr(config, name) < 65_536:
            yield f"transport.{name}: a port is a number from 0 to 65535."
    if config.multicast and config.multicast_port == 0:
        yield "transport.multicast_port: all members must share one port, so it cannot be 0."
    if config.multicast_group and not _is_group(config.multicast_group):
        yield "transport.multicast_group: must be a multicast address, such as 239.192.0.1 or ff15::1."
    host, anywhere = config.external_host, (ANY_INTERFACE, ANY_IPV6)
    if host and (not is_address(host) or _is_group(host) or host in anywhere):
        yield "transport.external_host: must be an IPv4 or IPv6 address of one host."
    if config.interface in anywhere and not config.external_host:
        yield (
            f"transport.interface: {config.interface} is no address at which others reach this member; "
            "name one, or set transport.external_host."
        )
    yield from _interface_problems(config)
    for name in ("receive_buffer_bytes", "send_buffer_bytes"):
        if getattr(config, name) > BUFFER_BYTES_MAX:
            yield f"transport.{name}: at most {BUFFER_BYTES_MAX}."
    if config.multicast_ttl_hops > 255:
        yield "transport.multicast_ttl_hops: at most 255."
    if not DATAGRAM_BYTES_MIN <= config.datagram_bytes_max <= DATAGRAM_BYTES_MAX:
        yield f"transport.datagram_bytes_max: must be from {DATAGRAM_BYTES_MIN} to {DATAGRAM_BYTES_MAX}."
    if config.send_queue_bytes_max < config.datagram_bytes_max:
        yield "transport.send_queue_bytes_max: must hold at least one datagram of transport.datagram_bytes_max."


def _interface_problems(config: TransportConfig) -> Iterator[str]:
    more = config.more_interfaces
    for name in ("interface", "external_host", "multicast_group"):
        if why := _other_version(getattr(config, name), frozenset([6 if config.ipv6 else 4])):
            yield f"transport.{name}: {why}"
    if config.multicast_group and len(config.ip_versions) > 1:
        yield "transport.multicast_group: IPv4 and IPv6 use different groups; leave it empty."
    if config.ipv6 and config.interface == "::1" and config.multicast and config.kind == "udp":
        yield "transport.multicast: the interface ::1 has none; set it to false and name discovery.initial_hosts."
    if more and config.kind != "udp":
        yield f"transport.more_interfaces: only udp can use several interfaces, not {config.kind}."
    if len(more) > MORE_INTERFACES_MAX:
        yield f"transport.more_interfaces: at most {MORE_INTERFACES_MAX}."
    for index, each in enumerate(more):
        place = f"transport.more_interfaces[{index}]"
        if each in ("", ANY_INTERFACE, ANY_IPV6):
            yield f"{place}: {each!r} is no interface; name one by its address, its name or its subnet."
        elif each == config.interface or each in more[:index]:
            yield f"{place}: {each!r} is named already."


def _other_version(host: str, versions: frozenset[int]) -> str:
    """Return why sockets of these IP versions cannot use this address; empty if they can, or for a name."""
    version = ip_version(host)
    if not version or version in versions:
        return ""
    return f"{host} is of IPv6; set transport.ipv6." if version == 6 else f"{host} is of IPv4, but transport.ipv6 is set."


def _is_group(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_multicast
    except ValueError:
        return False


def implausible_numbers(config: Any, path: str = "") -> Iterator[str]:
    """Yield negative numbers, and bounds and intervals of zero, in any configuration.

    A value that grows to a maximum must not begin above it.
    """
    for each in fields(config):
        value = getattr(config, each.name)
        place = f"{path}.{each.name}" if path else each.name
        if is_dataclass(value):
            yield from implausible_numbers(value, place)
        elif isinstance(value, int | float) and value < 0:
            yield f"{place}: must not be negative."
        elif value == 0 and type(value) is not bool and each.name.endswith(POSITIVE):
            yield f"{place}: must be more than 0."
        elif hasattr(config, f"{each.name}_max") and getattr(config, f"{each.name}_max") < value:
            yield f"{place}_max: must not be less than {place}."
