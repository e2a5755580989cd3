"""The attacker's sockets on the network of a site.

At a port of a switch it sees unicasts too, and can forge any source address. Elsewhere it joins the
group, and sees multicasts alone.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import NamedTuple, Self

from relay_lab.drills.hostile.target import AttackReport, Target
from sitestack.model.address import Physical

_READ_BYTES = 65_535
_RECEIVE_BUFFER_BYTES = 8 << 20
HEARD_MAX = 5_000
_PORTION_S = 0.005
_ETH_P_ALL = 0x0003
_ETH_P_IP = b"\x08\x00"
#: Port of this machine, whose packets have entered at another port before.
_SWITCH = "switch"
_UDP_HEADER = struct.Struct("!HHHH")
#: Version and length of an IPv4 header without options.
_PLAIN_IP = 0x45


class Heard(NamedTuple):
    source: Physical
    #: The address it went to: the group, or a member.
    dest: Physical
    data: bytes


class Lan:
    """Sends with the attacker's address, and counts answers."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.account = AttackReport().begin()
        #: The only hosts that anything is sent to, besides the group.
        self._hosts = {victim.host for victim in target.victims}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        self._socket.bind((target.source, 0))
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(target.source))
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        self._raw: socket.socket | None = None
        if target.raw:
            self._raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
            self._raw.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(target.source))
        self.physical = Physical(*self._socket.getsockname())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.close()
        if self._raw is not None:
            self._raw.close()

    def overhear(self, seconds: float) -> list[Heard]:
        heard: list[Heard] = []
        deadline = time.monotonic() + seconds
        with self._ear() as ear:
            while len(heard) < HEARD_MAX and (left := deadline - time.monotonic()) > 0:
                ear.settimeout(left)
                try:
                    found = self._packet(ear) if self._target.raw else self._multicast(ear)
                except TimeoutError:
                    break
                if found is not None and found.source.host in self._hosts:
                    heard.append(found)
        unicasts = sum(each.dest != self._target.group for each in heard)
        self.account.tell(f"Overheard {len(heard) - unicasts} multicasts and {unicasts} unicasts.")
        return heard

    def _ear(self) -> socket.socket:
        if self._target.raw:
            ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        else:
            assert self._target.group is not None
            ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            ear.bind(self._target.group)
            group, own = (socket.inet_aton(host) for host in (self._target.group.host, self._target.source))
            ear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + own)
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        return ear

    def _multicast(self, ear: socket.socket) -> Heard | None:
        data, source = ear.recvfrom(_READ_BYTES)
        assert self._target.group is not None
        return Heard(Physical(*source), self._target.group, data)

    def _packet(self, ear: socket.socket) -> Heard | None:
        """Return a datagram that came in at a switch port; None on its way out."""
        packet, (port_name, _, kind, *_) = ear.recvfrom(_READ_BYTES)
        ip = packet[14:]
        if kind == socket.PACKET_OUTGOING or port_name == _SWITCH or packet[12:14] != _ETH_P_IP:
            return None
        if len(ip) < 28 or ip[0] != _PLAIN_IP or ip[9] != socket.IPPROTO_UDP:
            return None
        source_port, port, length, _ = _UDP_HEADER.unpack_from(ip, 20)
        dest = Physical(socket.inet_ntoa(ip[16:20]), port)
        if dest.host not in self._hosts and dest != self._target.group:
            return None
        return Heard(Physical(socket.inet_ntoa(ip[12:16]), source_port), dest, ip[28 : 20 + length])

    def flood(self, packets: Iterable[tuple[str, Physical, bytes]], rate: float, seconds: float) -> None:
        """Send packets at a rate (per second), for this time or until there are no more."""
        began = time.monotonic()
        count = 0
        supply: Iterator[tuple[str, Physical, bytes]] = iter(packets)
        while (passed := time.monotonic() - began) < seconds:
            due = int(passed * rate) + 1
            for _ in range(due - count):
                packet = next(supply, None)
                if packet is None:
                    return
                self.send(*packet)
            count = max(count, due)
            self.count_answers()
            time.sleep(_PORTION_S)

    def send(self, kind: str, to: Physical, data: bytes) -> None:
        if self._may(to):
            try:
                self._socket.sendto(data, to)
            except OSError as error:
                self.account.tell(f"Some packets were not sent ({error.strerror}).")
            else:
                self.account.sent[kind] += 1

    def send_as(self, kind: str, source: Physical, to: Physical, data: bytes) -> None:
        """Send one datagram in the name of another address, where possible."""
        if self._raw is None or not self._may(to):
            return
        udp = _UDP_HEADER.pack(source.port, to.port, 8 + len(data), 0) + data
        ends = socket.inet_aton(source.host) + socket.inet_aton(to.host)
        # The kernel fills in length, id and checksum.
        ip = struct.pack("!BBHHHBBH", _PLAIN_IP, 0, 0, 0, 0, 1, socket.IPPROTO_UDP, 0) + ends
        try:
            assert self._raw is not None
            self._raw.sendto(ip + udp, (to.host, 0))
        except OSError as error:
            self.account.tell(f"Some packets in another name were not sent ({error.strerror}).")
        else:
            self.account.sent[kind] += 1

    def _may(self, to: Physical) -> bool:
        group = self._target.group
        return to.host in self._hosts or (group is not None and to.host == group.host)

    def await_answers(self, seconds: float) -> None:
        time.sleep(seconds)
        self.count_answers()

    def count_answers(self) -> None:
        while True:
            try:
                data, source = self._socket.recvfrom(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                continue  # about an earlier packet to a closed port
            self.account.answer(data, f" from {source[0]}")
