"""The node's view of its keys: a changed file is read again, and foreign keys are reported."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import trio
from trio.testing import MockClock

from relay.keys.directory import KEY_RING, new_secret, read_key_ring, write_key_ring
from relay.node import channel as node_channel
from relay.node.channel import RelayChannel, open_channel
from relay.node.config.settings import NodeConfig, SecuritySettings
from relay.node.site_keys import SiteKeys
from relay.node.status.foreign_datagrams import MEANINGS, STANDS_S, ForeignDatagrams
from sitestack.config import TransportConfig
from sitestack.model.errors import ConfigurationError
from sitestack.model.gap import Gap
from sitestack.model.message import Message
from sitestack.seal.key_ring import KeyRing, SiteKey
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import wait_for_view
from tests.harness.thinned import one_in


def directory_at(path: Path, ring: KeyRing) -> Path:
    """Write the key directory of a node of the site."""
    path.mkdir(exist_ok=True)
    write_key_ring(path, ring)
    return path


def config(directory: Path, name: str) -> NodeConfig:
    transport = TransportConfig(interface="127.0.0.1", multicast_port=45_997)
    return NodeConfig(site="NYC", name=name, transport=transport, security=SecuritySettings(keys=str(directory)))


def test_a_changed_file_is_read_once_and_a_damaged_one_changes_nothing(tmp_path: Path) -> None:
    ring = KeyRing.of(new_secret())
    keys = SiteKeys(directory_at(tmp_path, ring))
    assert (keys.ring, keys.look()) == (ring, None)
    changed = ring.add(SiteKey(new_secret()))
    write_key_ring(tmp_path, changed)
    assert (keys.look(), keys.look()) == (changed, None)
    file = tmp_path / KEY_RING
    sound = file.read_bytes()
    for damage in (lambda: file.write_bytes(sound[:-20]), lambda: file.chmod(0o644), file.unlink):
        damage()
        assert keys.look() is None
        assert keys.ring == changed
        assert "the previous keys stay in use" in keys.problem
    write_key_ring(tmp_path, changed)
    assert (keys.look(), keys.problem) == (None, "")


def test_a_file_that_could_not_be_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a descriptor to spare, for instance. A removed key would stay in use for good."""
    keys, changed = SiteKeys(directory_at(tmp_path, KeyRing.of(new_secret()))), KeyRing.of(new_secret())
    write_key_ring(tmp_path, changed)
    with monkeypatch.context() as patch:
        patch.setattr("os.open", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        assert (keys.look(), keys.look()) == (None, None)
    assert "cannot be read" in keys.problem
    assert (keys.look(), keys.problem) == (changed, "")


def test_a_node_does_not_begin_with_keys_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=KEY_RING):
        SiteKeys(tmp_path)


def test_each_kind_of_foreign_datagram_is_reported_until_it_stops_for_a_while() -> None:
    foreign = ForeignDatagrams()
    assert foreign.look({"seal_replayed": 9}, 0.0) == {}
    assert foreign.look(dict.fromkeys(MEANINGS, 1), 1.0) == MEANINGS
    assert foreign.look({"seal_plain": 1, "seal_key": 5}, STANDS_S) == MEANINGS
    assert foreign.look({"seal_plain": 1, "seal_key": 5}, STANDS_S + 2.0) == {"seal_key": MEANINGS["seal_key"]}


async def rotate(directories: list[Path], pause_s: float) -> None:
    """Add, use and remove a key, one node's file after the other, while the others still have the previous state."""
    old = read_key_ring(directories[0]).in_use
    key = SiteKey(new_secret())
    for step in ("add", "use", "remove"):
        for directory in directories:
            ring = read_key_ring(directory)
            changed = ring.add(key) if step == "add" else ring.use(key.id) if step == "use" else ring.remove(old)
            write_key_ring(directory, changed)
            await trio.sleep(pause_s)
        await trio.sleep(2 * pause_s)


async def send_until(channel: RelayChannel, done: trio.Event) -> int:
    count = 0
    while not done.is_set():
        await channel.send(b"%s %d" % (channel.name.encode(), count))
        count += 1
        await trio.sleep(0.0005)
    return count


@pytest.mark.parametrize("order", one_in(2, ["total", "fifo"]))
async def test_keys_change_under_load_and_nothing_is_lost_or_comes_twice(
    tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three members over UDP of the loopback interface, all of them sending, while the keys change twice."""
    monkeypatch.setattr(node_channel, "LOOK_INTERVAL_S", 0.02)
    ring = KeyRing.of(new_secret())
    directories = [directory_at(tmp_path / name, ring) for name in "ABC"]
    configs = [replace(config(each, each.name), order=order) for each in directories]  # type: ignore[arg-type]
    sent: dict[str, int] = {}
    heard: dict[str, list[bytes]] = {name: [] for name in "ABC"}
    gaps: list[Gap] = []
    done, over = trio.Event(), trio.Event()

    def look() -> None:
        if len(sent) == 3 and all(len(each) >= sum(sent.values()) for each in heard.values()):
            over.set()

    async def send(channel: RelayChannel) -> None:
        sent[channel.name] = await send_until(channel, done)
        look()  # its last message may have been heard by all already

    async def listen(channel: RelayChannel) -> None:
        async for event in channel:
            if isinstance(event, Message):
                heard[channel.name].append(event.payload)
            elif isinstance(event, Gap):
                gaps.append(event)
            look()

    async with open_channel(configs[0]) as a, open_channel(configs[1]) as b, open_channel(configs[2]) as c:
        channels = (a, b, c)
        for channel in channels:
            await wait_for_view(channel, 3)
        async with trio.open_nursery() as nursery:
            for channel in channels:
                nursery.start_soon(listen, channel)
                nursery.start_soon(send, channel)
            view = a.view.id
            for _ in range(2):
                await rotate(directories, 0.06)
            done.set()
            with trio.fail_after(30):
                await over.wait()
            await trio.sleep(0.1)  # a duplicate would arrive now
            nursery.cancel_scope.cancel()
        assert [channel.view.id for channel in channels] == [view] * 3, "nobody was suspected"
    expected = sorted(b"%s %d" % (name.encode(), number) for name, count in sent.items() for number in range(count))
    assert min(sent.values()) > 100
    for name in "ABC":
        assert sorted(heard[name]) == expected
    assert gaps == []
    assert read_key_ring(directories[0]).in_use != ring.in_use
    if order == "total":
        assert heard["A"] == heard["B"] == heard["C"]


async def test_a_member_that_has_only_the_removed_key_is_out(tmp_path: Path, autojump_clock: MockClock) -> None:
    ring = KeyRing.of(new_secret())
    directories = [directory_at(tmp_path / name, ring) for name in "ABC"]
    network = MemoryNetwork()

    async with (
        open_channel(config(directories[0], "A"), transport=network.open()) as a,
        open_channel(config(directories[1], "B"), transport=network.open()) as b,
        open_channel(config(directories[2], "C"), transport=network.open()) as c,
    ):
        for each in (a, b, c):
            await wait_for_view(each, 3)
        await rotate(directories[:2], 3.0)
        await trio.sleep(20)
        assert a.view.names == b.view.names == ("A", "B")
        assert c.view.names == ("C",)
        assert a.problems()["seal_key"] == MEANINGS["seal_key"]
