"""A flood of the datagrams with the most work per byte: the member still meets its deadlines."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
import trio

from sitestack.assembly import build_stack
from sitestack.channel.driver import TURN_S_MAX, Driver
from sitestack.config import lan
from sitestack.layers.unicast.headers import SendFirst
from sitestack.model.address import Address, Physical
from sitestack.model.events import Connect
from sitestack.model.frame import Frame
from sitestack.stack.layer import Local
from sitestack.stack.stack import Datagram
from sitestack.transport.memory import MemoryNetwork, MemoryTransport
from sitestack.wire.codec import FRAMES_MAX

#: Datagrams that two sockets hand over at a time.
AT_A_TIME = 512
WATCHED_S = 2.0


class Flooded(MemoryTransport):
    """A transport with more datagrams than a member can read."""

    datagram: tuple[bytes, Physical]

    def __init__(self) -> None:
        super().__init__(MemoryNetwork(), Physical("memory", 1))
        self.sent_at: list[float] = []

    def receive(self) -> list[tuple[bytes, Physical]]:
        return [self.datagram] * AT_A_TIME

    def send(self, datagrams: Sequence[Datagram]) -> None:
        self.sent_at.append(trio.current_time())


@pytest.mark.long
async def test_heartbeats_go_out_whatever_arrives() -> None:
    rng = random.Random(1)
    local, stranger = Local("NYC", Address.make(rng), "A", rng), Address.make(rng)
    stack, transport = build_stack(local, lan("NYC")), Flooded()
    frame = stack.codec.encode_frame(Frame(stranger, local.address, (SendFirst(1 << 60),) * 3, None, True))
    data = stack.codec.encode_datagram(stranger, local.address, [frame] * FRAMES_MAX)
    transport.datagram = data, Physical("10.9.9.9", 9)
    driver = Driver(stack, transport, None, lambda effects: None, lambda events: None)
    stack.down(Connect(transport.physical()), trio.current_time())
    began = trio.current_time()
    turns = [began]
    while turns[-1] < began + WATCHED_S:
        driver.turn(trio.current_time())
        turns.append(trio.current_time())
    assert max(after - before for before, after in pairwise(turns)) < 20 * TURN_S_MAX
    assert stack.drops.keys() == {"unicast_stale_send_first"}
    assert max(after - before for before, after in pairwise([began, *transport.sent_at])) < WATCHED_S / 2


async def test_what_wakes_a_member_for_nothing_costs_no_turn() -> None:
    rng = random.Random(1)
    local = Local("NYC", Address.make(rng), "A", rng)
    stack, transport = build_stack(local, lan("NYC")), MemoryNetwork(lambda source, to: False).open()
    driver = Driver(stack, transport, None, lambda effects: None, lambda events: None)
    stack.down(Connect(transport.physical()), trio.current_time())
    driver.turn(trio.current_time())
    before = driver.statistics().turns
    driver.turn(trio.current_time())
    assert driver.statistics().turns == before
    driver.wake()
    driver.turn(trio.current_time())
    assert driver.statistics().turns == before + 1
    driver.turn(trio.current_time() + 60.0)  # something is due by then
    assert driver.statistics().turns == before + 2
