"""Messages out of band: numbered in the stream of the ordinary ones, delivered once, on arrival."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sitestack.layers.fragment import Fragment, FragmentConfig
from sitestack.layers.unicast import UnicastConfig
from sitestack.layers.unicast.headers import UnicastData
from sitestack.model.message import Scope
from tests.harness.talkers import Talkers
from tests.harness.wire import Fate, Faults, Packet, keep, lose

pytestmark = pytest.mark.conforms("U2-18")


def numbered(*seqnos: int) -> Callable[[Packet], bool]:
    """The data of these numbers of any connection."""
    return lambda packet: isinstance(packet.header, UnicastData) and packet.header.seqno in seqnos


def behind_a_hole(config: UnicastConfig | None = None) -> Talkers:
    """B lacks A's second message, and has A's third, which is out of band."""
    group = Talkers(config=config)
    group.send("A", "B", "one")
    group.run(0.01)
    group.wire.rule = lose(numbered(2))
    group.send("A", "B", "two")
    group.send("A", "B", "urgent", scope=Scope.OOB)
    group.run(0.01)
    return group


def test_it_is_delivered_at_once_while_an_earlier_message_is_missing_and_not_again_in_its_turn() -> None:
    group = behind_a_hole()
    group.release()
    group.run(0.1)
    group.send("A", "B", "four")
    group.run(0.1)
    group.tells(
        """
        A -> B: 1.1 mid 1 first one
        B delivers one
        B -> A: ack 1.1
        A -> B: 1.2 mid 2 two (lost)
        A -> B: 1.3 mid 3 urgent
        B delivers urgent
        B -> A: ack 1.1
        B -> A: ack 1.1 missing 2-2
        A -> B: 1.2 mid 2 two
        B delivers two
        B -> A: ack 1.3
        A -> B: 1.4 mid 4 four
        B delivers four
        B -> A: ack 1.4
        """,
    )


def test_it_is_delivered_before_the_first_message_of_a_connection_is_there() -> None:
    group = Talkers()
    group.wire.rule = lose(numbered(1))
    group.send("A", "B", "one")
    group.send("A", "B", "urgent", scope=Scope.OOB)
    group.run(0.01)
    assert group["B"].texts == {"A": ["urgent"]}
    group.release()
    group.run(1)
    assert group["B"].texts == {"A": ["urgent", "one"]}


@pytest.mark.conforms("U2-5")
@pytest.mark.parametrize("closing", ["AB", "BA"])
def test_it_is_not_delivered_again_when_either_side_closes_the_connection(closing: str) -> None:
    """It moves into the new connection with a new number; its mid shows that it was delivered (U4, U5)."""
    group = behind_a_hole()
    group.close(*closing)
    group.run(0.2)
    group.release()
    group.run(2)
    assert group["B"].texts == {"A": ["one", "urgent", "two"]}
    assert group.levels("A")["window_frames"].now == 0
    assert group.levels("B")["early_delivered"].now == 0


def test_an_oob_message_is_sent_before_messages_that_wait_for_the_window() -> None:
    group = Talkers(config=UnicastConfig(window_frames_max=1))
    group.send("A", "B", "one", "two", "three")
    group.send("A", "B", "urgent", "pressing", scope=Scope.OOB)
    group.run(1)
    assert group["B"].texts == {"A": ["one", "urgent", "pressing", "two", "three"]}


def test_beyond_the_bound_it_waits_for_its_turn() -> None:
    """A receiver's memory of one peer is bounded, also when the peer never sends the missing message."""
    group = behind_a_hole(UnicastConfig(reorder_frames_max=2))
    group.send("A", "B", "next", scope=Scope.OOB)
    group.send("A", "B", "far", scope=Scope.OOB)
    group.run(0.01)
    assert group["B"].texts == {"A": ["one", "urgent"]}  # seqno 4 is two beyond the expected 2
    group.release()
    group.run(1)
    assert group["B"].texts["A"][:3] == ["one", "urgent", "two"]
    assert sorted(group["B"].texts["A"][3:]) == ["far", "next"]


def test_an_abandoned_oob_message_is_reported_to_the_sender() -> None:
    group = Talkers()
    group["B"].alive = False
    group.send("A", "B", "urgent", scope=Scope.OOB)
    group.run(120)
    assert group["A"].undeliverable == ["urgent"]


def test_the_record_of_an_early_delivery_is_freed_when_its_sender_abandons_it() -> None:
    """B never gets the message before it; what B remembers must not fill up with such mids."""
    group = behind_a_hole()
    group.wire.rule = lose(lambda packet: True)
    group.run(70)
    assert group["A"].undeliverable == ["two", "urgent"]
    group.wire.rule = keep
    group.send("A", "B", "four")
    group.run(1)
    assert group["B"].texts == {"A": ["one", "urgent", "four"]}
    assert group.levels("B")["early_delivered"].now == 0


def test_one_that_fits_into_no_datagram_keeps_its_place_and_whole_ones_pass_between_its_pieces() -> None:
    group = Talkers(above=lambda local: [Fragment(local, FragmentConfig(fragment_bytes_max=300))])
    group.send("A", "B", "one")
    group.run(0.01)
    group.wire.rule = lose(numbered(3))
    group.send("A", "B", "x" * 1000, scope=Scope.OOB)
    group.send("A", "B", "urgent", scope=Scope.OOB)
    group.run(0.01)
    assert group["B"].texts == {"A": ["one", "urgent"]}
    group.release()
    group.run(1)
    assert group["B"].texts == {"A": ["one", "urgent", "x" * 1000]}


WAYS = st.sampled_from(["AB", "BA"])


class BothKinds(RuleBasedStateMachine):
    """A and B send each other both kinds of messages, in any order among packets that are lost, delayed and released, and
    connections that either side closes. The model for each way: the ordered messages as a list, the others as a set.
    """

    group: Talkers

    @initialize(seed=st.integers(0, 2**32), faults=st.sampled_from([(0.0, 0.0), (0.2, 0.2), (0.4, 0.5)]))
    def begin(self, seed: int, faults: tuple[float, float]) -> None:
        self.group = Talkers(seed=seed)
        self.group.wire.faults = Faults(*faults, spread_s=0.03)
        self.ordered: dict[str, list[str]] = {"AB": [], "BA": []}
        self.urgent: dict[str, list[str]] = {"AB": [], "BA": []}

    @rule(way=WAYS, count=st.integers(1, 4))
    def send(self, way: str, count: int) -> None:
        texts = [f"o{len(self.ordered[way]) + i}" for i in range(count)]
        self.ordered[way] += texts
        self.group.send(*way, *texts)

    @rule(way=WAYS, count=st.integers(1, 3))
    def send_out_of_band(self, way: str, count: int) -> None:
        texts = [f"u{len(self.urgent[way]) + i}" for i in range(count)]
        self.urgent[way] += texts
        self.group.send(*way, *texts, scope=Scope.OOB)

    @rule(way=WAYS)
    def close(self, way: str) -> None:
        self.group.close(*way)

    @rule(seconds=st.sampled_from([0.0005, 0.01, 0.05, 0.3]))
    def wait(self, seconds: float) -> None:
        self.group.run(seconds)

    @rule(fate=st.sampled_from([Fate.PASS, Fate.LOSE, Fate.DELAY]))
    def tamper(self, fate: Fate) -> None:
        self.group.wire.rule = lambda packet: fate

    @rule()
    def release(self) -> None:
        self.group.release()

    def received(self, way: str, kind: str) -> list[str]:
        return [text for text in self.group[way[1]].texts.get(way[0], []) if text.startswith(kind)]

    @invariant()
    def ordered_ones_are_a_prefix_and_the_others_come_once(self) -> None:
        for way, sent in self.ordered.items():
            ordered, urgent = self.received(way, "o"), self.received(way, "u")
            assert ordered == sent[: len(ordered)]
            assert len(urgent) == len(set(urgent))

    def teardown(self) -> None:
        if not hasattr(self, "group"):  # nothing has begun
            return
        self.group.wire.faults = Faults()
        self.group.release()
        self.group.run(20)
        for way in self.ordered:
            assert self.received(way, "o") == self.ordered[way]
            assert sorted(self.received(way, "u")) == sorted(self.urgent[way])
            levels = self.group.levels(way[0])
            assert levels["window_frames"].now == levels["early_delivered"].now == 0


TestBothKinds = BothKinds.TestCase
TestBothKinds.settings = settings(max_examples=150, stateful_step_count=30)
