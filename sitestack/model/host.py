"""Checks of configured hosts: names, and IPv4 addresses."""

from __future__ import annotations

import ipaddress


def unfit_host(host: str) -> str:
    """Return why this host can never be reached, as the end of a sentence; empty when it may be.

    Such a host is a configuration error, because no lookup of it will ever succeed.
    """
    if ":" in host:
        return "is no IPv4 address or name; IPv6 is not spoken."
    try:
        host.encode("idna")
    except UnicodeError:
        return "cannot be the name of a host."
    if "\0" in host or any(map(str.isspace, host)):
        return "cannot be the name of a host."
    if host.rstrip(".").rpartition(".")[2].isdecimal() and not _is_ipv4(host):
        return "is no IPv4 address, and no name ends with a number."
    return ""


def _is_ipv4(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True
