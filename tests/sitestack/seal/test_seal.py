"""The seal: what authenticates and is new is opened, and nothing else is, nor answered."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from sitestack.seal import seal as seal_module
from sitestack.seal.envelope import HEADER_BYTES, NONCE_END, OVERHEAD_BYTES
from sitestack.seal.introductions import (
    ANSWER_S,
    HELD_DATAGRAMS_MAX,
    INTRODUCTION_BYTES,
    INTRODUCTIONS_PER_S,
    STRANGERS_MAX,
    Held,
    Strangers,
)
from sitestack.seal.key_ring import KeyRing, SiteKey
from sitestack.seal.replay_window import WINDOW
from sitestack.seal.seal import FRESH_S, make_cipher
from sitestack.wire import codec
from tests.sitestack.seal.parties import HELLO, KEY, OTHER_KEY, Party, World

LISTENER = World().start("attacker").place


def test_the_first_datagram_arrives_after_one_round_trip_and_later_ones_at_once() -> None:
    world = World()
    a, b = world.start("a"), world.start("b")
    b.hear(a.say(HELLO), a.place, introductions=False)
    assert (b.heard, len(world.seen)) == ([], 1)
    a.hear(world.seen[0], b.place)
    assert (b.heard, len(world.seen)) == ([HELLO], 3), "ask; answer and ask; answer"
    b.hear(a.say(b"more"), a.place)
    a.hear(b.say(b"hello to you"), b.place)
    assert (b.heard, a.heard, len(world.seen)) == ([HELLO, b"more"], [b"hello to you"], 3)
    assert (a.drops, b.drops) == ({}, {})


def test_held_datagrams_keep_their_order_and_a_stranger_is_asked_again_only_later() -> None:
    world = World()
    a, b = world.start("a"), world.start("b")
    said = [b"%d: %s" % (number, HELLO) for number in range(5)]
    sealed = [a.say(each) for each in said]
    for each in sealed:
        b.hear(each, a.place, introductions=False)
    assert len(world.seen) == 1
    world.now += 1.0
    b.hear(a.say(HELLO), a.place)
    assert (b.heard, b.drops) == ([*said, HELLO], {})


@given(st.binary(max_size=300))
def test_a_datagram_is_opened_as_it_was_and_is_larger_by_the_overhead(data: bytes) -> None:
    a, b = World().acquainted()
    sealed = a.say(data)
    assert len(sealed) == len(data) + OVERHEAD_BYTES
    b.hear(sealed, a.place)
    assert b.heard == [data]


@pytest.mark.parametrize("acquainted", [True, False])
def test_every_cut_and_every_edited_byte_is_refused_and_answered_by_nothing(acquainted: bool) -> None:
    """U13: a process without a key reaches no window."""
    world = World()
    a, b = world.acquainted() if acquainted else (world.start("a"), world.start("b"))
    answered = b.answered_bytes
    sealed = a.say(HELLO)
    damaged = [sealed[:size] for size in range(len(sealed))] + [sealed + b"\0"]
    for at in range(len(sealed)):
        damaged += [sealed[:at] + bytes([sealed[at] ^ bit]) + sealed[at + 1 :] for bit in (1, 0x80)]
    for each in damaged:
        b.hear(each, a.place)
    assert (b.heard, b.answered_bytes) == ([], answered)
    assert sum(b.drops.values()) == len(damaged)
    assert set(b.drops) <= {"seal_forged", "seal_magic", "seal_version", "seal_cluster", "seal_key", "seal_plain"}
    b.hear(sealed, a.place)
    assert b.heard == [HELLO]


def test_a_flood_of_invented_senders_derives_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """C16. To derive one takes a hundred times as long as to look at the stamp."""
    world = World()
    a, b = world.acquainted()
    sealed, derived = a.say(HELLO), count_derived(monkeypatch)
    for _ in range(1_000):
        b.hear(sealed[:8] + world.rng.randbytes(16) + sealed[24:], a.place)
        b.hear(sealed[:28] + world.rng.randbytes(8) + sealed[36:], a.place)  # another upper half of the counter is another key
    assert (derived, b.drops) == ([], {"seal_forged": 2_000})


def test_the_key_of_a_stranger_is_derived_once_for_any_number_of_forgeries(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    gone, b = world.start("gone"), world.start("b")
    sealed, derived = gone.say(HELLO), count_derived(monkeypatch)
    for _ in range(1_000):
        b.hear(sealed[:HEADER_BYTES] + world.rng.randbytes(40), gone.place)
    assert (len(derived), b.drops) == (1, {"seal_forged": 1_000})


def count_derived(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The sender ids for which a key was derived from now on."""
    derived: list[bytes] = []

    def counted(pseudorandom_key: bytes, cluster: str, sender_id: bytes, epoch: bytes) -> AESGCM:
        derived.append(sender_id)
        return make_cipher(pseudorandom_key, cluster, sender_id, epoch)

    monkeypatch.setattr(seal_module, "make_cipher", counted)
    return derived


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    world = World()
    b = world.start("b")
    b.hear(data, LISTENER)
    assert (b.heard, b.answered_bytes, sum(b.drops.values())) == ([], 0, 1)


def test_no_nonce_is_used_twice_with_a_key() -> None:
    world = World()
    ring = KeyRing.of(KEY).add(SiteKey(OTHER_KEY))
    a = world.start("a", ring)
    seen = set[bytes]()
    for number in range(20_000):
        if number % 1_000 == 0:
            ring = ring.use(SiteKey(OTHER_KEY if number % 2_000 else KEY).id)
            a.seal.use_ring(ring)
        if number == 10_000:
            a = world.start("a", ring)
        seen.add(a.say(b"")[8:NONCE_END])  # sender id, key id, counter
    assert len(seen) == 20_000


@pytest.mark.long
def test_ten_million_nonces_count_up() -> None:
    """C7: a counter that only rises within one sender id and key does not repeat."""
    seal, before = World().start("a").seal, b""
    for _ in range(10_000_000):
        nonce = seal.seal(b"", 1000.0)[8:NONCE_END]
        assert before < nonce
        before = nonce


def test_the_key_changes_when_the_lower_half_of_the_counter_wraps() -> None:
    a, b = World().acquainted()
    a.seal._counter = (1 << 32) - 1
    before = a.say(HELLO)
    ciphers = {id(a.seal._cipher)}
    after = [a.say(HELLO), a.say(HELLO)]
    ciphers.add(id(a.seal._cipher))
    for each in (before, *after, before, *after):
        b.hear(each, a.place)
    assert (b.heard, b.drops, len(ciphers)) == ([HELLO] * 3, {"seal_replayed": 3}, 2)


def test_copies_at_once() -> None:
    a, b = World().acquainted()
    sealed = [a.say(b"%d" % number) for number in range(100)]
    for each in sealed * 3:
        b.hear(each, a.place)
    assert (len(b.heard), b.drops) == (100, {"seal_replayed": 200})


def test_copies_ten_minutes_later() -> None:
    world = World()
    a, b = world.acquainted()
    sealed, withheld = a.say(HELLO), a.say(HELLO)
    b.hear(sealed, a.place)
    for _ in range(600):
        world.now += 1.0
        b.hear(a.say(b"still here"), a.place)
    b.heard.clear()
    b.hear(sealed, a.place)
    b.hear(withheld, a.place)
    assert (b.heard, b.drops) == ([], {"seal_late": 2}), "also what has never arrived is late some time"


def test_copies_later_than_the_window() -> None:
    a, b = World().acquainted()
    sealed = a.say(HELLO)
    b.hear(sealed, a.place)
    for _ in range(WINDOW):
        last = a.say(b"")
    b.hear(last, a.place)
    b.hear(sealed, a.place)
    assert b.drops == {"seal_late": 1}


def test_copies_of_an_ended_session_are_refused_by_a_process_started_later() -> None:
    world = World()
    a, _ = world.acquainted()
    old = [a.say(b"%d: %s" % (number, HELLO)) for number in range(50)]
    world.start("a")  # the process is another one now, which answers for no other sender id
    b = world.start("b")
    for each in old:
        world.now += 0.01
        b.hear(each, a.place)
    assert b.heard == []
    assert b.seal.levels()["senders"].now == 0


def test_old_copies_of_a_live_session_are_dropped_at_a_restarted_receiver() -> None:
    world = World()
    a, b = world.acquainted()
    old = [a.say(b"%d: %s" % (number, HELLO)) for number in range(50)]
    world.now += 2 * FRESH_S
    a.say(HELLO)
    world.now += 2 * FRESH_S
    b = world.start("b")
    for each in old:
        b.hear(each, a.place)  # the real A answers for itself, and names the old counter
    assert (b.heard, b.drops) == ([], {"seal_late": 50})
    b.hear(a.say(HELLO), a.place)
    assert b.heard == [HELLO]


def test_an_answer_that_arrives_late_admits_no_sender() -> None:
    world = World()
    a, b = world.start("a"), world.start("b")
    b.hear(a.say(HELLO), a.place, introductions=False)
    a.hear(world.seen[0], b.place, introductions=False)
    world.now += ANSWER_S  # an attacker keeps the answer, and A may have ended
    b.hear(world.seen[1], a.place, introductions=False)
    assert (b.heard, b.seal.levels()["senders"].now) == ([], 0)
    world.now += 1.0
    b.hear(a.say(b"more, " + HELLO), a.place)
    assert b.heard == [HELLO, b"more, " + HELLO], "a living sender answers the next question"


def test_copies_of_introductions() -> None:
    world = World()
    a, b = world.acquainted()
    introductions = list(world.seen)
    a, b = world.start("a"), world.start("b")
    for each in introductions:
        a.hear(each, b.place)
        b.hear(each, a.place)
    assert a.drops == b.drops == {"seal_introduction": len(introductions)}
    assert (a.answered_bytes, b.answered_bytes, a.seal.levels()["senders"].now) == (0, 0, 0)


def test_answers_to_copies_of_an_introduction_are_no_larger_than_the_copies() -> None:
    world = World()
    a, b = world.start("a"), world.start("b")
    b.hear(a.say(HELLO), a.place, introductions=False)
    [question] = world.seen
    for _ in range(10):
        a.hear(question, LISTENER)
    assert a.answered_bytes == 10 * len(question)
    assert a.seal.levels()["senders"].now == 0


def test_a_stranger_gets_no_more_bytes_out_than_it_puts_in() -> None:
    world = World()
    copies = [world.start(f"old {number}").say(bytes(30 + number % 60)) for number in range(500)]
    b = world.start("b")
    for each in copies * 20:
        b.hear(each, LISTENER)
    assert b.answered_bytes <= sum(map(len, copies * 20))
    assert b.answered_bytes / INTRODUCTION_BYTES <= INTRODUCTIONS_PER_S
    for level in b.seal.levels().values():
        assert not level.is_over
    assert b.seal.levels()["strangers"].now == STRANGERS_MAX
    assert b.heard == []


def test_for_a_datagram_smaller_than_an_introduction_none_is_sent() -> None:
    world = World()
    a, b = world.start("a"), world.start("b")
    b.hear(a.say(b"tiny"), a.place)
    assert (b.answered_bytes, b.drops) == (0, {"seal_stranger": 1})


def test_the_sender_silent_for_longest_is_evicted_and_introduced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal_module, "SENDERS_MAX", 3)
    world = World()
    b = world.start("b")
    others = [world.start(f"{number}") for number in range(5)]
    for each in others:
        world.now += 1.0
        b.hear(each.say(HELLO), each.place)
    assert b.seal.levels()["senders"].now == 3
    answered_bytes = b.answered_bytes
    b.hear(others[0].say(HELLO), others[0].place)
    assert b.heard == [HELLO] * 6
    assert b.answered_bytes > answered_bytes


class TestWhoDoesNotBelong:
    """Each foreigner has a separate name, and none is accepted or answered."""

    def refused(self, stranger: Party, reason: str) -> None:
        b = stranger.world.start("b")
        b.hear(stranger.say(HELLO), stranger.place)
        assert (b.heard, b.answered_bytes, b.drops) == ([], 0, {reason: 1})

    def test_another_key(self) -> None:
        self.refused(World().start("a", KeyRing.of(OTHER_KEY)), "seal_key")

    def test_another_cluster_with_the_same_key(self) -> None:
        self.refused(World().start("a", cluster="SFO"), "seal_cluster")

    def test_another_cluster_that_poses_as_this_one_is_refused(self) -> None:
        world = World()
        a, b = world.start("a", cluster="SFO"), world.start("b")
        sealed = a.say(HELLO)
        b.hear(sealed[:4] + b.say(HELLO)[4:8] + sealed[8:], a.place)
        assert b.drops == {"seal_forged": 1}

    def test_another_version(self) -> None:
        world = World()
        a, b = world.acquainted()
        b.hear(a.say(HELLO)[:2] + b"\x02" + a.say(HELLO)[3:], a.place)
        assert b.drops == {"seal_version": 1}

    def test_another_kind(self) -> None:
        world = World()
        a, b = world.acquainted()
        for kind in (b"\x01", b"\x02"):
            sealed = a.say(HELLO)
            b.hear(sealed[:3] + kind + sealed[4:], a.place)
        assert b.drops == {"seal_forged": 2}

    def test_a_plain_datagram(self) -> None:
        b = World().start("b")
        b.hear(codec._PREFIX + b"\x90", LISTENER)
        b.hear(b"GET / HTTP/1.1", LISTENER)
        assert b.drops == {"seal_plain": 1, "seal_magic": 1}

    def test_itself(self) -> None:
        a = World().start("a")
        a.hear(a.say(HELLO), a.place)
        assert (a.heard, a.drops) == ([], {"seal_own": 1})


class TestRotation:
    """Add, use, remove: members that are one step apart understand each other."""

    OLD = KeyRing.of(KEY)
    BOTH = OLD.add(SiteKey(OTHER_KEY))
    USING = BOTH.use(SiteKey(OTHER_KEY).id)
    NEW = USING.remove(SiteKey(KEY).id)

    @pytest.mark.parametrize(("mine", "theirs"), [(OLD, BOTH), (BOTH, USING), (USING, NEW), (NEW, NEW)])
    def test_neighbouring_steps_understand_each_other(self, mine: KeyRing, theirs: KeyRing) -> None:
        world = World()
        a, b = world.start("a", mine), world.start("b", theirs)
        for _ in range(2):
            b.hear(a.say(HELLO), a.place)
            a.hear(b.say(HELLO), b.place)
        assert (a.heard, b.heard, a.drops, b.drops) == ([HELLO] * 2, [HELLO] * 2, {}, {})

    def test_copies_do_not_pass_under_another_key(self) -> None:
        world = World()
        a, b = world.start("a", self.BOTH), world.start("b", self.BOTH)
        sealed = [a.say(HELLO)]
        a.seal.use_ring(self.USING)
        sealed.append(a.say(HELLO))
        for each in sealed * 2:
            b.hear(each, a.place)
        assert (b.heard, b.drops) == ([HELLO] * 2, {"seal_replayed": 2})

    def test_datagrams_held_under_a_removed_key_are_dropped(self) -> None:
        world = World()
        a, b = world.start("a", self.OLD), world.start("b", self.USING)
        b.hear(a.say(HELLO), a.place, introductions=False)
        assert b.seal.use_ring(self.USING) == 0
        assert b.seal.use_ring(self.NEW) == 1
        assert b.seal.levels()["held_bytes"].now == 0


def test_a_member_with_only_the_removed_key_is_refused_at_once() -> None:
    world = World()
    a, b = world.start("a", TestRotation.OLD), world.start("b", TestRotation.BOTH)
    for _ in range(2):
        b.hear(a.say(HELLO), a.place)
    b.heard.clear()
    b.seal.use_ring(TestRotation.NEW)
    b.hear(a.say(HELLO), a.place)
    a.hear(b.say(HELLO), b.place)
    assert (b.heard, b.drops, a.heard, a.drops) == ([], {"seal_key": 1}, [], {"seal_key": 1})


def test_exactly_as_many_datagrams_of_a_stranger_wait_as_the_bound_says() -> None:
    strangers, held = Strangers(lambda: bytes(16)), Held(1, b"x", LISTENER)
    strangers.next_nonce(b"B", 0.0)
    assert all(strangers.hold(b"B", held) for _ in range(HELD_DATAGRAMS_MAX))
    assert not strangers.hold(b"B", held)
    assert not strangers.hold(b"C", held), "it was not asked"
