"""The router without sockets: admission, notifications, bounds, and expiry."""

from __future__ import annotations

import pytest

from relay.router import router as router_module
from relay.router.router import GREETING_TIMEOUT_S, QUERY_INTERVAL_S, SILENT_S, Router
from relay.router.server import EXPIRE_INTERVAL_S, NOTICE_BYTES_MAX, WRITE_BYTES, Outboxes
from relay.router.switchboard import Cut, Effect, Say
from sitestack.layers.failure_detection import FailureDetectionConfig
from sitestack.model.address import Address, Physical
from sitestack.model.errors import ProtocolError
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.proofs import NONCE_BYTES, Proofs
from sitestack.transport.router_link import PING_S
from sitestack.wire import routing
from sitestack.wire.routing import Entry, FrameReader, framed, pack_entry, parse_entry
from tests.harness.addresses import address

NYC = Proofs("NYC", KeyRing.of(bytes(range(32))))
SFO = Proofs("SFO", KeyRing.of(bytes(range(1, 33))))
NONCE, MINE = b"n" * NONCE_BYTES, b"m" * NONCE_BYTES
A, B, C = map(address, "ABC")


def entry(member: Address, name: str, port: int = 7600) -> Entry:
    return Entry(member, name, (Physical("10.0.0.1", port), Physical("10.1.0.1", port)))


class Played:
    """A router whose connections a test plays."""

    def __init__(self) -> None:
        self.router = Router({"NYC": NYC, "SFO": SFO, "LAB": None})
        self.now = 0.0

    def open(self, client: int) -> list[Effect]:
        return self.router.open(client, NONCE, self.now)

    def hear(self, client: int, *parts: bytes) -> list[Effect]:
        return self.router.receive_frame(client, b"".join(parts), self.now)

    def greet(self, client: int, cluster: str = "NYC", proofs: Proofs | None = NYC) -> list[Effect]:
        self.open(client)
        return self.hear(client, routing.hello(cluster, proofs, NONCE, MINE))

    def register(self, client: int, who: Entry, cluster: str = "NYC", proofs: Proofs | None = NYC) -> list[Effect]:
        self.greet(client, cluster, proofs)
        return self.hear(client, routing.REGISTER, pack_entry(who, proofs))

    def members(self, cluster: str = "NYC") -> list[str]:
        return [each.entry.name for name, members in self.router.registry.clusters() if name == cluster for each in members]


@pytest.fixture
def played() -> Played:
    return Played()


def said(effects: list[Effect]) -> list[tuple[tuple[int, ...], list[bytes]]]:
    """Return receivers and their frames."""
    heard = []
    for effect in effects:
        assert isinstance(effect, Say)
        reader = FrameReader()
        reader.bytes_max = routing.FRAME_BYTES_MAX
        reader.feed(effect.frame)
        heard.append((tuple(effect.clients), list(reader.frames())))
    return heard


def test_both_ends_prove_a_key_of_the_site_before_anything_else(played: Played) -> None:
    assert said(played.open(1)) == [((1,), [routing.challenge(NONCE)])]
    [(to, [welcome])] = said(played.hear(1, routing.hello("NYC", NYC, NONCE, MINE)))
    assert to == (1,)
    assert routing.is_welcome(welcome, NYC, NONCE, MINE)
    assert not routing.is_welcome(welcome, SFO, NONCE, MINE)
    assert not routing.is_welcome(welcome, NYC, MINE, NONCE)


@pytest.mark.parametrize(
    ("cluster", "proofs", "nonce", "reason"),
    [
        ("NYC", SFO, NONCE, "unproven"),
        ("NYC", None, NONCE, "unproven"),
        ("NYC", NYC, MINE, "unproven"),
        ("LAB", NYC, NONCE, "unproven"),
        ("OSL", NYC, NONCE, "other_site"),
    ],
    ids=["the key of another site", "no key", "an overheard proof", "a key where none is used", "a site that is not served"],
)
def test_a_client_without_a_valid_proof_is_cut(
    played: Played, cluster: str, proofs: Proofs | None, nonce: bytes, reason: str
) -> None:
    played.open(1)
    assert played.hear(1, routing.hello(cluster, proofs, nonce, MINE)) == [Cut(1, reason)]
    assert played.hear(1, routing.PING) == []
    assert played.router.refused == {reason: 1}


def test_nothing_is_parsed_before_the_proof(played: Played) -> None:
    played.open(1)
    assert played.hear(1, routing.REGISTER, pack_entry(entry(A, "A"), NYC)) == [Cut(1, "greeting")]
    assert played.router.bytes_max(1) == routing.FRAME_BYTES_MAX
    played.open(2)
    assert played.router.bytes_max(2) == routing.GREETING_BYTES_MAX
    assert not played.members()


@pytest.mark.conforms("LA-16")
def test_a_member_is_registered_with_uuid_name_and_addresses_and_others_are_notified(played: Played) -> None:
    assert played.register(1, entry(A, "A")) == []
    assert said(played.register(2, entry(B, "B"))) == [((1,), [routing.PRESENT + pack_entry(entry(B, "B"), NYC)])]
    [(to, [told, end])] = said(played.hear(2, routing.QUERY))
    assert (to, end) == ((2,), routing.listed(1))
    assert parse_entry(told[1:], NYC) == entry(A, "A")


@pytest.mark.conforms("LA-16")
def test_only_a_changed_registration_is_reported_again(played: Played) -> None:
    played.register(1, entry(A, "A"))
    played.register(2, entry(B, "B"))
    assert played.hear(2, routing.REGISTER, pack_entry(entry(B, "B"), NYC)) == []
    moved = pack_entry(entry(B, "B", 7601), NYC)
    assert said(played.hear(2, routing.REGISTER, moved)) == [((1,), [routing.PRESENT + moved])]


@pytest.mark.conforms("LA-16")
def test_a_reconnection_replaces_the_connection_whose_end_went_unnoticed(played: Played) -> None:
    played.register(1, entry(A, "A"))
    played.register(2, entry(B, "B"))
    effects = played.register(3, entry(B, "B"))
    assert effects[0] == Cut(2, "replaced")
    assert played.router.close(2, played.now) == [], "B is not gone"
    assert played.members() == ["A", "B"]
    assert said(played.hear(1, routing.SEND, B, b"x")) == [((3,), [routing.DATA + A + b"x"])]


@pytest.mark.conforms("LA-16")
def test_a_departed_or_silent_member_is_removed_and_the_others_are_notified(played: Played) -> None:
    for client, (member, name) in enumerate([(A, "A"), (B, "B"), (C, "C")], 1):
        played.register(client, entry(member, name))
    assert said(played.router.close(3, played.now)) == [((1, 2), [routing.GONE + C])]
    played.now = SILENT_S - 0.1
    assert said(played.hear(1, routing.PING)) == [((1,), [routing.PONG])]
    assert played.router.expire(played.now) == []
    cut, *rest = played.router.expire(SILENT_S)
    assert cut == Cut(2, "silent")
    assert said(rest) == [((1,), [routing.GONE + B])]
    assert played.members() == ["A"]


def test_a_silent_member_is_removed_before_members_suspect_each_other() -> None:
    """Until then the others send to it through this router alone, though it may be connected to another one."""
    detection = FailureDetectionConfig()
    suspected_s = detection.timeout_s + detection.verify_timeout_s - detection.heartbeat_interval_s
    assert 2 * PING_S < SILENT_S < suspected_s - EXPIRE_INTERVAL_S


def test_a_member_whose_frame_arrives_slowly_is_not_silent(played: Played) -> None:
    played.register(1, entry(A, "A"))
    played.router.note_bytes(1, 1.0)
    assert played.router.expire(SILENT_S) == []
    assert played.router.expire(1.0 + SILENT_S) == [Cut(1, "silent")]
    played.open(2)
    played.router.note_bytes(2, 1.0)
    assert played.router.expire(GREETING_TIMEOUT_S) == [Cut(2, "unproven")]


@pytest.mark.conforms("LA-15")
def test_a_datagram_goes_to_one_or_is_copied_to_all_others_of_the_site_alone(played: Played) -> None:
    for client, (member, name) in enumerate([(A, "A"), (B, "B"), (C, "C")], 1):
        played.register(client, entry(member, name))
    played.register(4, entry(A, "D"), "SFO", SFO)
    played.register(5, entry(B, "E"), "LAB", None)
    [copied] = played.hear(1, routing.CAST, b"to all")
    assert said([copied]) == [((2, 3), [routing.DATA + A + b"to all"])]
    assert isinstance(copied, Say)
    assert copied.is_datagram
    assert said(played.hear(1, routing.SEND, C, b"")) == [((3,), [routing.DATA + A])]
    assert played.hear(4, routing.SEND, C, b"x") == []
    assert played.router.refused == {"nobody": 1}
    assert said(played.hear(4, routing.QUERY)) == [((4,), [routing.listed(0)])]
    router = played.router
    assert (router.registered, router.casts, router.sends, router.queries) == (5, 1, 2, 1)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (routing.REGISTER + pack_entry(entry(B, "B"), SFO), "registration_proof"),
        (routing.REGISTER + pack_entry(entry(B, "B"), NYC)[:-1], "registration_proof"),
        (routing.REGISTER + b"x", "registration"),
        (routing.REGISTER + pack_entry(entry(B, "B"), NYC), "two_registrations"),
        (routing.SEND + b"short", "frame_kind"),
        (b"?", "frame_kind"),
    ],
    ids=["of another site", "cut off", "too short", "of another member too", "without a receiver", "of no kind"],
)
def test_an_invalid_frame_ends_the_connection(played: Played, frame: bytes, reason: str) -> None:
    played.register(1, entry(A, "A"))
    assert played.hear(1, frame)[0] == Cut(1, reason)
    assert not played.members()


def test_an_unregistered_client_that_sends_is_cut(played: Played) -> None:
    played.register(1, entry(A, "A"))
    played.greet(2)
    assert played.hear(2, routing.CAST, b"x") == [Cut(2, "unregistered")]


@pytest.mark.parametrize("bad", [b"\xff", b"\n", b"\x1b["])
def test_a_name_that_could_forge_a_line_of_a_log_is_refused(bad: bytes) -> None:
    body = pack_entry(Entry(A, "", ()), None)[:-2] + len(bad).to_bytes(2, "little") + bad
    with pytest.raises(ProtocolError, match="registration"):
        parse_entry(body, None)


def test_strangers_are_few_and_for_a_short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_module, "PENDING_MAX", 2)
    played = Played()
    played.open(1)
    played.now = 1.0
    played.open(2)
    assert played.open(3)[0] == Cut(1, "pending")
    assert played.router.expire(GREETING_TIMEOUT_S) == []
    assert played.router.expire(1.0 + GREETING_TIMEOUT_S) == [Cut(2, "unproven"), Cut(3, "unproven")]


def test_no_site_uses_the_connection_slots_of_another(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_module, "CLIENTS_MAX", 3)
    played.register(1, entry(A, "A"))
    assert played.greet(2) == [Cut(2, "too_many")], "the second place is that of another site"
    played.register(3, entry(B, "B"), "SFO", SFO)
    levels = played.router.levels()
    assert (levels["clients"].now, levels["clients"].bound) == (2, 3)
    assert (played.members(), played.members("SFO")) == (["A"], ["B"])


def test_a_member_that_asks_all_the_time_is_answered_now_and_then(played: Played) -> None:
    played.register(1, entry(A, "A"))
    assert played.hear(1, routing.QUERY)
    assert played.hear(1, routing.QUERY) == []
    assert played.router.refused == {"query": 1}
    played.now = QUERY_INTERVAL_S
    assert played.hear(1, routing.QUERY)


def test_an_outbox_loses_datagrams_and_still_has_room_for_a_notice() -> None:
    boxes = Outboxes(outbox_bytes_max=100)
    boxes.open(1)
    boxes.open(2)
    assert boxes.put(1, bytes(100), is_datagram=True)
    assert boxes.put(1, b"x", is_datagram=True)
    assert boxes.lost_datagrams == 1
    assert boxes.put(1, b"notice", is_datagram=False)
    assert boxes.put(2, b"y", is_datagram=True)
    assert (boxes.next_bytes(2), boxes.next_bytes(1), boxes.next_bytes(1)) == (b"y", bytes(100) + b"notice", b"")
    assert not boxes.put(1, bytes(NOTICE_BYTES_MAX + 101), is_datagram=False)


def test_the_total_of_all_outboxes_is_bounded_and_a_closed_outbox_frees_its_room() -> None:
    boxes = Outboxes(outbox_bytes_max=100, total_bytes_max=850)
    for client in (1, 2):
        boxes.open(client)
        boxes.put(client, bytes(100), is_datagram=True)
    assert boxes.lost_datagrams == 1
    boxes.close(1)
    boxes.put(2, bytes(100), is_datagram=True)
    assert boxes.lost_datagrams == 1
    assert boxes.levels()["total_queued_bytes"].now == 100
    boxes.put(1, b"gone", is_datagram=True)
    assert boxes.next_bytes(1) == b""


@pytest.mark.parametrize("is_datagram", [True, False])
def test_members_that_do_not_read_leave_room_for_those_of_other_sites(is_datagram: bool) -> None:
    """C28: members of one site that read nothing and are sent much, by each other or as answers to queries."""
    boxes = Outboxes(outbox_bytes_max=1_000, total_bytes_max=10_000)
    for client in range(100):
        boxes.open(client)
        for _ in range(10):
            boxes.put(client, bytes(100), is_datagram=is_datagram)
    assert boxes.levels()["total_queued_bytes"].now <= 10_000
    boxes.open(100)
    lost = boxes.lost_datagrams
    assert boxes.put(100, bytes(10), is_datagram=True)
    assert boxes.lost_datagrams == lost


def test_much_is_written_in_portions() -> None:
    boxes = Outboxes()
    boxes.open(1)
    for _ in range(5):
        boxes.put(1, bytes(WRITE_BYTES // 2), is_datagram=True)
    assert [len(boxes.next_bytes(1)) for _ in range(4)] == [WRITE_BYTES, WRITE_BYTES, WRITE_BYTES // 2, 0]


def test_frames_are_found_however_they_arrive_and_none_is_larger_than_it_may_be() -> None:
    data = framed(b"one") + framed(b"two", b"2")
    reader, found = FrameReader(), list[bytes]()
    for at in range(len(data)):
        reader.feed(data[at : at + 1])
        found += reader.frames()
    assert found == [b"one", b"two2"]
    for size in (0, routing.GREETING_BYTES_MAX + 1):
        reader.feed(size.to_bytes(4, "little"))
        with pytest.raises(ProtocolError, match="frame_size"):
            list(reader.frames())
        reader = FrameReader()
