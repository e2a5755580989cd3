"""The address of this machine that a site uses: an address, a subnet, an interface name, or open."""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import socket
import struct
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import trio

from sitestack.config import ANY_INTERFACE, ANY_IPV6
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError, NoNetwork
from sitestack.model.host import is_address, is_ipv6

LOOPBACK = "127.0.0.1"
_SIOCGIFADDR, _SIOCGIFCONF = 0x8915, 0x8912
#: SIOCGIFCONF: bytes of an address, maximum addresses.
_IFREQ_BYTES, ADDRESSES_MAX = struct.calcsize("16sLL8x"), 1_024
_NAME_BYTES_MAX = 15
#: Seconds between two attempts.
RETRY_S = 0.5
#: Linux: the interfaces' IPv6 addresses.
_IPV6_TABLE = Path("/proc/net/if_inet6")
_LINK_SCOPE = 0x20
#: Flags of addresses that the kernel refuses to bind to.
_UNUSABLE = 0x40 | 0x08


def family_of(host: str) -> socket.AddressFamily:
    """Return the family of sockets for an address; IPv4 for a name."""
    return socket.AF_INET6 if is_ipv6(host) else socket.AF_INET


def make_socket(host: str, kind: int, *, also_ipv4: bool = False) -> socket.socket:
    """Return a socket for this address. `also_ipv4`: at `ANY_IPV6` it accepts IPv4 too.

    Raises OSError.
    """
    sock = socket.socket(family_of(host), kind | socket.SOCK_CLOEXEC)
    if is_ipv6(host):
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not also_ipv4))
    return sock


def is_here(host: str) -> bool:
    """Return whether this machine has this address; True if no descriptor is left to check it."""
    try:
        with make_socket(host, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except OSError as error:
        return error.errno != errno.EADDRNOTAVAIL
    return True


def at_both(external: Physical, own: Physical) -> tuple[Physical, ...]:
    """Return a member's addresses: the external one, then its own, for peers behind the same router."""
    return (external,) if own.host in (ANY_INTERFACE, ANY_IPV6) else tuple(dict.fromkeys((external, own)))


def find_interface(interface: str, group: str, ipv6: bool = False) -> str:
    """Return the address to bind to. An empty `interface` means the one on the route to `group`.

    A subnet such as 10.1.0.0/24 selects this machine's address in it. `ipv6` is for an interface
    name. Raises ConfigurationError.
    """
    if not interface:
        found = route_to(group)
        if found is None:
            raise _unreachable([group])
        return found
    if "/" in interface:
        return _within(interface)
    if is_address(interface):
        return str(ipaddress.ip_address(interface))
    return _address_of(interface, ipv6)


async def route_towards(hosts: Sequence[str], timeout_s: float) -> str:
    """Return this machine's address on the route to the first reachable host.

    Waits for the network. Raises ConfigurationError at the timeout.
    """
    with trio.move_on_after(timeout_s):
        while True:
            for host in hosts:
                if found := route_to(host):
                    return found
            await trio.sleep(RETRY_S)
    raise _unreachable(hosts)


def _unreachable(hosts: Sequence[str]) -> NoNetwork:
    return NoNetwork(
        f"transport.interface: this machine has no route to {' or '.join(hosts)}; name the interface to use, "
        f"{'::1' if is_ipv6(hosts[0]) else LOOPBACK} for a site on this machine only."
    )


def route_to(host: str) -> str | None:
    """Return this machine's address on the route to a host, or None. Sends nothing."""
    try:
        with make_socket(host, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))
            found: str = probe.getsockname()[0]
    except OSError:
        return None
    return None if found in (ANY_INTERFACE, ANY_IPV6) or not is_address(found) else found


def _within(subnet: str) -> str:
    """Return this machine's address in a subnet; the first interface's, if several have one."""
    try:
        network = ipaddress.ip_network(subnet, strict=False)
    except ValueError as error:
        raise ConfigurationError(f"transport.interface: {subnet!r} is no subnet such as 10.1.0.0/24.") from error
    if network.version == 6:
        addresses = [each for each, _, _ in _ipv6_addresses()]
    else:
        addresses = []
        for _, name in socket.if_nameindex():
            with suppress(ConfigurationError):  # an interface without an IPv4 address
                addresses.append(_address_of(name, False))
        addresses = list(dict.fromkeys([*addresses, *[each for each, _ in _ipv4_addresses()]]))  # the first ones first
    for address in addresses:
        if ipaddress.ip_address(address) in network:
            return address
    raise NoNetwork(
        f"transport.interface: this machine has no address in {subnet}; it has {', '.join(addresses) or 'none at all'}."
    )


def _address_of(name: str, ipv6: bool) -> str:
    encoded = name.encode()
    if len(encoded) > _NAME_BYTES_MAX:
        raise ConfigurationError(f"transport.interface: {name!r} is neither an address nor a network interface.")
    if ipv6:
        for address, interface, _ in _ipv6_addresses():
            if interface == name:
                return address
        raise NoNetwork(f"transport.interface: {name!r} is no network interface with an IPv6 address.")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", encoded))
        except OSError as error:
            raise NoNetwork(
                f"transport.interface: {name!r} is neither an IPv4 address nor a network interface with one."
            ) from error
    return socket.inet_ntoa(answer[20:24])


def _ipv4_addresses() -> list[tuple[str, str]]:
    """Return all addresses, with their interfaces."""
    found = array("B", bytes(_IFREQ_BYTES * ADDRESSES_MAX))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe.fileno(), _SIOCGIFCONF, struct.pack("iL", len(found), found.buffer_info()[0]))
    size = struct.unpack("iL", answer)[0]
    each = [found[at : at + 24].tobytes() for at in range(0, size, _IFREQ_BYTES)]
    return [(socket.inet_ntoa(one[20:]), one[:16].rstrip(b"\0").decode()) for one in each]


def _ipv6_addresses() -> list[tuple[str, str, int]]:
    """Return the usable IPv6 addresses with the names and indexes of their interfaces, preferred and
    permanent ones first, without those of one link.
    """
    found = []
    with suppress(OSError):  # a kernel without IPv6
        for line in _IPV6_TABLE.read_text().splitlines():
            address, index, _, scope, flags, name = line.split()
            if int(scope, 16) != _LINK_SCOPE and not int(flags, 16) & _UNUSABLE:
                text = str(ipaddress.IPv6Address(bytes.fromhex(address)))
                found.append((int(flags, 16) & 0x21, (text, name, int(index, 16))))
    return [each for _, each in sorted(found, key=lambda one: one[0])]


def interface_index(host: str) -> int:
    """Return the index of the interface with this address; 0, the system's choice, if unknown."""
    if is_ipv6(host):
        return next((index for address, _, index in _ipv6_addresses() if address == host), 0)
    with suppress(OSError):  # no descriptors are left
        return next((socket.if_nametoindex(name) for address, name in _ipv4_addresses() if address == host), 0)
    return 0


#: Attempts to find a port that is free in UDP and in TCP.
ATTEMPTS_MAX = 64
#: Connections that may wait to be accepted; the system drops more, and their clients retry.
PENDING_MAX = 64


def bind_pair(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """Return a UDP and a listening TCP socket at one number; with port 0 at any that is free in
    both.

    Raises ConfigurationError.
    """
    for _ in range(ATTEMPTS_MAX):
        udp = open_socket(host, port, socket.SOCK_DGRAM)
        try:
            return udp, open_socket(host, udp.getsockname()[1], socket.SOCK_STREAM, again=port != 0)
        except ConfigurationError as error:
            udp.close()
            if port or not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.EADDRINUSE:
                raise
    raise ConfigurationError(f"transport.port: found no port of {host} that is free in UDP and in TCP; choose one.")


def open_socket(host: str, port: int, kind: int, *, again: bool = False) -> socket.socket:
    """Return a UDP or a listening TCP socket at this port; with port 0 at any free one.

    `again`: the port is configured, and connections of an earlier process may still be closing
    there. Raises ConfigurationError.
    """
    with ExitStack() as opened:
        try:
            sock = opened.enter_context(make_socket(host, kind | socket.SOCK_NONBLOCK))
            if again:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            if kind == socket.SOCK_STREAM:
                sock.listen(PENDING_MAX)
        except OSError as error:
            raise not_bound(error, why_not_bound(error, host, port, "UDP" if kind == socket.SOCK_DGRAM else "TCP")) from error
        opened.pop_all()
    return sock


def not_bound(error: OSError | UnicodeError, why: str) -> ConfigurationError:
    """Return the error of a failed bind: a missing address or name server may appear later."""
    is_early = getattr(error, "errno", None) in (errno.EADDRNOTAVAIL, socket.EAI_AGAIN)
    kind = NoNetwork if is_early else ConfigurationError
    return kind(why)


def why_not_bound(error: OSError, host: str, port: int, protocol: str = "UDP") -> str:
    """Return a sentence for operators on why an address could not be bound."""
    if error.errno == errno.EADDRINUSE:
        where = f"port {port} of {host} is already in use in {protocol}"
        return f"transport.port: {where}; choose another one, or 0 for any free one."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"transport.interface: {host} is no address of this machine."
    return f"transport: cannot listen on {Physical(host, port)} in {protocol} ({error.strerror})."


class Names:
    """Host names with ports, and their last known addresses, which stay in use during an outage of the
    name server. Unknown names are no error.
    """

    def __init__(self, names: Iterable[Physical], versions: Collection[int] = (4, 6)) -> None:
        family = socket.AF_INET6 if 6 in versions else socket.AF_INET
        self._family = socket.AF_UNSPEC if len(versions) > 1 else family
        self._names = tuple(dict.fromkeys(names))
        self._known: dict[Physical, tuple[Physical, ...]] = {}

    def addresses(self) -> tuple[Physical, ...]:
        """Return the last known addresses, each once, in a stable order."""
        found = [self._known.get(name, ()) for name in self._names]
        return tuple(dict.fromkeys([address for addresses in found for address in addresses]))

    async def find(self, timeout_s: float) -> tuple[Physical, ...]:
        """Return the addresses as soon as any name resolves; none at the timeout."""
        with trio.move_on_after(timeout_s):
            while self._names and not self._known:
                await self._look_up_all()
                if not self._known:
                    await trio.sleep(RETRY_S)
        return self.addresses()

    async def follow(self, interval_s: float, changed: Callable[[tuple[Physical, ...]], None]) -> None:
        """Resolve the names at intervals, and report changed addresses. Returns if all hosts are addresses."""
        told = self.addresses()
        while not all(is_address(name.host) for name in self._names):
            await trio.sleep(interval_s if told else min(interval_s, RETRY_S))
            await self._look_up_all()
            addresses = self.addresses()
            if addresses != told:
                told = addresses
                changed(addresses)

    async def _look_up_all(self) -> None:
        async with trio.open_nursery() as nursery:
            for name in self._names:
                nursery.start_soon(self._look_up, name)

    async def _look_up(self, name: Physical) -> None:
        try:
            answers = await trio.socket.getaddrinfo(name.host, name.port, self._family, socket.SOCK_DGRAM)
        except (OSError, UnicodeError, RuntimeError):  # unknown, unanswered, invalid, or no thread is left
            return
        self._known[name] = tuple(sorted({Physical(str(answer[4][0]), name.port): None for answer in answers}))
