"""Which address of this machine a site uses: given as an IPv4 address, a subnet or an interface name, or left open."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from contextlib import suppress

from sitestack.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
#: ioctl of Linux that answers with the IPv4 address of an interface.
_SIOCGIFADDR = 0x8915
_NAME_BYTES_MAX = 15


def is_address(host: str) -> bool:
    """Whether this is an IPv4 address; anything else is a name, which would have to be looked up."""
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def find_interface(interface: str, group: str) -> str:
    """The IPv4 address to bind to. An empty `interface` means the one by which the machine would reach `group`.

    A subnet such as 10.1.0.0/24 means this machine's address in it: so one configuration serves machines that are on several
    networks, whatever their interfaces are called and wherever their default route leads.

    Raises ConfigurationError.
    """
    if not interface:
        return _towards(group)
    if "/" in interface:
        return _within(interface)
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


def _within(subnet: str) -> str:
    """The first interface counts, should several have an address in the subnet."""
    try:
        network = ipaddress.IPv4Network(subnet, strict=False)
    except ValueError as error:
        raise ConfigurationError(f"transport.interface: {subnet!r} is no IPv4 subnet such as 10.1.0.0/24.") from error
    addresses = []
    for _, name in socket.if_nameindex():
        with suppress(ConfigurationError):  # an interface without an IPv4 address
            addresses.append(_address_of(name))
    for address in addresses:
        if ipaddress.IPv4Address(address) in network:
            return address
    raise ConfigurationError(
        f"transport.interface: this machine has no address in {subnet}; it has {', '.join(addresses) or 'none at all'}."
    )


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
