"""The place of a member's sockets in its site's multicast group, and how it is won back when the interface was away."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

import trio

from sitestack.model.address import Physical

#: How often the group is joined again while that fails, and while sending to it fails.
RENEW_INTERVAL_S = 1.0
#: What sending says when the interface is gone, has lost its address, is down, or came back as another one.
_AWAY = frozenset({errno.ENODEV, errno.EADDRNOTAVAIL, errno.ENETUNREACH, errno.ENETDOWN})


class GroupMembership:
    """One socket hears the group, another one sends to it, both through the interface with one address.

    The kernel forgets both when the interface goes, also when it comes back with the same address (a driver that is loaded
    again, a container that is connected anew). A member notices when it sends to the group, as heartbeats do. An interface that
    came back between two of them as the same one is not noticed; what is sent to all is then asked for, by unicast.
    """

    def __init__(self, listener: socket.socket, sender: socket.socket, group: Physical, host: str) -> None:
        self._listener = listener
        self._sender = sender
        self._interface = socket.inet_aton(host)
        self._request = socket.inet_aton(group.host) + self._interface
        self._renew_at = float("-inf")
        #: Whether sending to the group has failed and it was not joined since.
        self.lost = False

    def join(self) -> None:
        """Hear the group and send to it through the interface. Raises OSError when that cannot be."""
        self._sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, self._interface)
        self._listener.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, self._request)

    def failed(self, error: OSError) -> None:
        """A datagram to the group could not be sent."""
        if error.errno in _AWAY:
            self.lost = True

    def renew(self) -> None:
        """Join the group again, if it is time and the interface is back. Only called while it is `lost`."""
        now = trio.current_time()
        if now < self._renew_at:
            return
        self._renew_at = now + RENEW_INTERVAL_S
        with suppress(OSError):  # the kernel may have forgotten it, but then the socket still counts it
            self._listener.setsockopt(socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, self._request)
        with suppress(OSError):  # not back yet
            self.join()
            self.lost = False
