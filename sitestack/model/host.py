"""Hosts and ports as text: names, IPv4 addresses, and IPv6 addresses, which stand in brackets before a port (RFC 3986)."""

from __future__ import annotations

import ipaddress
from contextlib import suppress

from sitestack.model.address import Physical


def is_ipv6(host: str) -> bool:
    """Return whether this address or subnet is one of IPv6; False for a name."""
    return ":" in host


def is_address(host: str) -> bool:
    """Return whether this is an address, without the scope of one machine; a name would need resolving."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def parse_place(text: str, default_host: str = "") -> Physical | None:
    """Return the host and port in a text such as nyc-a:7800 or [::1]:7800; None for any other text.

    IPv6 addresses get their shortest form, so that equal addresses compare equal.
    """
    host, _, port = text.rpartition(":")
    host = host or default_host
    if not host or not host.isprintable():
        return None
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 65_536):
        return None
    if host.startswith("[") or host.endswith("]"):
        host = host.removeprefix("[").removesuffix("]")
        if not is_ipv6(host):
            return None
        with suppress(ValueError):  # `unfit_host` has the reason
            host = ipaddress.IPv6Address(host).compressed
    elif is_ipv6(host):
        return None
    return Physical(host, int(port))


def unfit_host(host: str) -> str:
    """Return why this host can never be reached, as the end of a sentence; empty when it may be."""
    if is_ipv6(host):
        return _unfit_ipv6(host)
    try:
        host.encode("idna")
    except UnicodeError:
        return "cannot be the name of a host."
    if "\0" in host or any(map(str.isspace, host)):
        return "cannot be the name of a host."
    if host.rstrip(".").rpartition(".")[2].isdecimal() and not ip_version(host):
        return "is no IPv4 address, and no name ends with a number."
    return ""


def _unfit_ipv6(host: str) -> str:
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return "is no IPv6 address."
    if address.is_link_local or address.scope_id:
        return "is an address of one link only, which other machines cannot use; name a unique local or a global one."
    if address.ipv4_mapped is not None:
        return f"is an IPv4 address; write {address.ipv4_mapped}."
    return "is the address of a group." if address.is_multicast else ""


def ip_version(host: str) -> int:
    """Return the IP version of an address or subnet, 4 or 6; 0 for a name."""
    if is_ipv6(host):
        return 6
    try:
        return ipaddress.IPv4Network(host, strict=False).version
    except ValueError:
        return 0
