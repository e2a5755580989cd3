"""The costs of a delivery among a hundred members, simulated in one process because no machine has the cores.

`python -m relay_lab.bench.simulated ORDER SIZE` prints the figures as a JSON object: datagrams and CPU time for
each delivery.
The protocols are those of real members; the network is simulated and time is virtual.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial

from relay.layer import RelayConfig
from relay_lab.bench.content import FILLER, Content
from relay_lab.sim.process import Process
from relay_lab.sim.world import World
from relay_lab.simulation.process import relay_maker
from sitestack.config import Order, SiteConfig
from sitestack.model.address import Physical
from sitestack.model.events import Event
from sitestack.model.frame import Frame

MEMBERS = 100
#: A steady load: each member sends so many messages at once, so many times, so many virtual seconds apart.
_BURST, _BURSTS, _APART_S = 20, 5, 0.2
#: Virtual seconds within which the members must be in one view, and everything delivered.
_FORM_S, _DELIVER_S = 60.0, 30.0
_SITE = "LARGE"


class _Receiver:
    """Counts the deliveries of one member."""

    def __init__(self, process: Process) -> None:
        self.delivered = 0
        self.content = Content(0)
        process.on_event = self._take

    def _take(self, event: Event | Frame) -> None:
        if isinstance(event, Frame) and event.batch is not None:
            self.delivered += event.batch.count
            self.content.take(event.batch)


class _Wire:
    """How many datagrams are sent; one to all members counts once."""

    def __init__(self, world: World) -> None:
        self._network = world.network
        self._send = world.network.send
        self._arrived = world.network.sent
        self.sent = 0
        world.network.send = self._note  # type: ignore[method-assign]

    def _note(self, source: Physical, to: Physical | None, group: str, data: bytes) -> None:
        self.sent += 1
        self._send(source, to, group, data)

    @property
    def arrived(self) -> int:
        """Datagrams that members have to read."""
        return self._network.sent - self._arrived


def measure_simulated(order: Order, size: int, members: int = MEMBERS) -> dict[str, float]:
    """Messages, datagrams a delivery, and CPU seconds. Raises RuntimeError when something is missing or wrong."""
    world = World(1, relay_maker({_SITE: (SiteConfig(_SITE, order=order), RelayConfig())}))
    processes = [world.spawn(_SITE, f"M{n}", Physical(f"10.0.0.{n + 1}", 7_800)) for n in range(members)]
    if not world.run_until(lambda: world.settled(_SITE, processes), _FORM_S):
        raise RuntimeError(f"{members} members were not in one view after {_FORM_S:g} virtual seconds")
    receivers, wire = [_Receiver(process) for process in processes], _Wire(world)
    began, used = world.now, time.process_time()
    for burst in range(_BURSTS):
        for number, process in enumerate(processes):
            # Not at once: the clocks of members differ.
            world.schedule.at(began + _APART_S * (burst + number / members), partial(_send, process, FILLER * size))
    messages = members * _BURST * _BURSTS
    if not world.run_until(lambda: all(each.delivered >= messages for each in receivers), _DELIVER_S):
        raise RuntimeError(f"not everything was delivered after {_DELIVER_S:g} virtual seconds")
    used, deliveries = time.process_time() - used, sum(each.delivered for each in receivers)
    if wrong := sum(each.content.wrong for each in receivers) + (deliveries != messages * members):
        raise RuntimeError(f"{wrong} batches had a wrong sequence number or wrong bytes")
    return {
        "messages": messages,
        "deliveries": deliveries,
        "datagrams_per_thousand": round(wire.sent / deliveries * 1e3, 3),
        "arrivals_per_thousand": round(wire.arrived / deliveries * 1e3, 3),
        "core_s": round(used, 2),
        "cpu_s_per_million": round(used / deliveries * 1e6, 3),
        "virtual_s": round(world.now - began, 2),
    }


def _send(process: Process, payload: bytes) -> None:
    for _ in range(_BURST):
        if not process.send(payload):
            raise RuntimeError(f"{process.local.name} had no credit for a load that is far below the limit")


def main(order: Order, size: int) -> None:
    """Measure, and print."""
    print(json.dumps(measure_simulated(order, size)))


if __name__ == "__main__":
    main("total" if sys.argv[1] == "total" else "fifo", int(sys.argv[2]))
