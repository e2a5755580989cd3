"""Messages out of band: numbered in the stream of the ordinary ones, delivered once, on arrival."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sitestack.layers.fragment import Fragment, FragmentConfig
from sitestack.layers.unicast import UnicastConfig
from sitestack.layers.unicast.headers import UnicastAck, UnicastData
from sitestack.model.message import Scope
from tests.sitestack.layers.unicast.unicast_world import Fate, Packet, World

pytestmark = pytest.mark.conforms("U2-18")


def told(world: World, story: str) -> None:
    """The transcript since the last time is this story."""
    assert world.story() == "\n".join(line.strip() for line in story.strip().splitlines())


def lose(*seqnos: int) -> object:
    """A rule that loses these numbers of any connection."""

    def tamper(packet: Packet) -> Fate:
        lost = isinstance(packet.header, UnicastData) and packet.header.seqno in seqnos
        return Fate.LOSE if lost else Fate.PASS

    return tamper


def behind_a_hole(config: UnicastConfig | None = None) -> World:
    """B lacks A's second message, and has A's third, which is out of band."""
    world = World(config=config)
    world.send("A", "B", "one")
    world.run(0.01)
    world.rule = lose(2)  # type: ignore[assignment]
    world.send("A", "B", "two")
    world.send("A", "B", "urgent", scope=Scope.OOB)
    world.run(0.01)
    return world


def test_it_is_delivered_at_once_while_an_earlier_message_is_missing_and_not_again_in_its_turn() -> None:
    world = behind_a_hole()
    world.release()
    world.run(0.1)
    world.send("A", "B", "four")
    world.run(0.1)
    told(
        world,
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
    world = World()
    world.rule = lose(1)  # type: ignore[assignment]
    world.send("A", "B", "one")
    world.send("A", "B", "urgent", scope=Scope.OOB)
    world.run(0.01)
    assert world["B"].received == {"A": ["urgent"]}
    world.release()
    world.run(1)
    assert world["B"].received == {"A": ["urgent", "one"]}


@pytest.mark.conforms("U2-5")
@pytest.mark.parametrize("closing", ["AB", "BA"])
def test_it_is_not_delivered_again_when_either_side_closes_the_connection(closing: str) -> None:
    """It is carried over into the new connection with a new number; its mid says that it was delivered (U4, U5)."""
    world = behind_a_hole()
    world.close(*closing)
    world.run(0.2)
    world.release()
    world.run(2)
    assert world["B"].received == {"A": ["one", "urgent", "two"]}
    assert world.levels("A")["window_frames"].now == 0
    assert world.levels("B")["early_delivered"].now == 0


def test_it_is_sent_before_what_waits_for_room_in_the_window() -> None:
    world = World(config=UnicastConfig(window_frames_max=1))
    world.send("A", "B", "one", "two", "three")
    world.send("A", "B", "urgent", "pressing", scope=Scope.OOB)
    world.run(1)
    assert world["B"].received == {"A": ["one", "urgent", "pressing", "two", "three"]}


def test_what_is_lost_itself_is_sent_again() -> None:
    world = World()
    world.send("A", "B", "one")
    world.run(0.01)
    lost = lose(2)
    world.rule = lost  # type: ignore[assignment]
    world.send("A", "B", "urgent", scope=Scope.OOB)
    world.run(0.05)
    assert world["B"].received == {"A": ["one"]}
    world.release()
    world.run(1)
    assert world["B"].received == {"A": ["one", "urgent"]}


def test_beyond_the_bound_it_waits_for_its_turn() -> None:
    """What a receiver remembers of one peer is bounded, also when the peer never sends the message that is missing."""
    world = behind_a_hole(UnicastConfig(reorder_frames_max=2))
    world.send("A", "B", "next", scope=Scope.OOB)
    world.send("A", "B", "far", scope=Scope.OOB)
    world.run(0.01)
    assert world["B"].received == {"A": ["one", "urgent"]}  # seqno 4 is two beyond the expected 2
    world.release()
    world.run(1)
    assert world["B"].received["A"][:3] == ["one", "urgent", "two"]
    assert sorted(world["B"].received["A"][3:]) == ["far", "next"]


def test_what_is_given_up_is_told_to_the_sender() -> None:
    world = World()
    world["B"].alive = False
    world.send("A", "B", "urgent", scope=Scope.OOB)
    world.run(120)
    assert world["A"].undeliverable == ["urgent"]


def test_one_that_fits_into_no_datagram_keeps_its_place_and_whole_ones_pass_between_its_pieces() -> None:
    def above(local: object) -> list[Fragment]:
        return [Fragment(local, FragmentConfig(fragment_bytes_max=300))]  # type: ignore[arg-type]

    world = World(above=above)  # type: ignore[arg-type]
    for process in world.processes.values():
        fragment = process.stack.layers[1]
        assert isinstance(fragment, Fragment)
        fragment.bind(process.stack.codec)
    world.send("A", "B", "one")
    world.run(0.01)
    world.rule = lose(3)  # type: ignore[assignment]
    world.send("A", "B", "x" * 1000, scope=Scope.OOB)
    world.send("A", "B", "urgent", scope=Scope.OOB)
    world.run(0.01)
    assert world["B"].received == {"A": ["one", "urgent"]}
    world.release()
    world.run(1)
    assert world["B"].received == {"A": ["one", "urgent", "x" * 1000]}


def test_acknowledgements_say_nothing_of_it_before_its_turn() -> None:
    world = behind_a_hole()
    acked = [packet.header.seqno for packet in world.packets if isinstance(packet.header, UnicastAck)]
    assert max(acked) == 1


class BothKinds(RuleBasedStateMachine):
    """A sends B both kinds of messages, and either side closes the connection. The model: a list and a set."""

    @initialize(seed=st.integers(0, 2**32), faults=st.sampled_from([(0.0, 0.0), (0.2, 0.2), (0.4, 0.5)]))
    def begin(self, seed: int, faults: tuple[float, float]) -> None:
        self.world = World(seed=seed)
        self.world.loss, self.world.duplication = faults
        self.world.spread_s = 0.03
        self.ordered: list[str] = []
        self.urgent: list[str] = []

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        texts = [f"o{len(self.ordered) + i}" for i in range(count)]
        self.ordered += texts
        self.world.send("A", "B", *texts)

    @rule(count=st.integers(1, 3))
    def send_out_of_band(self, count: int) -> None:
        texts = [f"u{len(self.urgent) + i}" for i in range(count)]
        self.urgent += texts
        self.world.send("A", "B", *texts, scope=Scope.OOB)

    @rule(way=st.sampled_from(["AB", "BA"]))
    def close(self, way: str) -> None:
        self.world.close(*way)

    @rule(seconds=st.sampled_from([0.0005, 0.01, 0.05, 0.3]))
    def wait(self, seconds: float) -> None:
        self.world.run(seconds)

    @rule(fate=st.sampled_from([Fate.PASS, Fate.LOSE, Fate.DELAY]))
    def tamper(self, fate: Fate) -> None:
        self.world.rule = lambda packet: fate

    @rule()
    def release(self) -> None:
        self.world.release()

    def received(self, kind: str) -> list[str]:
        return [text for text in self.world["B"].received.get("A", []) if text.startswith(kind)]

    @invariant()
    def ordered_ones_are_a_prefix_and_the_others_come_once(self) -> None:
        ordered, urgent = self.received("o"), self.received("u")
        assert ordered == self.ordered[: len(ordered)]
        assert len(urgent) == len(set(urgent))

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.loss = self.world.duplication = 0.0
        self.world.release()
        self.world.run(20)
        assert self.received("o") == self.ordered
        assert sorted(self.received("u")) == sorted(self.urgent)
        assert self.world.levels("A")["window_frames"].now == self.world.levels("B")["early_delivered"].now == 0


TestBothKinds = BothKinds.TestCase
TestBothKinds.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
