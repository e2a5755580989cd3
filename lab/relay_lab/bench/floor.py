"""The floor of a round trip: a bare trio UDP echo between two processes on the loopback interface of this machine.

`python -m relay_lab.bench.floor BYTES SECONDS` starts the other process, asks it for that long, and prints the round
trips as a JSON object (`round_trips.summary`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import trio

from relay_lab.bench.round_trips import summary

_READ_BYTES = 65_536
#: Seconds of asking before the window.
_WARM_UP_S = 0.3


async def answer() -> None:
    sock = await _bound()
    print(sock.getsockname()[1], flush=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_echo, sock)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


async def _echo(sock: trio.socket.SocketType) -> None:
    while True:
        data, source = await sock.recvfrom(_READ_BYTES)
        await sock.sendto(data, source)


async def ask(port: int, size: int, window_s: float) -> list[int]:
    sock, there, payload = await _bound(), ("127.0.0.1", port), bytes(size)
    trips: list[int] = []
    begins = trio.current_time() + _WARM_UP_S
    while (now := trio.current_time()) < begins + window_s:
        asked = time.perf_counter_ns()
        await sock.sendto(payload, there)
        await sock.recvfrom(_READ_BYTES)
        if now >= begins:
            trips.append(time.perf_counter_ns() - asked)
    return trips


async def _bound() -> trio.socket.SocketType:
    sock = trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM)
    await sock.bind(("127.0.0.1", 0))
    return sock


def main(size: int, window_s: float) -> None:
    command = [sys.executable, "-m", "relay_lab.bench.floor"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        trips = trio.run(ask, int(other.stdout.readline()), size, window_s)
        assert other.stdin is not None
        other.stdin.close()
    print(json.dumps(summary(trips)))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        trio.run(answer)
    else:
        main(int(sys.argv[1]), float(sys.argv[2]))
