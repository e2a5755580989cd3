"""Path MTU discovery: a search finds the largest size that passes, a limit goes when the network is mended."""

from __future__ import annotations

import pytest

from sitestack.layers.path_mtu import PathMtu, PathMtuConfig, Probe, ProbeAnswer
from sitestack.model.address import Address
from sitestack.model.events import FindPhysical, Left, NarrowPath, PathDoubt, SendAlone, TryNextPhysical, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.view import View
from sitestack.stack.layer import Down, Dropped, Effect, Limit, Up
from sitestack.wire.codec import Codec
from tests.harness.addresses import address, local_of, view_of

A, B, C, X = map(address, "ABCX")
SMALL = [548, 1_200, 1_400]
CODEC = Codec("NYC", PathMtu.HEADERS)


def layer_of(view: View | None = None, datagram_bytes_max: int = 60_000, **config: float) -> PathMtu:
    layer = PathMtu(local_of("A"), PathMtuConfig(**config), datagram_bytes_max)  # type: ignore[arg-type]
    layer.codec = CODEC
    layer.up(ViewInstalled(view or view_of(1, "ABC"), None), 0.0)
    return layer


def probes(effects: list[Effect]) -> list[Probe]:
    sent = [each.event.frame for each in effects if isinstance(each, Down) and isinstance(each.event, SendAlone)]
    return [header for frame in sent for header in frame.headers if isinstance(header, Probe)]


def sizes(effects: list[Effect]) -> list[int]:
    return [each.size for each in probes(effects)]


def answer(layer: PathMtu, member: Address, search: int, size: int, now: float) -> list[Effect]:
    return layer.up(Frame(member, A, (ProbeAnswer(search, size),), None, True), now)


def search(layer: PathMtu, member: Address, passes: tuple[int, ...], now: float) -> list[Effect]:
    """Run a search in which datagrams of these sizes are answered; returns its effects."""
    effects = layer.down(PathDoubt(member, True), now)
    while asked := probes(effects):
        effects = [
            effect for each in asked if each.size in passes for effect in answer(layer, member, each.search, each.size, now)
        ]
        due = layer.deadline()
        if not effects and due is not None:
            now = max(now, due)
            effects = layer.expire(now)
    return effects


def test_a_probe_is_a_datagram_of_exactly_its_size() -> None:
    layer = layer_of()
    effects = layer.down(PathDoubt(B, True), 0.0)
    for size in (1_400, 8_900):
        effects += answer(layer, B, 1, size, 0.0)
    sent = [each.event.frame for each in effects if isinstance(each, Down) and isinstance(each.event, SendAlone)]
    assert [len(CODEC.encode_datagram(A, B, [CODEC.encode_frame(frame)])) for frame in sent] == sizes(effects)
    assert sizes(effects) == [*SMALL, 8_900, 60_000]


def test_the_stack_reads_the_deadline_after_each_step_of_a_search() -> None:
    layer = layer_of()
    layer.stale = set()
    layer.down(PathDoubt(B, True), 0.0)
    assert layer.stale == {layer}
    layer.stale.clear()
    answer(layer, B, 1, 1_400, 0.01)
    assert layer.stale == {layer}


def test_a_large_size_is_tried_alone_once_the_sizes_below_it_have_passed() -> None:
    """Probes of all sizes together would fill a narrow wire for seconds, and keep a full one full."""
    layer = layer_of()
    assert sizes(layer.down(PathDoubt(B, True), 0.0)) == SMALL
    assert answer(layer, B, 1, 548, 0.01) == answer(layer, B, 1, 1_200, 0.01) == []
    assert sizes(answer(layer, B, 1, 1_400, 0.01)) == [8_900]
    assert answer(layer, B, 1, 1_400, 0.01) == [Dropped("probe_answer")]
    assert sizes(answer(layer, B, 1, 8_900, 0.02)) == [60_000]


def test_a_large_size_has_longer_to_pass_if_smaller_ones_were_slow() -> None:
    layer = layer_of()
    layer.down(PathDoubt(B, True), 0.0)
    assert sizes(answer(layer, B, 1, 1_400, 0.1)) == [8_900]
    assert layer.deadline() == pytest.approx(0.1 + 0.1 * 8_900 / 1_400)
    assert sizes(answer(layer, B, 1, 8_900, 0.5)) == [60_000]
    assert layer.deadline() == pytest.approx(0.5 + 0.4 * 60_000 / 8_900)


def test_a_large_size_that_may_take_long_is_tried_once() -> None:
    """Further probes would only wait behind the first one; a late answer lifts the limit."""
    layer = layer_of()
    layer.down(PathDoubt(B, True), 0.0)
    answer(layer, B, 1, 1_400, 0.1)
    answer(layer, B, 1, 8_900, 1.0)
    assert layer.deadline() == 5.0
    assert layer.expire(5.0) == [Limit(B, 8_900), Limit(None, 8_900), Up(NarrowPath(B, "B", 8_900))]


def test_a_late_answer_continues_a_search_and_lifts_its_limit() -> None:
    layer = layer_of(search_interval_s=2.0, search_interval_s_max=4.0)
    assert search(layer, B, (), 0.0) == [Down(TryNextPhysical(B)), Up(FindPhysical(B, again=True))]
    assert sizes(answer(layer, B, 1, 548, 2.0)) == [1_200, 1_400]
    assert sizes(answer(layer, B, 1, 1_400, 2.0)) == [8_900]
    while sizes(ended := layer.expire(layer.deadline() or 0.0)):
        pass
    assert ended[0] == Limit(B, 1_400)
    assert sizes(answer(layer, B, 1, 8_900, 20.0)) == [60_000]
    assert answer(layer, B, 1, 60_000, 21.0)[0] == Limit(B, None)
    assert layer.deadline() is None
    assert layer.down(PathDoubt(B, True), 22.9) == [], "so soon after the last answer the path is full"
    layer.down(PathDoubt(B, True), 23.0)
    answer(layer, B, 2, 60_000, 23.0)
    assert layer.down(PathDoubt(B, True), 26.9) == []


def test_a_probe_is_answered_with_its_size_at_all_addresses() -> None:
    """So it is known which way is dead: that of the probe."""
    assert layer_of().up(Frame(B, A, (Probe(7, 1_400, b"..."),), None, True), 0.0) == [
        Down(SendAlone(Frame(A, B, (ProbeAnswer(7, 1_400),), None, True), everywhere=True))
    ]


def test_the_largest_size_that_was_answered_is_the_limit_for_the_member_and_for_multicasts() -> None:
    layer = layer_of()
    assert search(layer, B, (1_400, 1_200), 0.0) == [Limit(B, 1_400), Limit(None, 1_400), Up(NarrowPath(B, "B", 1_400))]
    assert search(layer, C, (8_900, 1_400, 1_200), 0.0) == [Limit(C, 8_900), Limit(None, 1_400), Up(NarrowPath(C, "C", 8_900))]
    assert layer.levels()["narrow_paths"].now == 2


def test_a_lost_probe_is_sent_again_and_one_answer_to_the_full_size_ends_the_search() -> None:
    layer = layer_of()
    layer.down(PathDoubt(B, True), 0.0)
    assert answer(layer, B, 1, 1_200, 0.01) == []
    assert sizes(layer.expire(0.1)) == [1_400], "what was answered is not asked again"
    assert sizes(answer(layer, B, 1, 1_400, 0.15)) == sizes(layer.expire(2.0)) == [8_900]
    assert answer(layer, B, 1, 60_000, 2.1) == []
    assert layer.deadline() is None
    assert layer.levels()["narrow_paths"].now == 0


@pytest.mark.parametrize("datagram_bytes_max", [60_000, 1_200])
def test_a_silent_member_sets_no_limit_and_is_tried_and_sought_at_other_addresses(
    datagram_bytes_max: int,
) -> None:
    layer = layer_of(datagram_bytes_max=datagram_bytes_max)
    assert search(layer, B, (), 0.0) == [Down(TryNextPhysical(B)), Up(FindPhysical(B, again=True))]
    assert layer.levels()["narrow_paths"].now == 0


def test_doubts_cost_one_search_in_a_while() -> None:
    layer = layer_of(search_interval_s=2.0)
    assert sizes(layer.down(PathDoubt(B, True), 0.0)) == SMALL
    assert layer.down(PathDoubt(B, True), 10.0) == [], "it has not ended"
    assert answer(layer, B, 1, 60_000, 10.0) == []
    assert layer.down(PathDoubt(B, True), 11.9) == []
    assert sizes(layer.down(PathDoubt(C, True), 11.9)) == SMALL
    assert sizes(layer.down(PathDoubt(B, True), 12.0)) == SMALL


def test_the_way_is_searched_less_and_less_often_while_all_sizes_pass() -> None:
    """It is full then and not narrow; probes would fill it further."""
    layer = layer_of(search_interval_s=2.0, search_interval_s_max=6.0)
    now = 0.0
    for pause in (2.0, 4.0, 6.0, 6.0):
        (number,) = {each.search for each in probes(layer.down(PathDoubt(B, True), now))}
        assert answer(layer, B, number, 60_000, now) == []
        assert layer.down(PathDoubt(B, True), now + pause - 0.1) == []
        now += pause
    search(layer, B, (1_400, 1_200), now)
    assert layer.down(PathDoubt(B, True), now + 5.9) == []
    assert search(layer, B, (), now + 10.0) == [Down(TryNextPhysical(B)), Up(FindPhysical(B, again=True))]
    assert sizes(layer.down(PathDoubt(B, True), now + 13.0)) == SMALL, "what was narrow, or dead, is searched as often as ever"


def test_a_limit_is_looked_at_again_and_goes_when_the_full_size_passes() -> None:
    layer = layer_of(raise_interval_s=30.0)
    search(layer, B, (1_200,), 0.0)
    due = layer.deadline()
    assert due is not None
    assert due > 30.0
    (number,) = {each.search for each in probes(layer.expire(due))}
    assert answer(layer, B, number, 60_000, due) == [Limit(B, None), Limit(None, None), Up(NarrowPath(B, "B", None))]
    assert layer.deadline() is None


def test_a_limit_stays_while_nothing_is_answered_by_a_member() -> None:
    layer = layer_of(raise_interval_s=30.0)
    search(layer, B, (1_200,), 0.0)
    due = 0.0
    searches = set()
    while due < 100.0:
        due = layer.deadline() or 0.0
        searches |= {each.search for each in probes(layer.expire(due))}
    assert len(searches) > 1
    assert layer.levels()["narrow_paths"].now == 1


def test_a_silent_process_that_is_no_member_is_forgotten() -> None:
    layer = layer_of(raise_interval_s=30.0)
    search(layer, X, (1_400,), 0.0)
    limits = []
    for _ in range(100):
        due = layer.deadline()
        if due is None:
            break
        limits += [each for each in layer.expire(due) if isinstance(each, Limit)]
    assert limits == [Limit(X, None), Limit(None, None)]


def test_multicasts_are_limited_by_the_members_of_the_view() -> None:
    layer = layer_of()
    search(layer, X, (1_200,), 0.0)
    assert layer.up(ViewInstalled(view_of(2, "ABX"), None), 1.0) == [Limit(None, 1_200)]
    assert layer.up(ViewInstalled(view_of(3, "AB"), None), 2.0) == [Limit(None, None)]


def test_answers_that_were_not_asked_for_are_dropped() -> None:
    layer = layer_of()
    assert answer(layer, B, 1, 60_000, 0.0) == [Dropped("probe_answer")]
    layer.down(PathDoubt(B, True), 0.0)
    assert answer(layer, B, 2, 60_000, 0.0) == [Dropped("probe_answer")]
    assert answer(layer, B, 1, 64_000, 0.0) == [Dropped("probe_answer")]
    assert answer(layer, C, 1, 60_000, 0.0) == [Dropped("probe_answer")]


@pytest.mark.parametrize("most", [1, 3])
def test_searches_and_limits_are_bounded_and_the_oldest_limit_is_lifted(most: int) -> None:
    layer = layer_of(members_max=most)
    for n in range(most):
        search(layer, address(f"{n}"), (1_200,), 0.0)
    assert Limit(address("0"), None) in search(layer, X, (1_200,), 1.0)
    assert {name: level.now for name, level in layer.levels().items()} == {"searches": most, "narrow_paths": most}


def test_only_a_member_is_sent_probes_before_it_has_answered() -> None:
    """Otherwise a small datagram in another's name would have a lot sent to it."""
    layer = layer_of()
    assert layer.down(PathDoubt(X, False), 0.0) == []
    assert sizes(layer.down(PathDoubt(B, False), 0.0)) == SMALL


def test_where_all_datagrams_have_the_least_size_there_is_one_to_try() -> None:
    assert search(layer_of(datagram_bytes_max=548), B, (548,), 0.0) == []


def test_a_member_that_has_left_ends_its_search() -> None:
    layer = layer_of()
    layer.down(PathDoubt(B, True), 0.0)
    layer.up(Left(), 0.05)
    assert layer.deadline() is None


def test_frames_of_other_layers_pass() -> None:
    frame = Frame(B, A, ())
    assert layer_of().up(frame, 0.0) == [Up(frame)]


def test_a_search_without_an_answer_names_its_beginning() -> None:
    """Meanwhile another layer may have changed the address."""
    layer = layer_of()
    [ended] = [each.event for each in search(layer, B, (), 5.0) if isinstance(each, Down)]
    assert isinstance(ended, TryNextPhysical)
    assert ended.since == 5.0
