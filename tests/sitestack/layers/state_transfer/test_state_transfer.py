"""The promises of state transfer, layer alone: providers, takers, starting points, and view changes."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest

from sitestack.layers.state_transfer import StateTransfer, StateTransferConfig
from sitestack.layers.state_transfer.headers import (
    READS_EXTRAS,
    Standing,
    Standings,
    StateChunk,
    StateRefusal,
    StateReport,
    StateRequest,
    StateStanding,
)
from sitestack.model.address import Address
from sitestack.model.events import Unblocked, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.state_events import GiveState, StateArrived, StateAwaited, StateGiven, StateNotGiven, StateRefused
from sitestack.model.view import SubView, View
from sitestack.stack.layer import Down, Dropped, Effect, Up
from tests.harness.addresses import address, local_of, view_of
from tests.harness.messages import frames_in

A, B, C, D = map(address, "ABCD")
HOLDS, WAITS, ABSTAINS = Standing.HOLDS, Standing.WAITS, Standing.ABSTAINS
SMALL = StateTransferConfig(state_bytes_max=10, chunk_bytes_max=3, ask_interval_s=2.0)


def layer_of(name: str, *, takes_part: bool = True) -> StateTransfer:
    return StateTransfer(local_of(name), SMALL, takes_part=takes_part)


def install(layer: StateTransfer, view: View, previous: View | None, *, blocked: bool = False) -> list[Effect]:
    return layer.up(ViewInstalled(view, previous, blocked=blocked), 0.0)


def joiner(name: str, view: View, **standings: Standing) -> tuple[StateTransfer, list[Effect]]:
    layer = layer_of(name)
    if standings:
        layer.take_state(Standings({address(each): standing for each, standing in standings.items()}))
    return layer, install(layer, view, None)


def from_(source: Address, header: Header, dest: Address | None = B) -> Frame:
    return Frame(source, dest, (header,))


def to(source: Address, dest: Address | None, header: Header) -> Down:
    return Down(Frame(source, dest, (header,)))


def to_stream(member: Address, standing: Standing) -> list[Effect]:
    """The coordinator writes its standing."""
    return [to(member, None, StateStanding(member, standing))]


def hear(layer: StateTransfer, source: Address, header: Header, now: float = 0.0) -> list[Effect]:
    return layer.up(from_(source, header), now)


def standing(layer: StateTransfer, **standings: Standing) -> list[Effect]:
    """Entries of the stream."""
    return [e for name, each in standings.items() for e in hear(layer, A, StateStanding(address(name), each))]


ONE, TWO, THREE = view_of(1, "A"), view_of(2, "AB"), view_of(3, "ABC")


def provider(data: bytes | None = b"0123456789") -> StateTransfer:
    """A, in view 2 with the joiner B; its application has given this."""
    layer, _ = joiner("A", ONE)
    standing(layer, A=HOLDS)
    assert install(layer, TWO, ONE) == [Up(GiveState(TWO.id))]
    if data is not None:
        assert layer.down(StateGiven(TWO.id, data), 0.0) == []
    return layer


def test_a_founder_starts_with_its_own_state_and_gives_its_standing_to_joiners() -> None:
    layer, effects = joiner("A", ONE)
    assert effects == [Up(StateArrived(ONE.id, None))]
    assert layer.give_state() == Standings({A: HOLDS})


def test_a_joiner_begins_without_a_state_once_the_stream_shows_that_no_member_has_one() -> None:
    """Reports may be lost in a block: a member that joined before and began unseen would have another state."""
    layer, effects = joiner("B", TWO)
    assert effects == layer.expire(SMALL.ask_interval_s) == [to(B, A, StateReport(Standing.WAITS))]
    assert standing(layer, B=Standing.WAITS) == []
    assert standing(layer, A=Standing.ABSTAINS) == [Up(StateArrived(TWO.id, None))]


def test_a_joiner_asks_the_first_in_rank_that_has_the_state_piece_by_piece() -> None:
    layer, effects = joiner("C", THREE, A=ABSTAINS, B=HOLDS)
    asks = [to(C, B, StateRequest(THREE.id, READS_EXTRAS)), to(C, B, StateRequest(THREE.id, 0))]
    assert effects == [to(C, A, StateReport(WAITS)), Up(StateAwaited(B)), *asks]
    assert hear(layer, B, StateChunk(THREE.id, 0, 5, b"abc")) == [to(C, B, StateRequest(THREE.id, 3))]
    assert hear(layer, B, StateChunk(THREE.id, 0, 5, b"abc")) == [Dropped("state_chunk_again")]
    assert hear(layer, B, StateChunk(THREE.id, 3, 5, b"de")) == [
        Up(StateArrived(THREE.id, b"abcde")),
        to(C, A, StateReport(HOLDS)),
    ]
    assert hear(layer, B, StateChunk(THREE.id, 3, 5, b"de")) == [Dropped("state_chunk_astray")]


def test_the_stack_reads_the_deadline_after_each_question_and_each_standing() -> None:
    layer, _ = joiner("C", THREE, A=ABSTAINS, B=HOLDS)
    layer.stale = set()
    hear(layer, B, StateChunk(THREE.id, 0, 5, b"abc"))
    assert layer.stale == {layer}
    layer.stale.clear()
    hear(layer, B, StateChunk(THREE.id, 3, 5, b"de"))
    assert layer.stale == {layer}


def test_an_empty_state_arrives_too() -> None:
    layer, _ = joiner("B", TWO, A=HOLDS)
    assert hear(layer, A, StateChunk(TWO.id, 0, 0, b""))[0] == Up(StateArrived(TWO.id, b""))


@pytest.mark.parametrize(
    ("source", "chunk"),
    [
        (C, StateChunk(THREE.id, 0, 5, b"abc")),
        (A, StateChunk(TWO.id, 0, 5, b"abc")),
        (A, StateChunk(THREE.id, 0, 5, b"")),
        (A, StateChunk(THREE.id, 0, 2, b"abc")),
        (A, StateChunk(THREE.id, 0, -1, b"")),
    ],
    ids=["not the provider", "another view", "nothing", "more than all", "less than nothing"],
)
def test_an_invalid_state_chunk_is_dropped_and_counted(source: Address, chunk: StateChunk) -> None:
    layer, _ = joiner("B", THREE, A=HOLDS, C=HOLDS)
    assert hear(layer, source, chunk) == [Dropped("state_chunk_astray")]
    assert layer.levels()["arrived_bytes"].now == 0


def test_a_joiner_to_which_nothing_comes_asks_again() -> None:
    layer, _ = joiner("B", TWO, A=HOLDS)
    assert layer.deadline() == 2.0
    assert layer.expire(1.9) == []
    hear(layer, A, StateChunk(TWO.id, 0, 5, b"abc"), 1.9)
    assert layer.expire(2.0) == []
    assert layer.expire(3.9) == [to(B, A, StateRequest(TWO.id, 3))]


def test_a_joiner_never_waits_longer_than_a_minute_before_it_asks_again() -> None:
    layer, _ = joiner("B", TWO, A=HOLDS)
    now, waits = 0.0, list[float]()
    while len(waits) < 10:
        due = layer.deadline()
        assert due is not None
        waits.append(due - now)
        now = due
        assert layer.expire(now)
    assert max(waits) == 60.0


@pytest.mark.parametrize("piece_s", [1.9, 2.1, 10.0])
def test_a_slow_line_is_not_filled_with_pieces_sent_again(piece_s: float) -> None:
    """They would delay the next piece, which would then be asked for more often, without end."""
    config = StateTransferConfig(state_bytes_max=256, chunk_bytes_max=1)
    giver, taker = (StateTransfer(local_of(name), config, takes_part=True) for name in "AB")
    install(giver, ONE, None)
    standing(giver, A=HOLDS)
    install(giver, TWO, ONE)
    giver.down(StateGiven(TWO.id, bytes(256)), 0.0)
    taker.take_state(Standings({A: HOLDS}))
    now, line = 0.0, deque[tuple[float, Header]]()
    effects, pieces = install(taker, TWO, None), 0
    while Up(StateArrived(TWO.id, bytes(256))) not in effects:
        for request in [each.headers[-1] for each in frames_in(effects, Down) if type(each.headers[-1]) is StateRequest]:
            for piece in frames_in(hear(giver, B, request), Down):
                line.append((max([now, *[end for end, _ in line]]) + piece_s, piece.headers[-1]))
                pieces += 1
        due = taker.deadline()
        if due is not None and due < line[0][0]:
            now, effects = due, taker.expire(due)
        else:
            now, header = line.popleft()
            effects = hear(taker, A, header, now)
        assert pieces < 256 + 10
    assert now < (256 + 10) * piece_s


def test_a_request_is_answered_when_the_application_supplies_its_state() -> None:
    layer = provider(None)
    assert hear(layer, B, StateRequest(TWO.id, 0)) == []
    assert hear(layer, B, StateRequest(TWO.id, 0)) == []
    assert layer.down(StateGiven(TWO.id, b"abcd"), 0.0) == [to(A, B, StateChunk(TWO.id, 0, 4, b"abc"))]
    assert hear(layer, B, StateRequest(TWO.id, 3)) == [to(A, B, StateChunk(TWO.id, 3, 4, b"d"))]


def test_the_snapshot_is_kept_until_all_members_have_the_state() -> None:
    layer = provider()
    assert layer.levels()["snapshot_bytes"].now == 10
    standing(layer, B=WAITS)
    assert layer.levels()["snapshot_bytes"].now == 10
    standing(layer, B=HOLDS)
    assert layer.levels()["snapshot_bytes"].now == 0
    assert install(layer, view_of(3, "AB"), TWO) == []


@pytest.mark.parametrize(
    ("source", "request_"),
    [(B, StateRequest(ONE.id, 0)), (C, StateRequest(TWO.id, 0)), (B, StateRequest(TWO.id, 11)), (B, StateRequest(TWO.id, -2))],
    ids=["another view", "a stranger", "beyond the end", "before the beginning"],
)
def test_an_invalid_state_request_is_dropped_and_counted(source: Address, request_: StateRequest) -> None:
    assert hear(provider(), source, request_) == [Dropped("state_request_astray")]


def test_a_non_provider_drops_state_requests_and_supplied_states() -> None:
    layer, _ = joiner("C", THREE, A=HOLDS)
    assert hear(layer, B, StateRequest(THREE.id, 0)) == [Dropped("state_request_astray")]
    assert layer.down(StateGiven(THREE.id, b"x"), 0.0) == [Dropped("state_of_an_old_view")]


def test_a_new_view_restarts_the_transfer_with_its_first_provider() -> None:
    layer, _ = joiner("C", THREE, A=HOLDS, B=HOLDS)
    hear(layer, A, StateChunk(THREE.id, 0, 5, b"abc"))
    four = view_of(4, "BC")
    assert install(layer, four, THREE)[-1] == to(C, B, StateRequest(four.id, 0))
    assert hear(layer, A, StateChunk(THREE.id, 3, 5, b"de")) == [Dropped("state_chunk_astray")]
    assert hear(layer, B, StateChunk(four.id, 0, 1, b"x"))[0] == Up(StateArrived(four.id, b"x"))


def test_the_next_provider_requests_the_state_from_its_application_before_the_view() -> None:
    layer, _ = joiner("B", TWO, A=HOLDS)
    hear(layer, A, StateChunk(TWO.id, 0, 1, b"x"))
    standing(layer, B=HOLDS)
    assert install(layer, THREE, TWO) == []
    four = view_of(4, "BC")
    assert install(layer, four, THREE) == [Up(GiveState(four.id))]


def test_at_a_view_that_stays_blocked_nothing_begins() -> None:
    layer = provider()
    assert install(layer, THREE, TWO, blocked=True) == []
    late = layer_of("C")
    late.take_state(Standings({A: HOLDS}))
    assert install(late, THREE, None, blocked=True) == []
    assert late.deadline() is None
    four = view_of(4, "ABC")
    assert install(layer, four, THREE) == [Up(GiveState(four.id))]
    assert install(late, four, THREE)[-1] == to(C, A, StateRequest(four.id, 0))


def test_the_end_of_a_block_requests_the_state_from_the_application_once() -> None:
    """A state given later in the view would contain messages that are delivered in it, too."""
    layer = provider()
    install(layer, THREE, TWO, blocked=True)
    assert layer.up(Unblocked(), 0.0) == [Up(Unblocked()), Up(GiveState(THREE.id))]
    assert layer.up(Unblocked(), 0.0) == [Up(Unblocked())]


def test_when_no_member_has_the_state_the_first_that_waits_inherits_and_gives_its_own() -> None:
    layers = [joiner(name, view_of(2, "ABC"), A=HOLDS)[0] for name in "BC"]
    for layer in layers:
        standing(layer, B=WAITS, C=WAITS)
    three = view_of(3, "BCD")
    assert install(layers[0], three, TWO) == to_stream(B, WAITS)
    assert install(layers[1], three, TWO) == [to(C, B, StateReport(WAITS))]
    layers.append(joiner("D", three, B=WAITS, C=WAITS)[0])
    results = [standing(layer, B=WAITS, C=WAITS, D=WAITS) for layer in layers]
    assert results[0] == [Up(StateArrived(three.id, None)), Up(GiveState(three.id))]
    assert results[1][-1] == to(C, B, StateRequest(three.id, 0))
    assert results[2][-1] == to(D, B, StateRequest(three.id, 0))
    assert hear(layers[1], B, StateChunk(three.id, 0, 1, b"x"))[-1] == to(C, B, StateReport(Standing.INHERITED))


def test_a_waiting_member_that_is_left_alone_without_a_majority_keeps_its_own_state() -> None:
    """It has every message since it joined. If it waited on, the state of a lost part would replace them."""
    b, _ = joiner("B", TWO, A=HOLDS)
    standing(b, B=WAITS)
    alone = replace(view_of(3, "B"), is_primary=False)
    assert install(b, alone, TWO, blocked=True) == [Up(StateArrived(alone.id, None))]
    assert b.give_state() == Standings({B: Standing.INHERITED})


def test_a_joiner_that_was_cut_off_before_the_state_came_inherits_and_gives_it_to_none_that_may_have_the_true_one() -> None:
    """It ranks first after the merge; A and B have the state."""
    c, _ = joiner("C", THREE, A=HOLDS, B=HOLDS)
    alone = view_of(4, "C")
    effects = install(c, alone, THREE)
    assert effects == [Up(StateArrived(alone.id, None))]
    assert c.give_state() == Standings({C: Standing.INHERITED})
    c.merge_state(Standings({A: HOLDS, B: HOLDS}))
    assert GiveState not in {type(each.event) for each in install(c, view_of(5, "CABD"), alone) if isinstance(each, Up)}


def test_a_receiver_of_a_dead_provider_provides_the_state_despite_a_lost_standing() -> None:
    """C has the whole state when A dies; B ranks first, and would otherwise continue with an empty one."""
    b, c = (joiner(name, THREE, A=HOLDS)[0] for name in "BC")
    for layer in (b, c):
        standing(layer, B=WAITS, C=WAITS)
    assert Up(StateArrived(THREE.id, b"x")) in hear(c, A, StateChunk(THREE.id, 0, 1, b"x"))
    four = view_of(4, "BC")
    assert install(b, four, THREE) == to_stream(B, WAITS)
    assert install(c, four, THREE) == [to(C, B, StateReport(HOLDS)), Up(GiveState(four.id))]
    assert c.down(StateGiven(four.id, b"xy"), 0.0) == []
    assert standing(b, B=WAITS, C=HOLDS)[-1] == to(B, C, StateRequest(four.id, 0))
    standing(c, B=WAITS, C=HOLDS)
    assert hear(c, B, StateRequest(four.id, 0)) == [to(C, B, StateChunk(four.id, 0, 2, b"xy"))]


@pytest.mark.parametrize("takes_part", [True, False])
def test_a_standing_that_was_lost_in_a_block_is_sent_again_until_the_view_is_decided(takes_part: bool) -> None:
    """Without it the view would stay undecided, and every joiner would wait for ever."""
    layer = layer_of("C", takes_part=takes_part)
    layer.take_state(Standings({B: WAITS}))
    three = view_of(3, "BC")
    mine = WAITS if takes_part else ABSTAINS
    assert install(layer, three, None) == [to(C, B, StateReport(mine))]
    standing(layer, B=WAITS)
    due = layer.deadline()
    assert due == SMALL.ask_interval_s
    assert layer.expire(due) == [to(C, B, StateReport(mine))]
    standing(layer, C=mine)
    due = layer.deadline()
    sent = [] if due is None else layer.expire(due)
    asks = [to(C, B, StateRequest(three.id, each)) for each in (READS_EXTRAS, 0)]
    assert sent == (asks if takes_part else [])


def test_the_standing_of_a_complete_joiner_that_a_blocked_coordinator_dropped_is_sent_again() -> None:
    """The provider would keep the state, and the status show the joiner as waiting, until the next view."""
    giver, (taker, _) = provider(), joiner("B", TWO, A=HOLDS)
    report = to(B, A, StateReport(HOLDS))
    assert hear(taker, A, StateChunk(TWO.id, 0, 1, b"x"))[-1] == report
    assert taker.expire(SMALL.ask_interval_s) == [report]
    for layer in (giver, taker):
        standing(layer, B=HOLDS)
    assert giver.levels()["snapshot_bytes"].now == 0
    assert taker.expire(2 * SMALL.ask_interval_s) == []
    assert taker.deadline() is None


def test_a_joiner_that_takes_no_part_says_so_where_others_have_when_the_last_holder_has_gone() -> None:
    """The status of the site would show it as waiting for ever."""
    layer = layer_of("B", takes_part=False)
    layer.take_state(Standings({A: ABSTAINS}))
    assert to(B, A, StateReport(ABSTAINS)) in install(layer, view_of(2, "AB"), None)
    standing(layer, B=ABSTAINS)
    assert layer.levels()["waiting"].now == 0


def test_an_abstaining_member_left_alone_before_its_report_arrived_inherits_nothing() -> None:
    """Its coordinator was blocked. As a provider without a state it would have kept later joiners waiting for ever."""
    layer = layer_of("B", takes_part=False)
    layer.take_state(Standings({A: HOLDS}))
    install(layer, TWO, None)
    assert layer.give_state() == Standings({A: HOLDS, B: WAITS}), "as the others take it"
    install(layer, view_of(3, "B"), TWO, blocked=True)
    assert layer.give_state() == Standings({B: ABSTAINS})


def test_an_abstaining_application_reports_once_and_frees_the_provider_snapshot() -> None:
    layer = layer_of("B", takes_part=False)
    assert install(layer, TWO, None) == []
    assert layer.give_state() is None
    assert standing(layer, A=HOLDS) == [to(B, A, StateReport(ABSTAINS))]
    assert standing(layer, A=HOLDS) == []
    giver = provider()
    standing(giver, B=ABSTAINS)
    assert giver.levels()["snapshot_bytes"].now == 0
    assert install(giver, view_of(3, "AB"), TWO) == []


def test_a_state_that_no_member_waits_for_any_more_is_not_kept() -> None:
    giver = provider(None)
    standing(giver, B=ABSTAINS)
    assert giver.down(StateGiven(TWO.id, b"0123456789"), 0.0) == []
    assert giver.levels()["snapshot_bytes"].now == 0


def test_the_coordinator_writes_reports_into_the_stream() -> None:
    layer = layer_of("A", takes_part=False)
    install(layer, TWO, None)
    assert hear(layer, B, StateReport(WAITS)) == [to(A, None, StateStanding(B, WAITS))]
    assert standing(layer, C=HOLDS) == [Dropped("state_of_a_stranger")]


def test_a_state_above_the_bound_is_refused_and_the_joiner_does_not_retry() -> None:
    layer = provider(bytes(11))
    refusal = StateChunk(TWO.id, 0, 11, b"")
    assert hear(layer, B, StateRequest(TWO.id, 0)) == [Dropped("state_too_large"), to(A, B, refusal)]
    late, _ = joiner("B", TWO, A=HOLDS)
    assert hear(late, A, refusal) == [Up(StateRefused(11, 10))]
    assert late.deadline() is None


def test_a_failed_application_state_is_refused_to_each_joiner_until_the_next_view() -> None:
    layer = provider(None)
    refused = [Dropped("state_not_given"), to(A, B, StateRefusal(TWO.id))]
    assert hear(layer, B, StateRequest(TWO.id, 0)) == []
    assert layer.down(StateGiven(TWO.id, None), 0.0) == refused
    assert hear(layer, B, StateRequest(TWO.id, 0)) == refused
    assert install(layer, THREE, TWO) == [Up(GiveState(THREE.id))]
    assert hear(layer, B, StateRequest(THREE.id, 0)) == []
    assert layer.down(StateGiven(THREE.id, b"x"), 0.0) == [to(A, B, StateChunk(THREE.id, 0, 1, b"x"))]


def test_a_joiner_that_is_refused_asks_no_more_in_this_view() -> None:
    late, _ = joiner("B", TWO, A=HOLDS)
    for source, point in ((C, TWO.id), (A, ONE.id)):
        assert hear(late, source, StateRefusal(point)) == [Dropped("state_chunk_astray")]
    assert late.deadline() is not None
    assert hear(late, A, StateRefusal(TWO.id)) == [Up(StateNotGiven(A))]
    assert late.deadline() is None
    assert to(B, A, StateRequest(THREE.id, 0)) in install(late, THREE, TWO)


def test_a_joiner_that_waits_at_a_merge_asks_the_provider_of_its_own_part() -> None:
    """A ranks first after the merge, but its state lacks the messages of C's part, which C would then never get."""
    three, four = view_of(3, "B"), view_of(4, "BC")
    parts = [SubView(each.id, each.members, each.id) for each in (ONE, four)]
    merge = replace(view_of(5, "ABC"), subviews=tuple(parts))
    b, _ = joiner("B", three)
    standing(b, B=HOLDS)
    c, _ = joiner("C", four, B=HOLDS)
    install(b, four, three)
    for layer in (b, c):
        standing(layer, C=WAITS)
        layer.merge_state(Standings({A: HOLDS}))
    assert Up(GiveState(merge.id)) in install(b, merge, four)
    assert install(c, merge, four) == [
        Up(StateAwaited(B)),
        to(C, B, StateRequest(merge.id, READS_EXTRAS)),
        to(C, B, StateRequest(merge.id, 0)),
    ]
    b.down(StateGiven(merge.id, b"x"), 0.0)
    assert hear(b, C, StateRequest(merge.id, 0)) == [to(B, C, StateChunk(merge.id, 0, 1, b"x"))]
    assert Up(StateArrived(merge.id, b"x")) in hear(c, B, StateChunk(merge.id, 0, 1, b"x"))


def test_a_joiner_of_an_earlier_release_gets_the_state_without_extras() -> None:
    layer = provider(None)
    layer.down(StateGiven(TWO.id, b"extrastate", extras_bytes=5), 0.0)
    assert hear(layer, B, StateRequest(TWO.id, 0)) == [to(A, B, StateChunk(TWO.id, 0, 5, b"sta"))]
    assert hear(layer, B, StateRequest(TWO.id, 3)) == [to(A, B, StateChunk(TWO.id, 3, 5, b"te"))]
    assert hear(layer, B, StateRequest(TWO.id, 6)) == [Dropped("state_request_astray")]
    assert hear(layer, B, StateRequest(TWO.id, READS_EXTRAS)) == []
    assert hear(layer, B, StateRequest(TWO.id, 0)) == [to(A, B, StateChunk(TWO.id, 0, 10, b"ext"))]
