"""Channels that watch each other: real processes, killed and stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio

from relay_lab.drills.tether import tie
from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.config import SiteConfig
from sitestack.layers.failure_detection import FailureDetectionStatistics
from sitestack.transport.watch import WatchStatistics
from tests.harness.channels import together, wait_for_view
from tests.harness.messages import present
from tests.sitestack.channel.test_channel_udp import JOIN_WAIT_S, config

_MEMBER = f"""
import sys, trio
from dataclasses import replace
from sitestack.config import local
from sitestack.channel.open import open_channel
from tests.harness.messages import present

async def main():
    site = local(sys.argv[1])
    site = replace(site, discovery=replace(site.discovery, join_wait_s={JOIN_WAIT_S}))
    async with open_channel(site, name="A"):
        print("joined", end="", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@asynccontextmanager
async def coordinator(site: SiteConfig) -> AsyncIterator[trio.Process]:
    """A process that is the first member of the site."""
    command = [sys.executable, "-c", _MEMBER, site.site]
    process = await trio.lowlevel.open_process(tie(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    async with process.stdout:
        try:
            assert await process.stdout.receive_some() == b"joined"
            yield process
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


@asynccontextmanager
async def join(site: SiteConfig, name: str, count: int) -> AsyncIterator[Channel]:
    """One more member, the `count`th."""
    async with open_channel(site, name=name) as channel:
        await wait_for_view(channel, count)
        yield channel


def watching(channel: Channel) -> WatchStatistics:
    return present(channel.statistics().watch)


def suspicions(channel: Channel) -> int:
    statistics = channel.statistics().stack["failure_detection"]
    assert isinstance(statistics, FailureDetectionStatistics)
    return statistics.suspicions


async def settled(channel: Channel, count: int) -> None:
    while watching(channel).watching != count:  # noqa: ASYNC110 (numbers have no event)
        await trio.sleep(0.01)


async def test_the_next_in_line_coordinates_within_moments_of_a_kill() -> None:
    site = config()
    with trio.fail_after(30):
        async with coordinator(site) as a, join(site, "B", 2) as b, join(site, "C", 3) as c:
            await settled(b, 2)
            await settled(c, 2)
            a.kill()
            with trio.fail_after(1):
                await wait_for_view(b, 2)
                await wait_for_view(c, 2)
            assert b.view.coordinator == b.address


@pytest.mark.long
async def test_a_stopped_coordinator_is_not_suspected_before_the_timeout() -> None:
    site = config()
    with trio.fail_after(30):
        async with coordinator(site) as a, join(site, "B", 2) as b:
            await settled(b, 1)
            a.send_signal(signal.SIGSTOP)
            await trio.sleep(1.0)
            assert suspicions(b) == 0
            a.send_signal(signal.SIGCONT)
            await trio.sleep(0.5)
            assert (suspicions(b), watching(b).watching, len(b.view.members)) == (0, 1, 2)


async def test_a_leaving_member_is_out_of_the_view_before_its_connections_close() -> None:
    site = config()
    with trio.fail_after(30):
        async with together(*[open_channel(site, name=name) for name in "ABC"]) as [a, b, c]:
            await settled(b, 2)
            for leaver, left in ((a, 2), (c, 1)):
                await leaver.leave()
                await wait_for_view(b, left)
            await trio.sleep(0.1)
            assert (suspicions(b), watching(b).gone, watching(b).targets) == (0, 0, 0)


async def test_without_watching_a_member_opens_no_listener() -> None:
    site = config()
    detection = replace(site.protocols.failure_detection, watch=False)
    site = replace(site, protocols=replace(site.protocols, failure_detection=detection))
    with trio.fail_after(30):
        async with open_channel(site, name="A") as a:
            assert a.transport.listener() is None
            assert a.statistics().watch is None
