"""The membership of a member's sockets in its site's multicast group, which is renewed when the interface was away."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

import trio

from sitestack.model.address import Physical

#: Seconds between two attempts to join the group again.
RENEW_INTERVAL_S = 1.0
#: Errors of sending when the interface is gone, has lost its address, is down, or came back as another interface.
_AWAY = frozenset({errno.ENODEV, errno.EADDRNOTAVAIL, errno.ENETUNREACH, errno.ENETDOWN})


class GroupMembership:
    """Two sockets, one that hears the group and one that sends to it, both through the interface with one address.

    The kernel forgets both memberships when the interface goes, also when it comes back with the same address (a reloaded
    driver, a container that is connected again). A member notices when sending to the group fails, as heartbeats will. An
    interface that was away only between two sends is not noticed; then multicasts are missed and asked for by unicast.
    """

    def __init__(
        self, listener: socket.socket, sender: socket.socket, group: Physical, host: str, *, lost: bool = False
    ) -> None:
        """The address of the interface is `host`; `lost` says that the group is joined with the next datagram to anybody."""
        self._listener = listener
        self._sender = sender
        self._interface = socket.inet_aton(host)
        self._request = socket.inet_aton(group.host) + self._interface
        self._renew_at = float("-inf")
        #: Whether sending to the group has failed since the group was last joined.
        self.lost = lost

    def join(self) -> None:
        """Hear the group and send to it through the interface. Raises OSError when that cannot be."""
        self._sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, self._interface)
        self._listener.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, self._request)

    def leave(self) -> None:
        """Hear the group no more."""
        with suppress(OSError):  # the kernel may have forgotten it
            self._listener.setsockopt(socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, self._request)

    def failed(self, error: OSError) -> None:
        """A datagram to the group could not be sent."""
        if error.errno in _AWAY:
            self.lost = True

    def renew(self) -> None:
        """Join the group again, if it is time and the interface is back. For use while `lost`."""
        now = trio.current_time()
        if now < self._renew_at:
            return
        self._renew_at = now + RENEW_INTERVAL_S
        self.leave()  # the kernel may have forgotten it, but then the socket still counts it
        with suppress(OSError):  # not back yet
            self.join()
            self.lost = False
