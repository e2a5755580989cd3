"""A node logs its problems, and the cost of looking for them does not grow with its queues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import trio
from structlog.testing import capture_logs

from relay.node.channel import RelayChannel
from relay.node.config.settings import NodeConfig
from relay.node.daemon import WATCH_INTERVAL_S, NodeOptions, _Node
from relay.node.output.lines import LineSource
from sitestack.model.errors import MessageTooLarge, NoMajority


class DeafChannel:
    """A channel that cannot listen for other sites. Its statistics are not for every second."""

    excluded = None

    def __init__(self) -> None:
        self.waits: dict[str, int] = {}
        self.listen_error = ""
        self.ends_soon = ""
        self.began, self.sent = trio.current_time(), list[bytes]()

    def problems(self) -> dict[str, str]:
        return {"relay.bridge.bind": self.listen_error}

    def warnings(self) -> dict[str, str]:
        return {"bridge.pem": self.ends_soon}

    def _waited_for(self) -> dict[str, int]:
        return self.waits

    def statistics(self) -> object:
        raise AssertionError("all numbers were asked for")

    async def send(self, line: bytes) -> None:
        if 10.0 < trio.current_time() - self.began < 20.0:
            raise NoMajority("this part of the site lacks the majority")
        if line == b"large":
            raise MessageTooLarge("too large")
        self.sent.append(line)


async def test_a_member_that_reads_nothing_while_senders_wait_is_named_in_the_log(autojump_clock: object) -> None:
    node, channel = _Node(NodeConfig(site="NYC", name="A"), NodeOptions()), DeafChannel()
    channel.waits = {"C": 1_000}
    with capture_logs() as log:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node._watch, cast(RelayChannel, cast(Any, channel)))
            await trio.sleep(10)
            nursery.cancel_scope.cancel()
    assert [(line["event"], line["what"]) for line in log] == [("problem", "senders: wait for C, which reads nothing.")]


async def test_each_problem_is_logged_once_as_an_error_and_one_ahead_as_a_warning(autojump_clock: object) -> None:
    node, channel = _Node(NodeConfig(site="NYC", name="A"), NodeOptions()), DeafChannel()
    with capture_logs() as log:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node._watch, cast(RelayChannel, cast(Any, channel)))
            for error in ("", "cannot listen", "", "cannot listen", ""):
                channel.listen_error = error
                await trio.sleep(3 * WATCH_INTERVAL_S)
            channel.ends_soon = "ends in 29 days"
            await trio.sleep(3 * WATCH_INTERVAL_S)
            assert node._sentences(cast(RelayChannel, cast(Any, channel))) == ["bridge.pem: ends in 29 days."]
            nursery.cancel_scope.cancel()
    said = [(line["log_level"], line["event"], line["what"]) for line in log]
    assert said == [
        *[("error", "problem", "relay.bridge.bind: cannot listen.")] * 2,
        ("warning", "problem ahead", "bridge.pem: ends in 29 days."),
    ]


async def test_lines_wait_for_the_majority_and_are_logged_once(autojump_clock: object) -> None:
    async def lines() -> AsyncIterator[bytes]:
        for number in range(20):
            await trio.sleep(1.1)
            yield b"large" if number == 15 else b"%d" % number

    node, channel = _Node(NodeConfig(site="NYC", name="A"), NodeOptions()), DeafChannel()
    with capture_logs() as log:
        await node._publish(cast(RelayChannel, cast(Any, channel)), cast(LineSource, SimpleNamespace(lines=lines)))
    assert channel.sent == [b"%d" % number for number in range(20) if number != 15]
    assert [line["event"] for line in log] == ["publishing waits", "line not published"]
    assert node._status.to_json(None, {}, None, [], 0.0, node._statistics())["messages"]["sent"] == 19
