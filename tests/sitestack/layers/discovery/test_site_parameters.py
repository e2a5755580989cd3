"""The parameters of a site, its order and agreement: a process with others stays outside, and gets the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from sitestack.config import SiteConfig
from sitestack.layers.discovery import COMPLAINT_INTERVAL_S, COMPLAINTS_MAX
from sitestack.layers.discovery.headers import IAmHere, WhoIsThere
from sitestack.model.errors import ConfigurationError
from sitestack.model.events import FindMembers, Found, OtherParameters, Peer, ViewInstalled
from sitestack.model.view import ViewId
from sitestack.stack.layer import Dropped, Effect, Up
from sitestack.transport.memory import MemoryNetwork
from tests.harness.addresses import address, view_of
from tests.harness.channels import NYC, one, take, wait_for_view
from tests.harness.hosts import contact_of
from tests.sitestack.layers.discovery.test_discovery import hear, make

FIFO = replace(NYC, order="fifo")
A, B, C = map(address, "ABC")


def told(effects: list[Effect]) -> list[OtherParameters]:
    return [each.event for each in effects if isinstance(each, Up) and isinstance(each.event, OtherParameters)]


def member(name: str, rules: str) -> IAmHere:
    return IAmHere(contact_of(name, 1), address(name), ViewId(1, address(name)), rules, ())


def starting(name: str, rules: str) -> WhoIsThere:
    return WhoIsThere(contact_of(name, 1), None, None, rules)


@pytest.mark.parametrize("theirs", [FIFO, replace(NYC, agreement="uniform")])
async def test_a_joiner_with_other_parameters_is_refused_and_the_site_continues(
    autojump_clock: MockClock, theirs: SiteConfig
) -> None:
    """If admitted, it would deliver in another way than the others, and they would lose its messages."""
    network = MemoryNetwork()
    async with one(network, "A") as a, one(network, "B"):
        sentence = f"[AB] runs the site NYC with {NYC.parameters}, this member is configured with {theirs.parameters}"
        with pytest.raises(ConfigurationError, match=sentence):
            async with one(network, "C", theirs):
                pass
        assert a.view.names == ("A", "B")
        await a.send(b"x")
        assert [message.payload for message in await take(a, 1)] == [b"x"]


async def test_parts_with_other_parameters_do_not_merge_and_admit_their_own_joiners(autojump_clock: MockClock) -> None:
    """Started at the same moment, neither finds a site that would refuse it."""
    network = MemoryNetwork()
    with trio.fail_after(1_000):
        async with trio.open_nursery() as nursery:

            async def run(name: str, config: SiteConfig) -> None:
                async with one(network, name, config) as channel:
                    await trio.sleep(60)  # looking for others happens every ten seconds
                    other = {"A": "C", "B": "D"}[name]
                    async with one(network, other, config) as joiner:
                        await wait_for_view(joiner, 2)
                        assert joiner.view.names == (name, other)
                        await trio.sleep(60)
                        assert joiner.view.names == (name, other)
                    drops = channel.statistics().stack["drops"]
                    assert isinstance(drops, dict)
                    assert drops["other_parameters"] > 0

            nursery.start_soon(run, "A", NYC)
            nursery.start_soon(run, "B", FIFO)


def test_a_search_finds_no_process_with_other_parameters() -> None:
    joiner = make("C", rules="ours")
    joiner.down(FindMembers(), 0.0)
    assert Dropped("other_parameters") in hear(joiner, "B", member("B", "theirs"))
    hear(joiner, "A", member("A", "ours"))
    assert joiner.expire(1.0) == [Up(Found((Peer(A, A, ViewId(1, A)),)))]


def test_a_joiner_reports_other_parameters_of_a_member_not_of_a_starting_process() -> None:
    joiner = make("C", rules="ours")
    joiner.down(FindMembers(), 0.0)
    hear(joiner, "B", member("B", "their\nrules"))
    assert joiner.expire(1.0) == [Up(OtherParameters(B, "B", "their\\u{a}rules"))]
    joiner.down(FindMembers(), 2.0)
    hear(joiner, "B", starting("B", "theirs"), 2.0)
    assert joiner.expire(3.0) == [Up(Found(()))]


def test_a_member_reports_each_mismatch_once_a_minute_and_continues_its_search() -> None:
    discovery = make("A", rules="ours")
    discovery.up(ViewInstalled(view_of(1, "A"), None), 0.0)
    discovery.down(FindMembers(), 0.0)
    assert told(hear(discovery, "B", starting("B", "theirs"))) == [OtherParameters(B, "B", "theirs")]
    assert told(hear(discovery, "B", member("B", "theirs"), 1.0)) == []
    assert told(hear(discovery, "C", member("C", "theirs"), 1.0)) == [OtherParameters(C, "C", "theirs")]
    assert Up(Found(())) in discovery.expire(2.0)
    assert told(hear(discovery, "B", member("B", "theirs"), COMPLAINT_INTERVAL_S)) == [OtherParameters(B, "B", "theirs")]
    for n in range(2 * COMPLAINTS_MAX):
        hear(discovery, "C", member("C", "theirs"), 100.0 + n)
    assert discovery.levels()["complaints"].now <= COMPLAINTS_MAX
