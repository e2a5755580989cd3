"""What can be configured about a site. Values only: `check_site` says what does not go together."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from sitestack.address import Physical


@dataclass(frozen=True, slots=True)
class TransportConfig:
    """The sockets of a member."""

    #: The IPv4 address or the name of the network interface to use. Empty: the one by which the machine reaches the group.
    interface: str = ""
    #: UDP port of this member; 0 takes a free one. Fix it when others name this member in `discovery.initial_hosts`.
    port: int = 0
    #: Whether the network carries IP multicast. Most clouds and container networks do not: set it to false there, and name
    #: some members in `discovery.initial_hosts`.
    multicast: bool = True
    #: The multicast group. Empty: one made out of the site's name, so that sites on one network do not hear each other.
    multicast_group: str = ""
    #: The UDP port of the group, the same for all members of the site.
    multicast_port: int = 7_600
    #: How many routers a multicast may cross, and one.
    multicast_ttl_hops: int = 1
    #: The largest datagram. Large ones cost less; each is lost when one of its IP fragments is, so that 1,400 is better where
    #: packets get lost.
    datagram_bytes_max: int = 60_000
    #: What the kernel keeps until this member reads it. More than the system's limit needs privileges (see statistics).
    receive_buffer_bytes: int = 8 << 20
    #: What the kernel keeps until it has sent it.
    send_buffer_bytes: int = 2 << 20
    #: What waits when the kernel's buffer is full; beyond, datagrams are given up and the protocols send them again.
    send_queue_bytes_max: int = 4 << 20
    #: How many datagrams are read in one turn, so that a flood cannot starve timers.
    receive_datagrams_max: int = 256
    #: The address under which others reach this member, when it is not the interface's (address translation). Empty: the same.
    external_host: str = ""
    #: The port that belongs to it; 0: the same.
    external_port: int = 0

    def group(self, site: str) -> Physical:
        """The multicast group of a site."""
        number = zlib.crc32(site.encode())
        host = self.multicast_group or f"239.192.{number >> 8 & 0xFF}.{number & 0xFF}"
        return Physical(host, self.multicast_port)
