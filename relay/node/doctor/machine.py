"""Examination of this machine: ports, kernel buffers, datagram paths and keys."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

from relay.node.bridge.credentials import Credentials
from relay.node.config.settings import NodeConfig
from relay.node.doctor import Finding
from relay.node.status.status_socket import ANSWER_TIMEOUT_S, find_sockets, run_directory
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.model.host import is_ipv6
from sitestack.transport.accepting import listen_tcp
from sitestack.transport.interfaces import bind_pair, make_socket
from sitestack.transport.udp import UdpStatistics

_IP_MTU, _IPV6_MTU = 14, 24


def examine_ports(config: NodeConfig, host: str) -> list[Finding]:
    findings = []
    if config.transport.port and host:
        try:
            for sock in bind_pair(host, config.transport.port):
                sock.close()
            findings.append(Finding("transport.port", f"{config.transport.port} of {host} is free."))
        except ConfigurationError as error:
            findings.append(_unavailable("transport.port", error))
    bind = config.relay.bridge.bind
    if bind is not None and bind.port:
        try:
            listen_tcp(bind, 1, "relay.bridge.bind").close()
            findings.append(Finding("relay.bridge.bind", f"{bind} is free."))
        except ConfigurationError as error:
            findings.append(_unavailable("relay.bridge.bind", error))
    return findings


def _unavailable(about: str, error: ConfigurationError) -> Finding:
    sentence = str(error).removeprefix(f"{about}: ")
    if getattr(error.__cause__, "errno", None) != errno.EADDRINUSE:
        return Finding(about, sentence, "Configure an address and a port that this machine grants.")
    if any(map(_is_answered, find_sockets(run_directory()))):
        return Finding(about, f"{sentence} A node is running here.")
    return Finding(about, sentence, "No node is running here: stop the program that uses the port, or configure another one.")


def _is_answered(path: Path) -> bool:
    """Return whether a node runs at this socket; a killed one leaves its socket."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(ANSWER_TIMEOUT_S)
        return sock.connect_ex(str(path)) == 0


def examine_buffers(config: NodeConfig, statistics: object) -> list[Finding]:
    """Return a finding for each buffer that the kernel grants only in part."""
    if not isinstance(statistics, UdpStatistics):
        return []
    wanted = {"receive": config.transport.receive_buffer_bytes, "send": config.transport.send_buffer_bytes}
    granted = {"receive": statistics.receive_buffer_bytes, "send": statistics.send_buffer_bytes}
    return [
        Finding(
            f"transport.{kind}_buffer_bytes",
            f"the kernel grants {granted[kind]} of {wanted[kind]} bytes.",
            f"Raise net.core.{'r' if kind == 'receive' else 'w'}mem_max to {wanted[kind]}: bursts are lost and retransmitted.",
        )
        for kind in wanted
        if granted[kind] < wanted[kind]
    ]


def examine_path(config: NodeConfig, target: Physical) -> list[Finding]:
    """Return whether the largest datagrams fit the local MTU to an address."""
    is_v6 = is_ipv6(target.host)
    level, option, headers = (socket.IPPROTO_IPV6, _IPV6_MTU, 48) if is_v6 else (socket.IPPROTO_IP, _IP_MTU, 28)
    with make_socket(target.host, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(target)
            mtu = sock.getsockopt(level, option)
        except OSError as error:
            advice = "Give this machine a route, or configure another address."
            return [Finding("route", f"there is no route to {target.host} ({error.strerror}).", advice)]
    largest = config.transport.datagram_bytes_max
    if largest + headers <= mtu:
        return [Finding("transport.datagram_bytes_max", f"{largest} bytes reach {target.host} unfragmented (MTU {mtu}).")]
    what = f"{largest} bytes go to {target.host} in fragments (MTU {mtu}), which a node avoids if they are lost."
    return [Finding("transport.datagram_bytes_max", what)]


def examine_keys(config: NodeConfig) -> tuple[list[Finding], Credentials | None]:
    """Return whether the keys are usable, and any credentials."""
    if not config.security.keys:
        advice = "" if config.security.insecure else "Make keys (relay keygen) and name their directory, or use --insecure."
        return [Finding("security.keys", "there are none: any host that reaches the ports can read and send.", advice)], None
    if not config.has_bridge():
        return [Finding("security.keys", f"the keys in {config.security.keys} are usable.")], None
    try:
        credentials = Credentials(Path(config.security.keys), config.site)
    except ConfigurationError as error:
        return [Finding("security.keys", f"{error}", "Make certificates for this site (relay keygen).")], None
    trouble = credentials.problem or credentials.warning
    if trouble:
        advice = "Make a new one (relay keygen --renew), or set the clock of this machine if that is wrong."
        return [Finding("security.keys", f"{trouble}.", advice)], credentials
    days = (credentials.expires_s or 0.0) / 86_400
    return [
        Finding("security.keys", f"the keys are usable; the certificate of {config.site} ends in {days:.0f} days.")
    ], credentials
