"""Address translation for one host, as a program: `python nat.py private external inner_port outer_port`.

It stands between two networks as a router without other means does. The host's packets leave with
the external address, and packets to that address go to the host. One port is translated, the
listening one; the others stay. It ends with its standard input.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import sys

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 1, 0x1000
DEVICE = "nat0"
TCP, UDP = 6, 17


def open_device() -> int:
    """The descriptor of a device whose packets this program reads and writes."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH14x", DEVICE.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


def checksum(data: bytes) -> int:
    """That of the internet protocols (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


class Translation:
    """Rewrites IPv4 packets."""

    def __init__(self, private: str, external: str, inner_port: int, outer_port: int) -> None:
        self._private, self._external = socket.inet_aton(private), socket.inet_aton(external)
        self._ports = inner_port, outer_port

    def translate(self, data: bytes) -> bytes:
        """Return the translated packet; empty for a packet of another host."""
        packet = bytearray(data)
        if packet[0] >> 4 != 4:
            return b""
        inner, outer = self._ports
        head = (packet[0] & 15) * 4
        if packet[12:16] == self._private:
            packet[12:16], at, before, after = self._external, head, inner, outer
        elif packet[16:20] == self._external:
            packet[16:20], at, before, after = self._private, head + 2, outer, inner
        else:
            return b""
        packet[10:12] = bytes(2)
        packet[10:12] = checksum(bytes(packet[:head])).to_bytes(2, "big")
        is_first = not int.from_bytes(packet[6:8], "big") & 0x1FFF
        if is_first and packet[9] in (TCP, UDP):
            if packet[at : at + 2] == before.to_bytes(2, "big"):
                packet[at : at + 2] = after.to_bytes(2, "big")
            self._sum(packet, head)
        return bytes(packet)

    def _sum(self, packet: bytearray, head: int) -> None:
        """Of TCP, as it has to be; UDP may go without."""
        if packet[9] == UDP:
            packet[head + 6 : head + 8] = bytes(2)
            return
        packet[head + 16 : head + 18] = bytes(2)
        pseudo = bytes(packet[12:20]) + bytes([0, TCP]) + (len(packet) - head).to_bytes(2, "big")
        packet[head + 16 : head + 18] = checksum(pseudo + bytes(packet[head:])).to_bytes(2, "big")


def main() -> None:
    """Translate until the standard input ends."""
    private, external, inner_port, outer_port = sys.argv[1:]
    translation, device = Translation(private, external, int(inner_port), int(outer_port)), open_device()
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([device, 0], [], [])
        if 0 in ready:
            return
        if packet := translation.translate(os.read(device, 65_535)):
            os.write(device, packet)


if __name__ == "__main__":
    main()
