"""The protocol stacks of JGroups as a peer, as XML. Pure.

Set are only large datagrams, socket buffers of 4 MB, and bundling for rates but not for round trips.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

Protocol = tuple[str, Mapping[str, object]]

_BUFFERS = {f"{kind}_{side}_buf_size": "4M" for kind in ("ucast", "mcast") for side in ("recv", "send")}
#: The largest bundle, and the largest fragment, which must fit into it.
_BUNDLE, _FRAGMENT = 60_000, 59_000


@dataclass(frozen=True, slots=True)
class StackPlan:
    total_order: bool
    #: Whether single messages are waited for, not many sent.
    trips: bool
    multicast_group: str
    multicast_port: int
    #: Its site, when it is one of two; else empty.
    site: str = ""
    #: The ports of the bridge, its own first.
    bridge_ports: Sequence[int] = ()


def stack_5(plan: StackPlan, sites_file: str) -> str:
    """Return the stack of a member. JGroups 5 has windows with acknowledgements instead of credits."""
    bundler = "no-bundler" if plan.trips else "transfer-queue" if plan.total_order else "per-destination"
    atomic = {"send_atomically": True} if plan.total_order else {}
    group = {"mcast_addr": plan.multicast_group, "mcast_port": plan.multicast_port, "ip_ttl": 0}
    protocols: list[Protocol] = [
        ("UDP", {**group, **_BUFFERS, **_transport_5(bundler)}),
        ("PING", {}),
        ("MERGE3", {}),
        *_watching_5(),
        ("NAKACK4", {"capacity": 1024, **atomic}),
        ("UNICAST4", {"capacity": 8192, **atomic}),
        ("pbcast.GMS", {"print_local_addr": False, "join_timeout": "1s"}),
    ]
    protocols += [("SEQUENCER", {})] if plan.total_order else []
    protocols += [("FRAG4", {"frag_size": _FRAGMENT})]
    protocols += [("relay.RELAY2", {"site": plan.site, "config": sites_file, "max_site_masters": 1})] if plan.site else []
    return _xml(protocols)


def bridge_5(plan: StackPlan) -> str:
    ports = {"bind_port": plan.bridge_ports[0], "port_range": 0}
    protocols: list[Protocol] = [
        ("TCP", {**ports, **_transport_5("no-bundler" if plan.trips else "per-destination")}),
        ("TCPPING", {"initial_hosts": _hosts(plan), "port_range": 0}),
        ("MERGE3", {"min_interval": "1s", "max_interval": "3s"}),
        *_watching_5(),
        ("NAKACK4", {"use_mcast_xmit": False, "capacity": 8192}),
        ("UNICAST4", {"capacity": 1024}),
        ("pbcast.GMS", {"print_local_addr": False, "join_timeout": "1s"}),
        ("FRAG4", {"frag_size": _FRAGMENT}),
    ]
    return _xml(protocols)


def sites_5(names: Sequence[str], bridge_file: str) -> str:
    bridge = f'<bridges><bridge name="bridge" config={quoteattr(bridge_file)}/></bridges>'
    sites = "".join(f"<site name={quoteattr(name)}>{bridge}</site>" for name in names)
    return f'<RelayConfiguration xmlns="urn:jgroups:relay:1.0"><sites>{sites}</sites></RelayConfiguration>\n'


def stack_2(plan: StackPlan, bridge_file: str) -> str:
    """Return the stack of a member. JGroups 2.12 delays a message for a bundle up to a configured time."""
    group = {"mcast_addr": plan.multicast_group, "mcast_port": plan.multicast_port, "ip_ttl": 0}
    wait_ms = 1 if plan.total_order else 5
    protocols: list[Protocol] = [
        ("UDP", {**group, **_BUFFERS, **_transport_2(not plan.trips, wait_ms)}),
        ("PING", {"timeout": 1000, "num_initial_members": 2}),
        *_watching_2(),
        *_reliability_2(use_mcast_xmit=True, stable="1M"),
    ]
    protocols += [("SEQUENCER", {})] if plan.total_order else []
    protocols += _credits_2("500K" if plan.total_order else "1M")
    relay = {"site": plan.site, "bridge_props": bridge_file, "bridge_name": "bridge", "relay": True}
    protocols += [("RELAY", {**relay, "present_global_views": False})] if plan.site else []
    return _xml(protocols)


def bridge_2(plan: StackPlan) -> str:
    ports = {"bind_port": plan.bridge_ports[0], "port_range": 0, "tcp_nodelay": True}
    protocols: list[Protocol] = [
        ("TCP", {**ports, "recv_buf_size": "4M", "send_buf_size": "1M", **_transport_2(not plan.trips, 5)}),
        ("TCPPING", {"timeout": 1000, "initial_hosts": _hosts(plan), "port_range": 0, "num_initial_members": 2}),
        *_watching_2(),
        *_reliability_2(use_mcast_xmit=False, stable="4M"),
        *_credits_2("4M"),
    ]
    return _xml(protocols)


def _transport_5(bundler: str) -> dict[str, object]:
    return {"bundler_type": bundler, "bundler.max_size": _BUNDLE, "diag.enabled": False, "message_processing_policy": "max"}


def _watching_5() -> list[Protocol]:
    return [("FD_SOCK2", {}), ("FD_ALL3", {}), ("VERIFY_SUSPECT2", {"timeout": "1.5s"})]


def _transport_2(bundling: bool, wait_ms: int) -> dict[str, object]:
    pools: dict[str, object] = {"thread_pool.queue_max_size": 20_000, "oob_thread_pool.queue_enabled": False}
    for pool in ("thread_pool", "oob_thread_pool"):
        pools |= {f"{pool}.min_threads": 2, f"{pool}.max_threads": 8}
    bundles = {"enable_bundling": bundling, "enable_unicast_bundling": bundling, "max_bundle_timeout": wait_ms}
    return {"loopback": True, "enable_diagnostics": False, **bundles, "max_bundle_size": _BUNDLE, "timer_type": "new", **pools}


def _watching_2() -> list[Protocol]:
    return [
        ("MERGE2", {"min_interval": 1000, "max_interval": 3000}),
        ("FD_SOCK", {}),
        ("FD", {"timeout": 3000, "max_tries": 3}),
        ("VERIFY_SUSPECT", {"timeout": 1500}),
    ]


def _reliability_2(*, use_mcast_xmit: bool, stable: str) -> list[Protocol]:
    again = "300,600,1200"
    nakack = {"use_mcast_xmit": use_mcast_xmit, "gc_lag": 0, "retransmit_timeout": again, "discard_delivered_msgs": True}
    return [
        ("pbcast.NAKACK", nakack),
        ("UNICAST2", {"timeout": again, "max_bytes": "1M"}),
        ("pbcast.STABLE", {"desired_avg_gossip": 20_000, "max_bytes": stable}),
        ("pbcast.GMS", {"print_local_addr": False, "join_timeout": 3000, "view_bundling": True}),
    ]


def _credits_2(credit: str) -> list[Protocol]:
    both = {"max_credits": credit, "min_threshold": 0.4}
    return [("UFC", both), ("MFC", both), ("FRAG2", {"frag_size": _FRAGMENT})]


def _hosts(plan: StackPlan) -> str:
    return ",".join(f"127.0.0.1[{port}]" for port in sorted(plan.bridge_ports))


def _xml(protocols: Sequence[Protocol]) -> str:
    lines = []
    for name, settings in protocols:
        said = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.items()}
        lines.append(f"  <{name}{''.join(f' {key}={quoteattr(value)}' for key, value in said.items())}/>\n")
    return f'<config xmlns="urn:org:jgroups">\n{"".join(lines)}</config>\n'
