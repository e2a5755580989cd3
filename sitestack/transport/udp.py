"""UDP and IP multicast for one member of a site (UDP of JGroups), or of several (`shared.py`).

One socket at this member's port sends everything; a second one listens to the site's group. A third
socket, TCP at the port of the first, is for `watch.py`.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import trio

from sitestack.config import ANY_INTERFACE, ANY_IPV6, TransportConfig
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.model.host import is_address, is_ipv6
from sitestack.model.level import Level
from sitestack.transport import TrafficStatistics
from sitestack.transport.interfaces import (
    at_both,
    bind_pair,
    family_of,
    find_interface,
    interface_index,
    make_socket,
    open_socket,
    why_not_bound,
)

_READ_BYTES = 65_535
_SOCKETS = 2
#: Maximum hosts cached as numeric addresses; beyond it the cache is cleared.
NUMERIC_MAX = 4_096
# Socket options of Linux that the socket module does not name.
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_SO_MEMINFO = 55
_IP_MULTICAST_ALL = 49


@dataclass(frozen=True, slots=True)
class _Options:
    """Socket options for multicast of one IP version, and where ancillary data has the destination."""

    level: int
    interface: int
    join: int
    leave: int
    hops: int
    loop: int
    all: int
    tell_destination: int
    destination: slice
    told_bytes: int


_V4 = _Options(
    socket.IPPROTO_IP,
    socket.IP_MULTICAST_IF,
    socket.IP_ADD_MEMBERSHIP,
    socket.IP_DROP_MEMBERSHIP,
    socket.IP_MULTICAST_TTL,
    socket.IP_MULTICAST_LOOP,
    _IP_MULTICAST_ALL,
    8,  # IP_PKTINFO
    slice(8, 12),
    socket.CMSG_SPACE(12),
)
_V6 = _Options(
    socket.IPPROTO_IPV6,
    socket.IPV6_MULTICAST_IF,
    socket.IPV6_JOIN_GROUP,
    socket.IPV6_LEAVE_GROUP,
    socket.IPV6_MULTICAST_HOPS,
    socket.IPV6_MULTICAST_LOOP,
    29,  # IPV6_MULTICAST_ALL
    49,  # IPV6_RECVPKTINFO
    slice(0, 16),
    socket.CMSG_SPACE(20),
)
_MEMINFO = struct.Struct("9I")
#: Seconds between two looks at the memberships.
RENEW_INTERVAL_S = 1.0
#: Send errors for an interface that is gone, down or replaced.
_AWAY = frozenset({errno.ENODEV, errno.EADDRNOTAVAIL, errno.ENETUNREACH, errno.ENETDOWN})


class GroupMembership:
    """A group's two sockets, for receiving and for sending, through one interface.

    The kernel forgets both memberships when the interface disappears, and the next heartbeat fails. They stay behind
    when the address moves to another interface, such as a bridge.
    """

    def __init__(
        self, listener: socket.socket, sender: socket.socket, group: Physical, host: str, *, lost: bool = False
    ) -> None:
        """`host` is the interface's address; `lost` makes the next datagram join the group."""
        self._listener = listener
        self._sender = sender
        self._options = _V6 if is_ipv6(host) else _V4
        self._group, self._host = _packed(group.host), host
        self._request = b""
        self._index = 0
        self.lost = lost

    def join(self) -> None:
        """Receive from the group and send to it through the interface. Raises OSError."""
        host = self._host
        # asked for each time: a recreated interface has another index; and 0 means that it is not back
        self._index = interface_index(host)
        interface = struct.pack("@I", self._index) if is_ipv6(host) else socket.inet_aton(host)
        if self.lost and host not in (ANY_INTERFACE, ANY_IPV6) and not any(interface):
            raise OSError(errno.ENODEV, host)
        self._request = self._group + interface
        self._sender.setsockopt(self._options.level, self._options.interface, interface)
        self._listener.setsockopt(self._options.level, self._options.join, self._request)

    def leave(self) -> None:
        with suppress(OSError):  # the kernel may have forgotten it
            self._listener.setsockopt(self._options.level, self._options.leave, self._request)

    def failed(self, error: OSError) -> None:
        if error.errno in _AWAY:
            self.lost = True

    def renew(self, index: int) -> None:
        """Join the group again if the interface is back, or the address at another one, of this index."""
        if not self.lost and index in (0, self._index):
            return
        self.lost = True
        self.leave()  # the socket still counts a forgotten membership
        with suppress(OSError):  # not back yet
            self.join()
            self.lost = False


@dataclass(slots=True)
class UdpStatistics(TrafficStatistics):
    #: Dropped datagrams: the queue was full, or the kernel rejected them.
    unsent_datagrams: int = 0
    #: Datagrams that the kernel dropped because its receive buffer was full.
    overrun_datagrams: int = 0
    moves: int = 0
    #: Sizes granted by the kernel, possibly less than the configured ones.
    receive_buffer_bytes: int = 0
    send_buffer_bytes: int = 0


class UdpTransport:
    """The sockets of one member, or of several. Opened by the constructor."""

    def __init__(self, config: TransportConfig, group: Physical | None, *, watched: bool = True) -> None:
        """`group` is the site's multicast group; None if several sites join theirs later (`join`).

        `watched`: whether to open a listener. Raises ConfigurationError.
        """
        self._config = config
        #: None if one datagram does not reach all members.
        self._group = group if config.multicast else None
        self.host = host = find_interface(config.interface, "" if group is None else group.host, config.ipv6)
        self._options = _V6 if is_ipv6(host) else _V4
        #: Whether the multicast socket is bound to no group.
        self._hears_all = group is None or (is_ipv6(host) and _is_of_link(group.host))
        self._epoll = select.epoll()
        #: By descriptor.
        self._sockets: dict[int, socket.socket] = {}
        self._listener: socket.socket | None = None
        self._memberships: dict[Physical, GroupMembership] = {}
        self._renew_at = float("-inf")
        self._joined: set[bytes] = set()
        self._queue: deque[tuple[Physical, bytes]] = deque()
        self._numeric: set[str] = set()
        self._queued_bytes = Level(config.send_queue_bytes_max)
        self._seen = UdpStatistics()
        try:
            self._unicast = self._open_unicast(host, config.port, watched)
            if config.multicast:
                self._multicast = self._open_multicast(group)
                if group is not None:
                    self.join(group)
        except BaseException:
            self.close()
            raise
        self._own: tuple[str | int, ...] = self._unicast.getsockname()
        self._places = self._find_places()

    def _open_unicast(self, host: str, port: int, watched: bool) -> socket.socket:
        if watched:
            sock, self._listener = bind_pair(host, port)
        else:
            sock = open_socket(host, port, socket.SOCK_DGRAM)
        self._add(sock)
        _enlarge(sock, socket.SO_SNDBUF, _SO_SNDBUFFORCE, self._config.send_buffer_bytes)
        if self._config.multicast:
            sock.setsockopt(self._options.level, self._options.hops, self._config.multicast_ttl_hops)
            sock.setsockopt(self._options.level, self._options.loop, 1)
        return sock

    def _find_places(self) -> tuple[Physical, ...]:
        host, port = self.host, int(self._own[1])
        return at_both(Physical(self._config.external_host or host, self._config.external_port or port), Physical(host, port))

    def _open_multicast(self, group: Physical | None) -> socket.socket:
        """Open the multicast socket. Members on one machine share the group's port.

        For several groups, and for an IPv6 group of one link, it is unbound, and the kernel reports
        each datagram's destination.
        """
        at = group
        if at is None or self._hears_all:
            at = Physical(ANY_IPV6 if is_ipv6(self.host) else ANY_INTERFACE, self._config.multicast_port)
        sock = make_socket(self.host, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._add(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._hears_all:
            sock.setsockopt(self._options.level, self._options.tell_destination, 1)
        try:
            sock.bind(at)
        except OSError as error:
            raise ConfigurationError(why_not_bound(error, *at)) from error
        return sock

    def join(self, group: Physical) -> None:
        """Receive from a group and send to it. Needs multicast. Raises ConfigurationError."""
        sock, membership = self._multicast, GroupMembership(self._multicast, self._unicast, group, self.host)
        try:
            with suppress(OSError):  # IPv6: kernels from 4.20 on; others hear all groups of the machine
                sock.setsockopt(self._options.level, self._options.all, 0)
            membership.join()
        except OSError as error:
            raise ConfigurationError(
                f"transport.multicast: the interface {self.host} has no multicast ({error.strerror}); choose another "
                "transport.interface, or set transport.multicast to false and name discovery.initial_hosts."
            ) from error
        self._memberships[group] = membership
        self._joined = {_packed(each.host) for each in self._memberships}

    def leave(self, group: Physical) -> None:
        self._memberships.pop(group).leave()
        self._joined = {_packed(each.host) for each in self._memberships}

    def move(self, host: str) -> socket.socket | None:
        """Move to another address of this machine, at the same port. The next datagrams join the groups.

        Returns the former listener, for a caller that waits there to close it. Raises
        ConfigurationError, and then changes nothing.
        """
        before, listener = self._unicast, self._listener
        self._unicast = self._open_unicast(host, int(self._own[1]), listener is not None)
        self.host, self._own = host, self._unicast.getsockname()
        self._places = self._find_places()
        self._seen.moves += 1
        self._renew_at = float("-inf")
        for group, membership in self._memberships.items():
            membership.leave()
            self._memberships[group] = GroupMembership(self._multicast, self._unicast, group, host, lost=True)
        if self._queue:
            self._epoll.modify(self._unicast, select.EPOLLIN | select.EPOLLOUT)
        self._epoll.unregister(before)
        del self._sockets[before.fileno()]
        before.close()
        return listener

    def _add(self, sock: socket.socket) -> None:
        self._sockets[sock.fileno()] = sock
        _enlarge(sock, socket.SO_RCVBUF, _SO_RCVBUFFORCE, self._config.receive_buffer_bytes)
        self._epoll.register(sock, select.EPOLLIN)

    def physical(self) -> tuple[Physical, ...]:
        """Return the addresses that reach this member: a configured external one (LA-8), then its own."""
        return self._places

    def listener(self) -> socket.socket | None:
        """Return the TCP listener at the unicast port, for watchers; None if unwatched."""
        return self._listener

    def fileno(self) -> int:
        return self._epoll.fileno()

    async def wait(self) -> None:
        await trio.lowlevel.wait_readable(self._epoll)

    def receive(self) -> list[tuple[bytes, Physical]]:
        """Return arrived datagrams, at most `receive_datagrams_max` per socket, so that no flood starves the turn.

        A failed read costs as much as a datagram, hence the two rounds.
        """
        if self._queue:
            self._drain()
        arrived: list[tuple[bytes, Physical]] = []
        for reads in (1, self._config.receive_datagrams_max - 1):
            ready = self._epoll.poll(0, _SOCKETS)
            if not ready:
                break
            for descriptor, events in ready:
                if events != select.EPOLLOUT:
                    self._read(self._sockets[descriptor], reads, arrived)
        self._seen.received_datagrams += len(arrived)
        return arrived

    def _read(self, sock: socket.socket, reads: int, arrived: list[tuple[bytes, Physical]]) -> None:
        own, seen = self._own, self._seen
        receive = self._receive_of_groups if self._hears_all and sock is not self._unicast else sock.recvfrom
        for _ in range(reads):
            try:
                data, source = receive(_READ_BYTES)
            except BlockingIOError:
                break
            except OSError:  # reported by the network (ICMP): the failure detection decides on deaths
                continue
            if source == own:
                continue  # a multicast loops back to its sender
            seen.received_bytes += len(data)
            arrived.append((data, Physical(source[0], source[1])))

    def _receive_of_groups(self, size: int) -> tuple[bytes, Any]:
        """Receive like `recvfrom`; a datagram for no joined group gets the own address."""
        data, told, _, source = self._multicast.recvmsg(size, self._options.told_bytes)
        if not told or any(each[self._options.destination] in self._joined for _, _, each in told):
            return data, source
        return data, self._own

    def send(self, datagrams: Sequence[tuple[Physical | None, bytes]]) -> None:
        """Send in order. A bounded queue holds datagrams while the kernel's buffer is full."""
        if (now := trio.current_time()) >= self._renew_at:
            self._renew_at = now + RENEW_INTERVAL_S
            index = interface_index(self.host) if self._memberships else 0
            for membership in self._memberships.values():
                membership.renew(index)
        for to, data in datagrams:
            address = to or self._group
            if address is None:
                self._seen.unsent_datagrams += 1  # the resolver fans out
            elif address.host not in self._numeric and not self._is_numeric(address.host):
                self._seen.unsent_datagrams += 1
            elif self._queue or not self._send_now(address, data):
                self._enqueue(address, data)

    def _is_numeric(self, host: str) -> bool:
        """Return whether a host named by another member is an address of the sockets' IP version."""
        if not is_address(host) or is_ipv6(host) != is_ipv6(self.host):
            return False
        if len(self._numeric) == NUMERIC_MAX:
            self._numeric.clear()
        self._numeric.add(host)
        return True

    def _send_now(self, address: Physical, data: bytes) -> bool:
        try:
            self._unicast.sendto(data, address)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOBUFS):
                return False
            if (membership := self._memberships.get(address)) is not None:
                membership.failed(error)
            self._seen.unsent_datagrams += 1
            return True
        self._seen.sent_datagrams += 1
        self._seen.sent_bytes += len(data)
        return True

    def _enqueue(self, address: Physical, data: bytes) -> None:
        if not self._queued_bytes.fits(len(data)):
            self._seen.unsent_datagrams += 1
            return
        if not self._queue:
            self._epoll.modify(self._unicast, select.EPOLLIN | select.EPOLLOUT)
        self._queue.append((address, data))
        self._queued_bytes.add(len(data))

    def _drain(self) -> None:
        while self._queue and self._send_now(*self._queue[0]):
            self._queued_bytes.now -= len(self._queue.popleft()[1])
        if not self._queue:
            self._epoll.modify(self._unicast, select.EPOLLIN)

    def close(self) -> None:
        for sock in self._sockets.values():
            sock.close()
        self._sockets.clear()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._epoll.close()

    def statistics(self) -> UdpStatistics:
        """Return the counters; the kernel's are zero once the sockets are closed."""
        return replace(
            self._seen,
            overrun_datagrams=sum(map(_overrun, self._sockets.values())),
            receive_buffer_bytes=min((_size(sock, socket.SO_RCVBUF) for sock in self._sockets.values()), default=0),
            send_buffer_bytes=_size(self._unicast, socket.SO_SNDBUF) if self._sockets else 0,
        )

    def levels(self) -> dict[str, Level]:
        return {"queued_bytes": self._queued_bytes}


def _packed(host: str) -> bytes:
    return socket.inet_pton(family_of(host), host)


def _is_of_link(group: str) -> bool:
    """Return whether an IPv6 group is of one interface or one link only (RFC 4291, 2.7)."""
    return _packed(group)[1] & 0x0F <= 2


def _enlarge(sock: socket.socket, option: int, forced: int, size: int) -> None:
    """Set a buffer size beyond the system's limit if privileged, else up to the limit."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, forced, size)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, option, size)


def _size(sock: socket.socket, option: int) -> int:
    """Return the size of a buffer, which Linux doubles."""
    return sock.getsockopt(socket.SOL_SOCKET, option) // 2


def _overrun(sock: socket.socket) -> int:
    try:
        numbers: tuple[int, ...] = _MEMINFO.unpack(sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))
    except (OSError, struct.error):
        return 0  # a system without this counter
    return numbers[8]
