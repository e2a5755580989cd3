"""The numbering of members: who gives ids, which ones, and from when they are written."""

from __future__ import annotations

import random

import pytest

from sitestack.layers.short_ids import IdsGiven, IdTable, ShortIdsConfig, ShortIdsLayer
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.events import Stable, Unblocked, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.short_ids import ID_MAX
from sitestack.model.view import SubView, View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect, LearnIds, Local, Up, WriteIds
from sitestack.wire.codec import Codec

RNG = random.Random(1)
A, B, C, D = [Address.make(RNG) for _ in range(4)]


class Member:
    """One layer, and the NAKACK below it that numbers and delivers its multicasts."""

    def __init__(self, me: Address, enabled: bool = True) -> None:
        self.layer = ShortIdsLayer(Local("NYC", me, "", RNG), ShortIdsConfig(enabled))
        self.seqno = 0

    def install(self, view: View, blocked: bool = False) -> list[Effect]:
        return self.layer.up(ViewInstalled(view, None, blocked=blocked), 0.0)

    def gives(self, view: View) -> IdTable:
        """The table that it gives in this view, which it is delivered itself."""
        table = table_in(self.install(view))
        self.hears(table, view.coordinator)
        return table

    def hears(self, table: IdTable, source: Address, seqno: int = 1) -> list[Effect]:
        return self.layer.up(Frame(source, None, (table,), seqno=seqno, stream=source), 0.0)

    def stable(self, owner: Address, seqno: int) -> list[Effect]:
        return [each for each in self.layer.up(Stable({owner: seqno}), 0.0) if not isinstance(each, Up)]


def view(counter: int, *members: Address, merges: bool = False) -> View:
    subviews = tuple([SubView(ViewId(1, each), (each,), ViewId(1, each)) for each in members]) if merges else ()
    view_id = ViewId(counter, members[0])
    return View(view_id, view_id, members, ("",) * len(members), subviews)


def table_in(effects: list[Effect]) -> IdTable:
    (down,) = [each for each in effects if isinstance(each, Down)]
    assert isinstance(down.event, Frame)
    assert (down.event.dest, down.event.unreliable) == (None, False)
    table = down.event.top(IdTable)
    assert table is not None
    return table


@pytest.mark.conforms("LA-21")
def test_the_coordinator_numbers_members_and_a_remaining_member_keeps_its_id() -> None:
    one = Member(A)
    assert one.gives(view(1, A)).ids == {A: 1}
    assert one.gives(view(2, A, B, C)).ids == {A: 1, B: 2, C: 3}
    assert one.gives(view(3, A, C, D)).ids == {A: 1, C: 3, D: 4}
    assert one.gives(view(4, A, B)).ids == {A: 1, B: 5}, "an id is given once, also to who comes back"
    assert one.layer.levels()["highest_id"].now == 5


def test_other_members_and_a_disabled_coordinator_assign_no_ids() -> None:
    assert Member(B).install(view(1, A, B)) == []
    off = Member(A, enabled=False)
    assert off.install(view(1, A, B)) == []


def test_ids_are_written_from_when_all_members_have_the_table_until_the_next_view() -> None:
    one, other = Member(A), Member(B)
    other.install(view(1, A, B))
    table = one.gives(view(1, A, B))
    (learnt,) = other.hears(table, A, 4)
    assert isinstance(learnt, LearnIds)
    assert other.stable(A, 3) == []
    assert other.stable(B, 9) == []
    assert other.stable(A, 4) == [WriteIds(learnt.ids)]
    assert other.stable(A, 5) == [], "once"
    assert other.install(view(2, A, B)) == [WriteIds(None)]
    assert other.stable(A, 9) == []


@pytest.mark.conforms("LA-21")
def test_a_disabled_member_learns_the_table_and_transfers_the_assigned_ids() -> None:
    off = Member(B, enabled=False)
    off.install(view(1, A, B))
    (learnt,) = off.hears(IdTable(0, 2, {A: 1, B: 2}), A)
    assert isinstance(learnt, LearnIds)
    assert off.stable(A, 1) == []
    assert off.layer.give_state() == IdsGiven(0, 2)


def test_a_table_of_anybody_else_or_out_of_no_stream_is_dropped() -> None:
    one = Member(B)
    table = IdTable(0, 2, {A: 1, B: 2})
    assert one.hears(table, A) == [Dropped("ids_stranger")]
    one.install(view(1, A, B, C))
    assert one.hears(table, C) == [Dropped("ids_stranger")]
    assert one.hears(table, A, seqno=0) == [Dropped("ids_stranger")]


@pytest.mark.conforms("LA-23")
def test_a_successor_assigns_ids_above_all_earlier_ones_even_of_dead_members() -> None:
    other = Member(B)
    other.install(view(1, A, B, C))
    other.hears(IdTable(0, 3, {A: 1, B: 2, C: 3}), A)
    assert other.gives(view(2, B, D)).ids == {B: 2, D: 4}


@pytest.mark.conforms("LA-23")
def test_a_joiner_that_becomes_coordinator_assigns_ids_above_all_earlier_ones() -> None:
    joiner = Member(D)
    joiner.layer.take_state(IdsGiven(0, 7))
    assert joiner.gives(view(2, D)).ids == {D: 8}


@pytest.mark.conforms("LA-23")
def test_a_merge_renumbers_all_members_above_both_parts() -> None:
    one = Member(A)
    assert one.gives(view(2, A, B)).ids == {A: 1, B: 2}
    one.layer.merge_state(IdsGiven(0, 5))
    assert one.gives(view(3, A, B, C, merges=True)).ids == {A: 6, B: 7, C: 8}
    one.layer.merge_state(IdsGiven(0, 3))
    assert one.gives(view(4, A, D, merges=True)).ids == {A: 9, D: 10}


@pytest.mark.conforms("LA-23")
def test_exhausted_ids_start_a_new_epoch_that_renumbers_all_members() -> None:
    one = Member(A)
    one.layer.take_state(IdsGiven(3, ID_MAX - 2))
    last = one.gives(view(1, A, B))
    assert (last.epoch, last.highest, last.ids) == (3, ID_MAX, {A: ID_MAX - 1, B: ID_MAX})
    assert one.gives(view(2, A, B)) == last, "who has an id keeps it, so none is needed"
    assert one.gives(view(3, A, B, C)) == IdTable(4, 3, {A: 1, B: 2, C: 3})
    one.layer.merge_state(IdsGiven(3, ID_MAX))
    assert one.gives(view(4, A, D, merges=True)) == IdTable(4, 5, {A: 4, D: 5}), "the other part's epoch is over"


def test_a_blocked_view_assigns_ids_only_when_it_is_unblocked() -> None:
    one = Member(A)
    assert one.install(view(1, A, B), blocked=True) == []
    effects = one.layer.up(Unblocked(), 0.0)
    table = table_in(effects)
    one.hears(table, A)
    assert one.layer.up(Unblocked(), 0.0) == [], "once in a view"


@pytest.mark.parametrize(
    "table",
    [
        IdTable(0, 1, {A: 0}),
        IdTable(0, 1, {A: 2}),
        IdTable(0, 2, {A: 1, B: 1}),
        IdTable(0, ID_MAX + 1, {A: 1}),
        IdTable(-1, 1, {A: 1}),
        IdTable(1 << 40, 1, {A: 1}),
        IdsGiven(0, ID_MAX + 1),
        IdsGiven(-1, 1),
    ],
)
def test_an_invalid_table_is_refused_at_parsing(table: IdTable | IdsGiven) -> None:
    codec = Codec("NYC", ShortIdsLayer.HEADERS)
    with pytest.raises(ProtocolError, match="field"):
        codec.parse(codec.pack(table))
