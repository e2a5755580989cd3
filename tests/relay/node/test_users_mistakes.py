"""Common mistakes of users get one sentence with the remedy."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
import trio

import relay
import sitestack
from relay.events import Duty, GlobalView, Role
from relay.node.channel import open_channel
from relay.node.config.settings import NodeConfig, SecuritySettings
from sitestack.log import NAME, log
from sitestack.model.errors import ChannelClosed, ConfigurationError, LocalError, MessageTooLarge
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import members, take
from tests.relay.node.test_relay_channel import World, two_sites

#: The methods of `Channel` and `RelayChannel` that a program calls.
METHODS = ["answer", "batches", "call", "flushed", "leave", "levels", "name_of", "ready", "send", "send_many", "statistics"]
RELAY_METHODS = ["fetch_state", "problems", "switch_site", "warnings"]


async def test_a_target_that_is_no_address_raises_with_the_value_to_pass(autojump_clock: object) -> None:
    async with members("A", "B") as [a, _]:
        for target in ("B", b"B", a.view):
            with pytest.raises(TypeError, match=r"a target is an address, as Message\.source"):
                await a.send(b"x", target=target)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="a target is an address"):
                await a.send_many([b"x"], target=target)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a target is an address"):
            await a.call(b"?", ["B"], timeout_s=1)  # type: ignore[list-item]


async def test_a_key_may_be_a_text_and_nothing_else(autojump_clock: object) -> None:
    async with members("A") as [a]:
        await a.send(b"once", key="order 1")
        await a.send(b"again", key=b"order 1")
        await a.send(b"last")
        assert [message.payload for message in await take(a, 2)] == [b"once", b"last"]
        with pytest.raises(TypeError, match="a key must be bytes or a text, not int"):
            await a.send(b"x", key=7)  # type: ignore[arg-type]


async def test_the_sentence_names_the_setting_or_the_argument(autojump_clock: object) -> None:
    async with members("A") as [a]:
        with pytest.raises(MessageTooLarge, match=r"protocols\.batching\.message_bytes_max"):
            await a.send(bytes(9 << 20))
        with pytest.raises(LocalError, match='scope="site"'):
            await a.send(b"x", oob=True)
        with pytest.raises(LocalError, match="the scope is 'all' or 'site'"):
            await a.send_many([b"x"], scope="NYC")  # type: ignore[arg-type]


async def test_two_tasks_that_iterate_are_refused(autojump_clock: object) -> None:
    async with members("A") as [a], trio.open_nursery() as nursery:
        await anext(a)
        nursery.start_soon(anext, a.batches())
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await anext(a)
        await a.send(b"x")


async def test_a_path_is_accepted_where_a_configuration_is(tmp_path: Path) -> None:
    file = tmp_path / "nyc.yaml"
    file.write_text("site: NYC\n")
    async with open_channel(file, name="A", transport=MemoryNetwork().open()) as channel:
        assert channel.site == "NYC"
    with pytest.raises(ConfigurationError, match=r"sitestack\.local\(\)"):
        async with sitestack.open_channel(str(file)):  # type: ignore[arg-type]
            pass


async def test_forgotten_keys_are_an_error_for_a_site_with_a_bridge() -> None:
    world = World()
    forgotten = replace(world.config("NYC", "A"), security=SecuritySettings())
    with pytest.raises(ConfigurationError, match=r"security\.keys: is not set.*relay keygen.*insecure=True"):
        async with open_channel(forgotten, transport=MemoryNetwork().open()):
            pass
    async with open_channel(forgotten, transport=MemoryNetwork().open(), insecure=True) as channel:
        assert channel.problems() == {}
        assert channel.warnings() == {}


async def test_ready_waits_for_the_state_and_both_views(autojump_clock: object) -> None:
    network, state = MemoryNetwork(), list[bytes]()
    config = NodeConfig(site="NYC")

    async def follow(channel: relay.RelayChannel) -> None:
        async for event in channel:
            if isinstance(event, GlobalView):
                seen.append(event)

    seen: list[GlobalView] = []
    async with (
        open_channel(config, name="A", transport=network.open(), get_state=lambda: b"of A", set_state=state.append) as a,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(follow, a)
        await a.ready()
        async with open_channel(config, name="B", transport=network.open(), get_state=lambda: b"", set_state=state.append) as b:
            with trio.move_on_after(5) as waiting:
                await b.ready()
            assert waiting.cancelled_caught, "no task receives"
            assert state == []
            nursery.start_soon(follow, b)
            await b.ready()
            assert state == [b"of A"]
            assert b.global_view in seen
        async with open_channel(config, transport=network.open()) as c:
            await c.leave()
            with pytest.raises(ChannelClosed):
                await c.ready()
        nursery.cancel_scope.cancel()


async def test_a_role_is_an_event() -> None:
    async with two_sites() as (_, channels):
        roles = []
        async for event in channels["A"]:
            if isinstance(event, Role):
                roles.append(event.duty)
                if event.duty is Duty.RELAY:
                    break
        assert roles[0] is Duty.COORDINATOR


@pytest.mark.parametrize(("kind", "names"), [(sitestack.Channel, METHODS), (relay.RelayChannel, METHODS + RELAY_METHODS)])
def test_help_shows_the_methods_that_a_program_calls(kind: type[object], names: list[str]) -> None:
    assert sorted(names) == [each for each in dir(kind) if callable(getattr(kind, each)) and not each.startswith("_")]


def test_the_library_logs_through_logging_unless_structlog_is_configured(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, configured = structlog.get_config(), structlog.is_configured()
    structlog.reset_defaults()
    monkeypatch.setattr(logging.root.manager, "disable", 0)
    monkeypatch.setattr(logging.root, "handlers", [caplog.handler])  # without those of a command of another test
    for name in (NAME, NAME.partition(".")[0]):
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
        monkeypatch.setattr(logging.getLogger(name), "disabled", False)
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
    try:
        with caplog.at_level(logging.INFO, NAME):
            log.info("peer added", site="SFO")
        log.info("below the level of the logger")
        with structlog.testing.capture_logs() as lines:
            log.warning("peer removed", site="SFO")
    finally:
        structlog.reset_defaults()
        if configured:
            structlog.configure(**before)
    assert [(record.name, record.levelname, record.getMessage()) for record in caplog.records] == [
        (NAME, "INFO", "event='peer added' site='SFO'")
    ]
    assert lines == [{"event": "peer removed", "site": "SFO", "log_level": "warning"}]
    assert capsys.readouterr().out == ""
