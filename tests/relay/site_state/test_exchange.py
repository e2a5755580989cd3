"""A state across sites at one member: frames under way, entries waiting for the own stream, and the state for a
joiner.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import pytest

from relay.events import StateProgress
from relay.layer import RelayConfig, RelayLayer
from relay.replica.entries import RemoteBaseline
from relay.replica.site_state import READS_EXTRAS, StateAnswer, StateAsk, StatePiece, StateRefusal
from relay.site_state.config import SiteStateConfig, SiteStateSettings
from relay.site_state.contents import to_vectors
from sitestack.model.address import Address
from sitestack.model.events import Event, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.state_events import (
    Baseline,
    Contents,
    FetchState,
    GiveSnapshot,
    SiteStateArrived,
    SnapshotGiven,
    StateArrived,
    StateAwaited,
    StateGiven,
    StateRefused,
)
from sitestack.model.view import View
from sitestack.stack.layer import Down, Dropped, Effect, Up
from tests.harness.addresses import address, local_of, view_of

Sent = TypeVar("Sent", StateAnswer, StatePiece)
A, B, D, E, F = map(address, "ABDEF")
ONE = view_of(1, "DE")


def layer_of(name: str = "E", *sources: str, view: View = ONE) -> RelayLayer:
    """A member of SFO, which by default E does not relay; NYC is known there."""
    config = SiteStateConfig(SiteStateSettings(sources))
    config = replace(config, transfer=replace(config.transfer, state_bytes_max=100))
    layer = RelayLayer(replace(local_of(name), site="SFO"), RelayConfig(site_state=config))
    layer.state.sites = ("NYC",)
    layer.up(ViewInstalled(view, None), 0.0)
    layer.state.remote("NYC").show(view_of(1, "AB"))
    return layer


def founded(name: str = "E") -> RelayLayer:
    """Its application has a state."""
    layer = layer_of(name)
    assert layer.up(StateArrived(ONE.id, None), 0.0) == [Up(StateArrived(ONE.id, None))]
    return layer


def asks(effects: list[Effect]) -> list[StateAsk]:
    frames = [each.event for each in effects if isinstance(each, Down) and isinstance(each.event, Frame)]
    return [frame.headers[-1] for frame in frames if isinstance(frame.headers[-1], StateAsk)]


def asking() -> RelayLayer:
    """It has asked NYC for the state."""
    layer = layer_of("E", "NYC")
    layer.up(StateArrived(ONE.id, None), 0.0)
    return layer


def hear(layer: RelayLayer, header: StateAsk | StatePiece | StateAnswer) -> list[Effect]:
    return layer.up(Frame(D, E, (header,)), 0.0)


def arrives(layer: RelayLayer, contains: Contents, data: bytes = b"state") -> list[Effect]:
    """The whole state comes in one piece, from B, which is asked first."""
    return hear(layer, StatePiece("NYC", B, "SFO", E, 1, 0, len(data), data, to_vectors(contains)))


def said(effects: list[Effect]) -> list[Event]:
    events = [each.event for each in effects if isinstance(each, Up)]
    return [each for each in events if not isinstance(each, StateProgress | Frame)]


def multicast(origin: Address, n: int) -> Frame:
    batch = Batch("SFO", origin, Scope.ALL, n, 1, pack_body([b"x"]))
    return Frame(origin, None, (), batch)


def test_a_founder_without_sources_starts_at_once_and_one_with_sources_asks_first() -> None:
    founded()
    layer = layer_of("E", "NYC")
    effects = layer.up(StateArrived(ONE.id, None), 0.0)
    [question] = asks(effects)
    assert (question.dest, said(effects)) == (B, [])
    assert not any(vector.origins for vector in question.floor.values())


def test_messages_before_the_first_view_of_a_member_must_be_in_its_state() -> None:
    """D had the state, and has died before E got it."""
    layer = RelayLayer(replace(local_of("E"), site="SFO"), RelayConfig(site_state=SiteStateConfig(SiteStateSettings(("NYC",)))))
    other = layer_of("D")
    other.up(multicast(D, 1), 0.0)
    other.state.remotes["NYC"].admitted[A] = 3
    layer.take_state(other.state.give())
    layer.up(ViewInstalled(ONE, None), 0.0)
    [question] = asks(layer.up(StateArrived(ONE.id, None), 0.0))
    floor = {site: vector.origins for site, vector in question.floor.items() if site != READS_EXTRAS}
    assert floor == {"SFO": {D: 1}, "NYC": {A: 3}}


def test_messages_lost_before_the_state_arrives_must_be_in_it() -> None:
    """Gaps and baselines, also those that came while it waited for a member of its own site."""
    layer = layer_of("E", "NYC")
    layer.site_state.told([Gap("NYC", A, 1, 7, GapReason.BUDGET), Baseline("NYC", {B: 3})])
    [question] = asks(layer.up(StateArrived(ONE.id, None), 0.0))
    assert question.floor["NYC"].origins == {A: 7, B: 3}
    layer.site_state.told([Gap("NYC", A, 8, 9, GapReason.BUDGET)])
    effects = arrives(layer, {"NYC": {A: 8, B: 3}})
    assert [each.floor["NYC"].origins for each in asks(effects) if not each.snapshot] == [{A: 9, B: 3}]
    assert said(effects) == []
    arrived = said(hear(layer, StatePiece("NYC", B, "SFO", E, 2, 0, 1, b"s", asks(effects)[-1].floor)))
    assert isinstance(arrived[0], SiteStateArrived)


def test_messages_of_another_part_must_be_in_a_state_that_is_awaited_at_the_merge() -> None:
    layer, begun = layer_of("E", "NYC"), Baseline("SFO", {F: 2}, at_join=True)
    assert layer.up(begun, 0.0) == [Up(begun)]
    layer.up(Baseline("SFO", {F: 8}, at_join=True, scope=Scope.SITE), 0.0)
    [question] = asks(layer.up(StateArrived(ONE.id, None), 0.0))
    assert question.floor["SFO"].origins == {F: 2}
    arrives(layer, {"SFO": {D: 1, F: 2}})
    [event] = said(layer.up(begun, 0.0))
    assert isinstance(event, Baseline)
    assert not event.at_join, "the state that waits is from before the merge"


def test_a_state_waits_until_the_own_stream_reaches_its_contents() -> None:
    """The message of D came back in the state before it came here; that of F, which is gone, never will."""
    layer = asking()
    effects = arrives(layer, {"SFO": {D: 1, F: 4}, "NYC": {A: 5}})
    assert said(effects) == said(layer.flush(0.0)) == []
    layer.up(multicast(D, 1), 0.0)
    [arrived] = said(layer.flush(0.0))
    assert isinstance(arrived, SiteStateArrived)
    assert (arrived.data, arrived.contains["NYC"]) == (b"state", {A: 5})
    assert (layer.site_state.requester.end, layer.site_state.waiting) == (None, None), "no copy of the state stays here"
    assert layer.state.remotes["NYC"].inherited == {A: 5}, "what comes of it later is not delivered"


def test_history_that_an_adopted_state_lacks_is_a_gap() -> None:
    """A site that is linked after the state was adopted begins behind messages that the provider of the state had not."""
    layer = asking()
    arrives(layer, {"NYC": {A: 5, F: 2}})
    frame = Frame(D, None, (RemoteBaseline("NYC", {A: 7, B: 3, F: 1}),))
    assert said(layer.up(frame, 0.0)) == [
        Baseline("NYC", {B: 3, F: 1}),
        Baseline("NYC", {A: 5}, in_state=True),
        Gap("NYC", A, 6, 7, GapReason.NOT_HELD),
    ]


def test_history_of_a_site_that_is_known_later_is_not_delivered_again() -> None:
    """The peers of this site are reloaded after the state has come; LON has held its messages meanwhile."""
    layer = asking()
    arrives(layer, {"NYC": {A: 5}, "LON": {B: 3}})
    assert list(layer.state.remotes) == ["NYC"]
    frame = Frame(D, None, (RemoteBaseline("LON", {B: 2}),))
    assert said(layer.up(frame, 0.0)) == [Baseline("LON", {B: 2})]
    assert layer.state.remotes["LON"].inherited == {B: 3}, "what comes of it later is not delivered"
    assert not layer.state.unknown


def hand_over(giver: RelayLayer, taker: RelayLayer, view: View, contains: Contents) -> list[Event]:
    """Give the state of one member to another, in this view."""
    [down] = giver.down(StateGiven(view.id, b"state", contains), 0.0)
    assert isinstance(down, Down)
    assert isinstance(down.event, StateGiven)
    return said(taker.up(StateArrived(view.id, b"state", down.event.note), 0.0))


def test_the_contents_of_a_state_are_forwarded_to_a_joiner() -> None:
    giver, taker = founded(), layer_of("D")
    [arrived] = hand_over(giver, taker, ONE, {"NYC": {A: 5}})
    assert arrived == StateArrived(ONE.id, b"state", b"", {"NYC": {A: 5}})
    assert taker.state.remotes["NYC"].inherited == {A: 5}


def test_messages_of_a_state_inherited_from_a_departed_member_are_forwarded_to_the_next_joiner() -> None:
    """Its provider was ahead after a merge, and died. What the own stream reaches later is in the state all the same."""
    giver, taker = founded(), layer_of("D")
    giver.state.remotes["NYC"].ahead = {D: {A: 5}}
    giver.up(StateAwaited(D), 0.0)
    two = view_of(2, "EF")
    giver.up(ViewInstalled(two, None), 0.0)
    giver.state.remotes["NYC"].settle(A, 5)
    [arrived] = hand_over(giver, taker, two, {"NYC": {B: 2}})
    assert isinstance(arrived, StateArrived)
    assert arrived.contains == {"NYC": {A: 5, B: 2}}


def test_a_malformed_note_is_dropped_and_counted() -> None:
    assert layer_of("D").up(StateArrived(ONE.id, b"state", b"\xff"), 0.0) == [Dropped("relay_malformed")]


def test_a_running_member_fetches_a_state_that_contains_all_that_it_has_been_delivered() -> None:
    layer = founded()
    layer.up(multicast(D, 1), 0.0)
    layer.state.remotes["NYC"].admitted[A] = 3
    [question] = asks(layer.down(FetchState(("NYC",)), 0.0))
    assert (question.floor["SFO"].origins, question.floor["NYC"].origins) == ({D: 1}, {A: 3})
    assert layer.down(FetchState(("NYC",)), 0.0) == [Dropped("state_fetched_already")]


def test_a_too_large_state_is_refused_to_a_founder_and_a_running_member_continues() -> None:
    large = StatePiece("NYC", B, "SFO", E, 1, 0, 101, b"s", {})
    layer = asking()
    assert said(hear(layer, large)) == [StateRefused(101, 100)]
    layer = founded()
    layer.down(FetchState(("NYC",)), 0.0)
    assert said(hear(layer, large)) == [SiteStateArrived(None, {}, {})]
    assert layer.site_state.outcome == "too_large"


QUESTION = StateAsk("NYC", A, "SFO", E, 0, 0, {})


def sent(effects: list[Effect], kind: type[Sent]) -> Sent:
    """The header of the frame that goes down."""
    [effect] = [each for each in effects if isinstance(each, Down)]
    assert isinstance(effect.event, Frame)
    header = effect.event.headers[-1]
    assert isinstance(header, kind)
    return header


def test_a_member_without_a_state_or_awaiting_one_refuses_with_the_reason() -> None:
    assert sent(hear(layer_of(), QUESTION), StateAnswer).refusal is StateRefusal.NO_STATE
    layer = asking()
    reply = sent(hear(layer, QUESTION), StateAnswer)
    assert (reply.refusal, reply.waits_for) == (StateRefusal.WAITS, ("NYC",))


def test_a_member_with_a_state_provides_a_snapshot_at_a_mark() -> None:
    layer = founded()
    effects = hear(layer, QUESTION)
    assert said(effects) == [GiveSnapshot(1)]
    assert sent(effects, StateAnswer).refusal is StateRefusal.PENDING
    sent(layer.down(SnapshotGiven(1, b"state"), 0.0), StatePiece)
    assert layer.down(SnapshotGiven(7, b"state"), 0.0) == [Dropped("state_of_an_old_view")]


def test_an_adopted_state_is_provided_with_the_messages_of_departed_members_of_the_own_site() -> None:
    """SFO began anew with the state of NYC, which has messages of F. A taker where they wait must not show them again."""
    layer = asking()
    arrives(layer, {"SFO": {F: 4}, "LON": {B: 3}})
    layer.up(multicast(D, 1), 0.0)
    hear(layer, QUESTION)
    piece = sent(layer.down(SnapshotGiven(1, b"state"), 0.0), StatePiece)
    assert piece.contains["SFO"].origins == {D: 1, F: 4}
    assert piece.contains["LON"].origins == {B: 3}, "also of a site that this one does not know"
    [question] = asks(layer.down(FetchState(("NYC",)), 0.0))
    assert question.floor["SFO"].origins == {D: 1, F: 4}, "a state that replaces it must have them too"


def test_a_member_whose_fetched_state_waits_for_its_own_stream_provides_none() -> None:
    """Its application would reach the mark with that state, which has more than the snapshot's vector."""
    layer = founded()
    layer.down(FetchState(("NYC",)), 0.0)
    assert said(arrives(layer, {"SFO": {D: 5}})) == []
    assert sent(hear(layer, QUESTION), StateAnswer).refusal is StateRefusal.WAITS
    for n in range(1, 6):
        layer.up(multicast(D, n), 0.0)
    layer.flush(0.0)
    assert sent(hear(layer, QUESTION), StateAnswer).refusal is StateRefusal.PENDING


def test_a_pending_snapshot_is_withdrawn_when_another_state_is_fetched() -> None:
    """The application reaches the mark with that state, which contains more than the snapshot's vector."""
    layer = founded()
    hear(layer, QUESTION)
    layer.down(FetchState(("NYC",)), 0.0)
    assert layer.down(SnapshotGiven(1, b"state"), 0.0) == [Dropped("state_of_an_old_view")]


def test_frames_without_a_route_are_dropped_and_counted() -> None:
    """A member that does not relay forwards no frame of others; and a member outside the view is unknown."""
    lost = [Dropped("site_state_no_way")]
    assert hear(layer_of(), StateAsk("SFO", D, "NYC", A, 0, 0, {})) == lost
    assert hear(layer_of(), replace(QUESTION, dest=D)) == lost
    relay = layer_of("D")
    assert relay.gateway.active
    assert hear(relay, replace(QUESTION, dest=F)) == lost
    assert hear(relay, StateAsk("SFO", E, "NYC", A, 0, 0, {})) == lost, "no link"
    assert hear(relay, QUESTION) == [Down(Frame(D, E, (QUESTION,)))]
    alone = RelayLayer(local_of("E"), RelayConfig())
    assert hear(alone, QUESTION) == lost


@pytest.mark.parametrize(
    "frame",
    [StatePiece("NYC", A, "SFO", E, 1, 0, 1, b"s", {}), StateAnswer("NYC", A, "SFO", E, 1, StateRefusal.GONE, ())],
)
def test_an_unrequested_frame_is_dropped_and_counted(frame: StatePiece | StateAnswer) -> None:
    assert hear(founded(), frame) == [Dropped("site_state_astray")]
