"""A member's port: one number in UDP, for the messages, and in TCP, for the connections by which members watch each other."""

from __future__ import annotations

import errno
import socket

from sitestack.model.errors import ConfigurationError

#: Attempts to find a free UDP port whose number is free in TCP too.
ATTEMPTS_MAX = 64
#: Connections that may wait to be accepted; the system drops more than these, and their makers try again.
PENDING_MAX = 64


def bind_udp(host: str, port: int) -> socket.socket:
    """A UDP socket at this port; with port 0 at any free one. Raises ConfigurationError."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    _bind(sock, host, port)
    return sock


def bind_pair(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """A UDP socket and a listening TCP socket at one number; with port 0 at any that is free in both.

    Raises ConfigurationError.
    """
    for _ in range(ATTEMPTS_MAX):
        udp = bind_udp(host, port)
        try:
            return udp, listen(host, udp.getsockname()[1], again=port != 0)
        except ConfigurationError as error:
            udp.close()
            if port or not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.EADDRINUSE:
                raise
    raise ConfigurationError(f"transport.port: found no port of {host} that is free in UDP and in TCP; choose one.")


def listen(host: str, port: int, *, again: bool) -> socket.socket:
    """A listening TCP socket at this port; with port 0 at any free one. Raises ConfigurationError.

    `again`: the port is a configured one, at which connections of an earlier process may still be winding up."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    if again:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _bind(sock, host, port)
    sock.listen(PENDING_MAX)
    return sock


def _bind(sock: socket.socket, host: str, port: int) -> None:
    try:
        sock.bind((host, port))
    except OSError as error:
        protocol = "UDP" if sock.type == socket.SOCK_DGRAM else "TCP"
        sock.close()
        raise ConfigurationError(why_not_bound(error, host, port, protocol)) from error


def why_not_bound(error: OSError, host: str, port: int, protocol: str = "UDP") -> str:
    """A sentence for operators on why an address could not be bound."""
    if error.errno == errno.EADDRINUSE:
        where = f"port {port} of {host} is already in use in {protocol}"
        return f"transport.port: {where}; choose another one, or 0 for any free one."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"transport.interface: {host} is no address of this machine."
    return f"transport: cannot listen on {host}:{port} in {protocol} ({error.strerror})."
