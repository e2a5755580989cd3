"""The records of a journal, their order, and their cost."""

from __future__ import annotations

import hashlib
import itertools
import random
from dataclasses import replace

import pytest

from sitestack.journal import records
from sitestack.journal.recorder import DIGESTS_MAX, Recorder
from sitestack.model.address import Address
from sitestack.model.events import Blocked, Sent, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import SubView, View, ViewId

RNG = random.Random(1)
A, B = Address.make(RNG), Address.make(RNG)
V1 = ViewId(1, A)
VIEW = View(V1, V1, (A, B), ("A", "B"))


class Journal:
    """Records into a list, under a clock that ticks once a record."""

    def __init__(self, address: Address = A, *, keep_payloads: bool = False) -> None:
        self.records: list[records.Record] = []
        ticks = itertools.count(1)
        self.recorder = Recorder("NYC", address, self.records.append, lambda: (next(ticks), 7), keep_payloads=keep_payloads)

    def take(self) -> list[records.Record]:
        taken, self.records[:] = self.records[:], []
        return taken


def batch(first: int = 1, *, origin: Address = A, site: str = "NYC", scope: Scope = Scope.ALL) -> Batch:
    target = B if scope is Scope.UNICAST else None
    return Batch(site, origin, scope, first, 2, pack_body([b"one", b"three"]), target, "NYC" if target else "")


def delivery(it: Batch, seqno: int = 5) -> Frame:
    return Frame(A, None, (), it, seqno=seqno)


def test_a_story_is_recorded_in_the_order_in_which_it_happened() -> None:
    journal = Journal()
    sent = batch()
    journal.recorder.record_start("A", 42, 3, "0.1", seed=9)
    for event in (ViewInstalled(VIEW, None), Sent(sent), Blocked(), delivery(sent)):
        journal.recorder.record(event)
    journal.recorder.reject("MessageTooLarge")
    journal.recorder.record_stop(answered=True)
    digest = hashlib.sha256(sent.body).digest()
    assert journal.take() == [
        records.Start(1, 7, "NYC", A, "A", 42, 3, "0.1", 9),
        records.View(2, 7, V1, V1, (A, B), ("A", "B")),
        records.Role(3, 7, "coord", V1),
        records.Send(4, 7, "NYC", A, Scope.ALL, 1, 2, None, "", sent.sizes, digest),
        records.Deliver(5, 7, "NYC", A, Scope.ALL, 1, 2, "local", 5, V1, {}, sent.sizes, digest),
        records.Reject(6, 7, "MessageTooLarge"),
        records.Stop(7, 7, "left"),
    ]


def test_a_delivery_from_another_site_records_the_relay_and_the_global_view() -> None:
    journal = Journal(B)
    journal.recorder.record(ViewInstalled(VIEW, None))
    journal.recorder.global_view = {"SFO": ViewId(3, B)}
    journal.take()
    journal.recorder.record(delivery(batch(site="SFO")))
    [record] = journal.take()
    assert isinstance(record, records.Deliver)
    assert (record.via, record.site, record.gvec) == ("relay", "SFO", {"SFO": ViewId(3, B)})


def test_a_unicast_has_no_number_in_the_stream() -> None:
    journal = Journal(B)
    journal.recorder.record(ViewInstalled(VIEW, None))
    journal.take()
    journal.recorder.record(delivery(batch(scope=Scope.UNICAST), seqno=8))
    journal.recorder.record(delivery(batch(), seqno=0))
    assert [record.gseq for record in journal.take() if isinstance(record, records.Deliver)] == [None, None]


def test_a_role_is_recorded_when_it_changes_only() -> None:
    journal = Journal(B)
    merged = View(ViewId(2, A), V1, (B, A), ("B", "A"), (SubView(V1, (A,), V1), SubView(V1, (B,), V1)))
    journal.recorder.record(ViewInstalled(VIEW, None))
    journal.recorder.record(ViewInstalled(merged, VIEW))
    journal.recorder.role("coord", merged.id)
    journal.recorder.role("relay", merged.id, ("SFO",))
    taken = journal.take()
    assert [(r.role, r.to) for r in taken if isinstance(r, records.Role)] == [
        ("member", ()),
        ("coord", ()),
        ("relay", ("SFO",)),
    ]
    assert [r.kind for r in taken if isinstance(r, records.View)] == ["view", "merge"]


def test_drops_are_recorded_by_how_much_each_counter_grew() -> None:
    journal = Journal()
    journal.recorder.drops({"magic": 2})
    journal.recorder.drops({"magic": 2, "body": 1})
    journal.recorder.drops({"magic": 5, "body": 1})
    assert [(r.why, r.n) for r in journal.take() if isinstance(r, records.Drop)] == [("magic", 2), ("body", 1), ("magic", 3)]


@pytest.mark.parametrize("keep", [True, False])
def test_payloads_are_kept_only_on_request(keep: bool) -> None:
    journal = Journal(keep_payloads=keep)
    journal.recorder.record(ViewInstalled(VIEW, None))
    journal.take()
    journal.recorder.record(Sent(batch()))
    journal.recorder.record(delivery(batch()))
    expected = batch().body if keep else None
    assert [r.payload for r in journal.take() if isinstance(r, (records.Send, records.Deliver))] == [expected] * 2


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies that are hashed, one after the other."""
    found: list[bytes] = []
    real = hashlib.sha256

    def counting(body: bytes) -> object:
        found.append(body)
        return real(body)

    monkeypatch.setattr("sitestack.journal.recorder.hashlib.sha256", counting)
    return found


def test_a_batch_is_hashed_once_at_its_origin(hashed: list[bytes]) -> None:
    journal = Journal()
    journal.recorder.record(ViewInstalled(VIEW, None))
    mine = batch()
    journal.recorder.record(Sent(mine))
    journal.recorder.record(delivery(mine))
    assert len(hashed) == 1
    journal.recorder.record(delivery(mine))
    assert len(hashed) == 2


def test_nothing_is_kept_of_a_batch_that_has_come_back_in_other_bytes(hashed: list[bytes]) -> None:
    """At a member that does not order, own batches come back from the one that does, read from the wire."""
    journal = Journal()
    journal.recorder.record(ViewInstalled(VIEW, None))
    mine = batch()
    back = replace(mine, body=bytes(bytearray(mine.body)))
    journal.recorder.record(Sent(mine))
    journal.recorder.record(delivery(back))
    assert len(hashed) == 2
    assert hashed[1] is back.body, "what is delivered is not taken for what was sent"
    assert not journal.recorder._digests


def test_the_digests_that_wait_for_delivery_are_bounded() -> None:
    journal = Journal()
    journal.recorder.record(ViewInstalled(VIEW, None))
    for n in range(DIGESTS_MAX + 5):
        journal.recorder.record(Sent(batch(2 * n + 1)))
        journal.recorder.record(Sent(batch(2 * n + 1, scope=Scope.UNICAST)))
    assert len(journal.recorder._digests) == DIGESTS_MAX


def test_a_gap_in_the_own_site_is_recorded_with_its_scope() -> None:
    journal = Journal()
    for scope in (Scope.ALL, Scope.SITE):
        journal.recorder.record(Gap("NYC", B, 3, 5, GapReason.OTHER_PART, scope))
    gap = records.Gap(1, 7, "NYC", B, 3, 5, "other_part")
    assert journal.take() == [gap, replace(gap, t=2, scope=Scope.SITE)]
