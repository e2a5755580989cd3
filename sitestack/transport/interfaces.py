"""Which address of this machine a site uses: given as an IPv4 address, as an interface name, or left open."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct

from sitestack.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
#: ioctl of Linux that answers with the IPv4 address of an interface.
_SIOCGIFADDR = 0x8915
_NAME_BYTES_MAX = 15


def find_interface(interface: str, group: str) -> str:
    """The IPv4 address to bind to. An empty `interface` means the one by which the machine would reach `group`.

    Raises ConfigurationError.
    """
    if not interface:
        return _towards(group)
    try:
        return str(ipaddress.IPv4Address(interface))
    except ValueError:
        return _address_of(interface)


def _towards(group: str) -> str:
    """Connecting a datagram socket sends nothing; it only makes the kernel choose a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((group, 9))
        except OSError:
            return LOOPBACK  # no route to anywhere: a machine on its own
        host: str = probe.getsockname()[0]
        return host


def _address_of(name: str) -> str:
    encoded = name.encode()
    if len(encoded) > _NAME_BYTES_MAX:
        raise ConfigurationError(f"transport.interface: {name!r} is neither an IPv4 address nor a network interface.")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", encoded))
        except OSError as error:
            raise ConfigurationError(
                f"transport.interface: {name!r} is neither an IPv4 address nor a network interface with one."
            ) from error
    return socket.inet_ntoa(answer[20:24])
