"""A site that lies: real TLS with its own keys, a sound HELLO, then every frame of the bridge."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from relay.events import BridgeConnected, BridgeReceived, BridgeSend
from relay.gateway.wire import Data, FrameParser, Hello, State, encode
from relay.keys.directory import make_key_directory
from relay_lab.drills.hostile import liar
from relay_lab.drills.hostile.target import Target, Victim
from relay_lab.drills.plan_file import read_drill
from sitestack.model.frame import Header
from tests.harness.bridges import Site, at_port
from tests.harness.relay.puppet import D, batch, hello


@pytest.mark.slow
async def test_a_liar_greets_soundly_and_forges_the_next_message_of_those_it_has_received(tmp_path: Path) -> None:
    make_key_directory(tmp_path / "keys", ["SFO", "EVIL"])
    frames: list[Header] = []
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            site = Site(at_port(), nursery, tmp_path / "keys" / "SFO")
            await site.listens()
            victim = Victim("SFO", "D", site.address.host, D.hex(), site.address.port)
            target = Target(
                "lie", "SFO", victims=(victim,), source="127.0.0.1", seconds=2.0, keys=str(tmp_path / "keys" / "EVIL")
            )
            nursery.start_soon(trio.to_thread.run_sync, liar.attack, target)
            connected = await site.hears(BridgeConnected)
            assert connected.certified == "EVIL"
            site.bridge.carry_out(BridgeSend(connected.connection, encode(hello()) + encode(Data(("SFO",), batch(7)))))
            parser = FrameParser(1 << 24)
            forged = encode(Data(("SFO",), batch(8)))[4:38]  # as far as the number
            while not any(forged in encode(frame) for frame in frames):
                parser.feed((await site.hears(BridgeReceived)).data)
                while (frame := parser.next_frame()) is not None:
                    frames.append(frame)
            nursery.cancel_scope.cancel()
    assert isinstance(frames[0], Hello)
    assert (frames[0].site, frames[1]) == ("EVIL", State({}))


def test_a_lie_needs_the_name_of_the_site_that_lies() -> None:
    plain = {"name": "x", "method": [{"do": "lie", "target": "NYC", "for_s": 1}]}
    assert read_drill(plain)[1] == ["method[0]: lie needs key_of, the linked site that lies."]
    assert read_drill({**plain, "method": [{**plain["method"][0], "key_of": "EVIL"}]})[0].liar == "EVIL"  # type: ignore[dict-item]
