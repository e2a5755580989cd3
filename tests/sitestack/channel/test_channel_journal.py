"""The records in a channel's journal, and their times."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from trio.testing import MockClock

from sitestack.channel.open import open_channel
from sitestack.journal import records
from sitestack.model.address import Physical
from sitestack.model.errors import MessageTooLarge
from sitestack.model.message import Scope
from sitestack.stack.layer import Local
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import NYC, one, take, with_batching


async def test_a_members_life_is_recorded_from_its_start_to_its_stop(autojump_clock: MockClock) -> None:
    written: list[records.Record] = []
    owners: list[Local] = []

    def journal(local: Local) -> list[records.Record]:
        owners.append(local)
        return written

    config = with_batching(NYC, message_bytes_max=1_000)
    async with open_channel(
        config, name="A", journal=lambda local: journal(local).append, transport=MemoryNetwork().open()
    ) as a:
        await a.send(b"one")
        await a.send(b"two")
        await take(a, 2)
        try:
            await a.send(bytes(2_000))
        except MessageTooLarge:
            await a.send(b"me", target=a.address)
        await take(a, 1)

    assert [(owner.name, owner.address) for owner in owners] == [("A", a.address)]
    kinds = [type(record).__name__ for record in written]
    assert kinds == ["Start", "View", "Role", "Send", "Deliver", "Reject", "Send", "Deliver", "Stop"]
    start, view, _, sent, delivered, rejected, _, unicast, stop = written
    assert isinstance(start, records.Start)
    assert (start.site, start.uuid, start.name) == ("NYC", a.address, "A")
    assert isinstance(view, records.View)
    assert view.names == ("A",)
    assert isinstance(sent, records.Send)
    assert isinstance(delivered, records.Deliver)
    assert (sent.first, sent.count, sent.payload) == (1, 2, b"\3\0\0\0\3\0\0\0onetwo")
    assert (delivered.digest, delivered.vid, delivered.gseq) == (sent.digest, view.vid, 1)
    assert isinstance(rejected, records.Reject)
    assert rejected.reason == "MessageTooLarge"
    assert isinstance(unicast, records.Deliver)
    assert (unicast.scope, unicast.gseq) == (Scope.UNICAST, None)
    assert isinstance(stop, records.Stop)
    assert [record.t for record in written] == sorted(record.t for record in written)


async def test_a_send_is_recorded_before_its_first_datagram_leaves(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    transport = network.open()
    story: list[str] = []
    send = transport.send

    def spy(datagrams: Sequence[tuple[Physical | None, bytes]]) -> None:
        if any(b"the payload" in data for _, data in datagrams):
            story.append("on the wire")
        send(datagrams)

    def write(record: records.Record) -> None:
        if isinstance(record, records.Send):
            story.append("recorded")

    transport.send = spy  # type: ignore[method-assign]
    async with (
        one(network, "A"),
        open_channel(NYC, name="B", journal=lambda local: write, transport=transport) as b,
    ):
        await b.send(b"the payload")
        await take(b, 1)
        assert story[:2] == ["recorded", "on the wire"]


async def test_a_member_that_is_cancelled_writes_no_stop(autojump_clock: MockClock) -> None:
    written: list[records.Record] = []
    with trio.move_on_after(5):
        async with one(MemoryNetwork(), "A", journal=lambda local: written.append):
            await trio.sleep_forever()
    assert type(written[-1]) is not records.Stop


async def test_refused_input_is_recorded_in_sums(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    stranger = network.open()
    written: list[records.Record] = []
    async with one(network, "A", journal=lambda local: written.append):
        await trio.sleep(5)
        for _ in range(7):
            stranger.send([(None, b"rubbish")])
        await trio.sleep(5)
        stranger.send([(None, b"rubbish")])
    drops = [(record.why, record.n) for record in written if isinstance(record, records.Drop)]
    assert drops == [("magic", 7), ("magic", 1)]
