"""What batching promises: how messages become batches, when they close, and when a sender has to wait."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from sitestack.layers.batching import Batching, BatchingConfig, Manner, batch_streams
from sitestack.layers.batching import layer as module
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.errors import ChannelClosed, LocalError, MessageTooLarge
from sitestack.model.events import Blocked, Disconnect, Event, Left, LeftBehind, Sent, Unblocked, ViewInstalled, Waiting
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope
from sitestack.stack.layer import Down, Dropped, Effect, Up
from tests.harness.addresses import SITE, address, local_of, view_of
from tests.harness.ordered import Configs, OrderedGroup

A, B, C = map(address, "ABC")
SMALL = BatchingConfig(batch_bytes_max=100, batch_count_max=5, window_bytes=200, send_credit_bytes=1000, latency_target_s=None)


def batching_of(config: BatchingConfig | None = None, joined: bool = True) -> Batching:
    batching = Batching(local_of("A"), config or BatchingConfig())
    if joined:
        batching.up(ViewInstalled(view_of(1, "AB"), None), 0.0)
    return batching


def append(batching: Batching, *payloads: bytes, scope: Scope = Scope.ALL, target: Address | None = None) -> None:
    for payload in payloads:
        batching.append(payload, scope, target)


def batches(effects: Iterable[Effect]) -> list[Batch]:
    frames = [effect.event for effect in effects if isinstance(effect, Down)]
    return [frame.batch for frame in frames if isinstance(frame, Frame) and frame.batch is not None]


def come_back(batching: Batching, batch: Batch) -> list[Effect]:
    return batching.up(Frame(A, None, (), batch, False, 1), 0.0)


def events(effects: Iterable[Effect]) -> list[Event | Frame]:
    return [effect.event for effect in effects if isinstance(effect, Up | Down)]


# -- closing -----------------------------------------------------------------------------------------------------------


def test_messages_of_one_turn_form_one_batch_that_is_reported_before_it_is_sent() -> None:
    batching = batching_of()
    append(batching, b"one", b"", b"three")
    effects = batching.flush(0.0)
    batch = batches(effects)[0]
    assert effects == [Up(Sent(batch)), Down(Frame(A, None, (), batch))]
    assert (batch.site, batch.origin, batch.scope, batch.first, batch.count) == (SITE, A, Scope.ALL, 1, 3)
    assert list(batch.payloads()) == [b"one", b"", b"three"]
    assert batching.flush(0.0) == []


def test_while_a_batch_of_mine_is_on_its_way_the_next_one_keeps_filling() -> None:
    batching = batching_of()
    append(batching, b"1")
    first = batches(batching.flush(0.0))[0]
    append(batching, b"2")
    assert batching.flush(0.0) == []
    append(batching, b"3")
    assert batching.flush(0.0) == []
    assert come_back(batching, first) == [Up(Frame(A, None, (), first, False, 1))]
    second = batches(batching.flush(0.0))[0]
    assert (second.first, list(second.payloads())) == (2, [b"2", b"3"])


@pytest.mark.parametrize(
    ("payloads", "counts"),
    [([b"x"] * 12, [5, 5]), ([b"x" * 40] * 6, [2, 2]), ([b"x" * 96] * 3, [1, 1]), ([b"x" * 46] * 5, [2, 2])],
    ids=["by count", "by bytes", "exactly full", "exactly full by two"],
)
def test_a_full_batch_does_not_wait_while_the_window_is_open(payloads: list[bytes], counts: list[int]) -> None:
    batching = batching_of(SMALL)
    append(batching, *payloads)
    sent = batches(batching.flush(0.0))
    assert [batch.count for batch in sent][:2] == counts
    assert all(len(batch.body) <= 100 for batch in sent)


def test_full_batches_wait_when_the_window_is_used_up_and_follow_in_order() -> None:
    batching = batching_of(SMALL)
    append(batching, *[b"%095d" % n for n in range(6)])
    sent = batches(batching.flush(0.0))
    assert [batch.first for batch in sent] == [1, 2, 3]
    assert batching.levels()["outstanding_bytes"].now == 297
    assert batching.flush(0.0) == []
    come_back(batching, sent.pop(0))
    assert [batch.first for batch in batches(batching.flush(0.0))] == [4]
    assert batching.flush(0.0) == []
    come_back(batching, sent.pop(0))
    assert [batch.first for batch in batches(batching.flush(0.0))] == [5]


def test_a_message_larger_than_a_batch_is_a_batch_of_its_own_and_always_finds_a_window() -> None:
    batching = batching_of(SMALL)
    append(batching, b"a", b"x" * 5000, b"b")
    counts = []
    for _ in range(3):
        sent = batches(batching.flush(0.0))
        counts.append([batch.count for batch in sent])
        for batch in sent:
            come_back(batching, batch)
    assert counts == [[1, 1], [1], []]
    assert batching.levels()["outstanding_bytes"].now == batching.levels()["open_bytes"].now == 0


def test_a_payload_above_the_maximum_is_refused() -> None:
    batching = batching_of(BatchingConfig(message_bytes_max=10))
    append(batching, b"x" * 10)
    with pytest.raises(MessageTooLarge):
        batching.append(b"x" * 11, Scope.ALL, None)
    assert [batch.count for batch in batches(batching.flush(0.0))] == [1]


def test_a_scope_in_full_use_does_not_starve_the_other() -> None:
    batching = batching_of(SMALL)
    append(batching, *[b"x" * 90] * 20)
    on_the_way = batches(batching.flush(0.0))
    append(batching, b"site", scope=Scope.SITE)
    assert [batch.scope for batch in batches(batching.flush(0.0))] == [Scope.SITE]
    assert on_the_way


@pytest.mark.conforms("SEQ-2")
def test_each_scope_and_target_has_its_own_sequence_numbers() -> None:
    batching = batching_of()
    proxy = ProxyUUID(bytes(B), "SFO", address("R"))
    for _ in range(2):
        append(batching, b"all", b"all")
        append(batching, b"site", scope=Scope.SITE)
        append(batching, b"local", scope=Scope.UNICAST, target=B)
        append(batching, b"remote", b"remote", b"remote", scope=Scope.UNICAST, target=proxy)
        effects = batching.flush(0.0)
        for batch in batches(effects):
            if batch.target is None:
                come_back(batching, batch)
    found = {(batch.scope, batch.target, batch.target_site): batch.first for batch in batches(effects)}
    assert found == {
        (Scope.ALL, None, ""): 3,
        (Scope.SITE, None, ""): 2,
        (Scope.UNICAST, B, SITE): 2,
        (Scope.UNICAST, B, "SFO"): 4,
    }


def test_a_unicast_goes_to_its_target_at_the_end_of_every_turn() -> None:
    batching = batching_of(SMALL)
    proxy = ProxyUUID(bytes(B), "SFO", address("R"))
    at_home = ProxyUUID(bytes(B), SITE, address("R"))
    append(batching, b"1", scope=Scope.UNICAST, target=B)
    assert [frame.dest for frame in events(batching.flush(0.0)) if isinstance(frame, Frame)] == [B]
    append(batching, *[b"x" * 60] * 3, scope=Scope.UNICAST, target=B)
    append(batching, b"2", scope=Scope.UNICAST, target=proxy)
    append(batching, b"3", scope=Scope.UNICAST, target=at_home)
    frames = [frame for frame in events(batching.flush(0.0)) if isinstance(frame, Frame)]
    seen = [(frame.dest, frame.batch.first) for frame in frames if frame.batch is not None]
    assert seen == [(B, 2), (B, 3), (B, 4), (proxy, 1)]
    assert [frame.batch.count for frame in frames if frame.batch is not None] == [1, 1, 2, 1]
    assert type(frames[-1].batch and frames[-1].batch.target) is Address


def test_the_number_of_targets_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_streams, "TARGETS_MAX", 2)
    batching = batching_of()
    append(batching, b"1", scope=Scope.UNICAST, target=A)
    append(batching, b"1", scope=Scope.UNICAST, target=B)
    with pytest.raises(LocalError):
        batching.append(b"1", Scope.UNICAST, address("C"))
    append(batching, b"2", scope=Scope.UNICAST, target=B)


# -- credit ------------------------------------------------------------------------------------------------------------


def test_open_outstanding_and_waiting_bytes_use_up_the_credit_of_a_sender() -> None:
    batching = batching_of(BatchingConfig(send_credit_bytes=100))
    answers = [batching.append(b"x" * 46, Scope.ALL, None) for _ in range(2)]
    batch = batches(batching.flush(0.0))[0]
    answers.append(batching.writable)
    come_back(batching, batch)
    answers.append(batching.writable)
    for waiting in (100, 99):
        assert batching.up(Waiting(waiting), 0.0) == []
        answers.append(batching.writable)
    assert answers == [True, False, False, True, False, True]


def test_waiting_unicasts_hold_back_only_their_own_targets() -> None:
    batching = batching_of(BatchingConfig(send_credit_bytes=100))
    batching.up(Waiting(99, {B: 99}), 0.0)
    assert batching.full_targets == frozenset()
    batching.up(Waiting(150, {B: 60, A: 40}), 0.0)
    assert batching.full_targets == {A, B}
    assert batching.writable
    batching.up(Waiting(0), 0.0)
    assert batching.full_targets == frozenset()


# -- views ---------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-22")
def test_messages_before_the_first_view_are_queued_within_credit_and_sent_after_it() -> None:
    batching = batching_of(SMALL, joined=False)
    sent = 0
    while batching.append(b"%06d" % sent, Scope.ALL, None):
        sent += 1
    append(batching, b"to B", scope=Scope.UNICAST, target=B)
    assert sent == 99
    assert batching.flush(0.0) == batching.expire(0.0) == []
    assert batching.deadline() is None
    batching.up(ViewInstalled(view_of(1, "A"), None), 0.0)
    got: list[bytes] = []
    while sent_now := [batch for batch in batches(batching.flush(0.0)) if batch.target is None]:
        for batch in sent_now:
            come_back(batching, batch)
            got += batch.payloads()
    assert got == [b"%06d" % n for n in range(100)]


def test_a_unicast_that_overtakes_the_first_view_is_delivered_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EARLY_MAX", 2)
    batching = batching_of(joined=False)
    early = [Frame(B, A, (), Batch(SITE, B, Scope.UNICAST, n, 1, b"\0\0\0\0", A, SITE)) for n in (1, 2, 3)]
    answers = [batching.up(frame, 0.0) for frame in early]
    assert answers == [[], [], [Dropped("before_first_view")]]
    installed = ViewInstalled(view_of(1, "AB"), None)
    assert batching.up(installed, 0.0) == [Up(installed), Up(early[0]), Up(early[1])]
    assert batching.up(early[2], 0.0) == [Up(early[2])]


@pytest.mark.parametrize("still_blocked", [False, True])
def test_during_a_block_batches_fill_and_nothing_closes(still_blocked: bool) -> None:
    batching = batching_of(SMALL)
    batching.up(Blocked(), 0.0)
    append(batching, *[b"x" * 90] * 5)
    append(batching, b"1", scope=Scope.UNICAST, target=B)
    assert batching.flush(0.0) == []
    assert batching.deadline() is None
    batching.up(ViewInstalled(view_of(2, "AB"), view_of(1, "AB"), blocked=still_blocked), 0.0)
    assert bool(batching.flush(0.0)) is not still_blocked
    batching.up(Unblocked(), 0.0)
    assert bool(batching.flush(0.0)) is still_blocked


def test_messages_sendable_after_the_flush_of_a_turn_do_not_wait_for_input() -> None:
    """A coordinator's own multicast comes back within the flush that sent it."""
    group = OrderedGroup("A", Configs(batching=SMALL))
    member = group["A"]
    group.send("A", *[b"%090d" % n for n in range(9)])
    member.stack.flush(0.0)
    assert member.stack.deadline() == 0.0
    group.settle()
    assert member.layer(Batching).statistics().messages == 9
    assert member.stack.deadline() is None


# -- leaving -----------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-16")
def test_leaving_refuses_new_messages_and_waits_for_unfinished_ones() -> None:
    batching = batching_of()
    append(batching, b"1")
    first = batches(batching.flush(0.0))[0]
    append(batching, b"2")
    assert batching.down(Disconnect(), 1.0) == []
    with pytest.raises(ChannelClosed):
        batching.append(b"3", Scope.ALL, None)
    assert batching.deadline() == 6.0
    come_back(batching, first)
    second = batches(batching.flush(2.0))[0]
    assert batching.flush(2.0) == []
    come_back(batching, second)
    assert batching.deadline() == 0.0
    assert batching.flush(3.0) == [Down(Disconnect())]
    assert batching.deadline() is None
    assert batching.down(Disconnect(), 4.0) == []


@pytest.mark.conforms("SEQ-16")
def test_leaving_waits_for_unicasts_that_have_no_credit_yet() -> None:
    batching = batching_of()
    batching.up(Waiting(7), 0.0)
    assert batching.down(Disconnect(), 1.0) == []
    batching.stale = set()
    batching.up(Waiting(0), 2.0)
    assert batching.stale == {batching}
    assert batching.flush(2.0) == [Down(Disconnect())]


@pytest.mark.conforms("SEQ-16")
def test_leaving_ends_at_its_timeout_and_counts_unsent_and_uncertain_messages() -> None:
    batching = batching_of(BatchingConfig(stop_timeout_s=5.0))
    append(batching, b"1", b"2")
    batching.flush(0.0)
    append(batching, b"3", b"4", b"5")
    assert batching.down(Disconnect(), 10.0) == []
    assert batching.expire(14.9) == []
    assert batching.expire(15.0) == [
        Dropped("unsent_at_stop", 3),
        Dropped("uncertain_at_stop", 2),
        Down(Disconnect()),
    ]
    assert batching.flush(16.0) == []
    assert batching.up(Left(), 17.0) == [Up(LeftBehind(Scope.ALL, 1, 2)), Up(Left())]


@pytest.mark.conforms("SEQ-16")
def test_leaving_with_a_timeout_of_0_sends_open_messages_and_ends_at_once() -> None:
    batching = batching_of(BatchingConfig(stop_timeout_s=0.0))
    append(batching, b"1")
    effects = batching.down(Disconnect(), 10.0)
    assert [batch.count for batch in batches(effects)] == [1]
    assert effects[-2:] == [Dropped("uncertain_at_stop", 1), Down(Disconnect())]


def test_sending_after_leaving_raises_channel_closed() -> None:
    batching = batching_of()
    batching.up(Left(), 0.0)
    with pytest.raises(ChannelClosed):
        batching.append(b"1", Scope.ALL, None)


def test_messages_of_others_and_events_pass() -> None:
    batching = batching_of()
    other = Frame(B, None, (), Batch(SITE, B, Scope.ALL, 1, 1, b"\0\0\0\0"), False, 1)
    assert batching.up(other, 0.0) == [Up(other)]
    to_me = Frame(B, A, (), Batch(SITE, B, Scope.UNICAST, 1, 1, b"\0\0\0\0", A, SITE))
    assert batching.up(to_me, 0.0) == [Up(to_me)]
    assert batching.levels()["outstanding_bytes"].now == 0


def test_a_forged_batch_from_another_site_does_not_count_as_own() -> None:
    """Credit and silence count messages that this member has sent itself."""
    batching = batching_of()
    batching.append(b"mine", Scope.ALL, manner=Manner.SILENT)
    mine = batches(batching.flush(0.0))[0]
    forged = replace(mine, site="SFO")
    assert come_back(batching, forged) == [Up(Frame(A, None, (), forged, False, 1))]
    assert batching.levels()["outstanding_bytes"].now == len(mine.body)
    assert not batching.is_silent(forged)
    come_back(batching, mine)
    assert batching.levels()["outstanding_bytes"].now == 0
    assert batching.is_silent(mine)
