"""STABLE with many senders: its frames are unreliable and cannot be cut on the way, so each has to fit by itself."""

from __future__ import annotations

import random
from dataclasses import replace

from sitestack.config import DATAGRAM_BYTES_MIN
from sitestack.layers.fragment import FragmentConfig
from sitestack.layers.stability import Stability, StabilityConfig, StabilityReport
from sitestack.model.address import Address
from sitestack.model.events import Stable, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Effect, Local
from sitestack.wire.codec import Codec
from tests.harness.addresses import SITE, address, view_of
from tests.harness.casters import Casters
from tests.harness.messages import frame_of, frames_in

MEMBERS = tuple(Address(bytes([n]) * 16) for n in range(100))
VIEW = View(ViewId(1 << 40, MEMBERS[0]), ViewId(1 << 40, MEMBERS[0]), MEMBERS, tuple(map(str, range(100))))
CODEC = Codec(SITE, Stability.HEADERS)
#: More than the largest number that any member reaches in a view.
FAR = 1 << 40


def member_that_delivered(rank: int, owners: tuple[Address, ...]) -> Stability:
    """A member of the view to which each of these has sent so much."""
    layer = Stability(Local(SITE, MEMBERS[rank], "", random.Random(1)), StabilityConfig())
    layer.up(ViewInstalled(VIEW, None), 0.0)
    for owner in owners:
        layer.up(replace(frame_of("A", 1), source=owner, seqno=FAR), 0.0)
    return layer


def frames_of(effects: list[Effect]) -> list[Frame]:
    return frames_in(effects, Down)


def test_reports_and_vectors_about_a_hundred_streams_fit_into_the_smallest_datagrams() -> None:
    coordinator, member = member_that_delivered(0, MEMBERS), member_that_delivered(1, MEMBERS)
    reports = frames_of(member.expire(1.0))
    assert max(len(CODEC.encode_frame(frame)) for frame in reports) <= DATAGRAM_BYTES_MIN // 2
    for reporter in MEMBERS[1:]:
        for frame in reports:
            coordinator.up(replace(frame, source=reporter), 1.0)
    effects = coordinator.flush(1.0)
    assert effects[0] == Down(Stable(dict.fromkeys(MEMBERS, FAR)))
    vectors = frames_of(effects)
    assert max(len(CODEC.encode_frame(frame)) for frame in vectors) <= DATAGRAM_BYTES_MIN // 2
    for frame in vectors:
        member.up(frame, 1.0)
    assert member.expire(2.0) == []
    assert member.deadline() is None


def test_who_missed_one_frame_of_the_last_vector_is_told_again() -> None:
    owners = MEMBERS[:20]
    coordinator, member = member_that_delivered(0, owners), member_that_delivered(1, owners)
    digest = dict.fromkeys(owners, FAR)
    for reporter in MEMBERS[1:]:
        coordinator.up(Frame(reporter, MEMBERS[0], (StabilityReport(VIEW.id, digest, 0),), None, True), 0.0)
    first, second = frames_of(coordinator.flush(0.0))
    member.up(second, 0.0)
    (report,) = frames_of(member.expire(1.0))
    again = frames_of(coordinator.up(report, 1.0))
    assert again == [replace(frame, dest=MEMBERS[1]) for frame in (first, second)]
    for frame in again:
        member.up(frame, 1.0)
    assert member.expire(2.0) == []


def test_with_fifty_senders_and_small_datagrams_everything_becomes_stable() -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx"
    group = Casters(letters, stability=StabilityConfig(), fragment=FragmentConfig(600))
    group.install(view_of(1, letters))
    for letter in letters:
        group.send(letter, 2)
    group.run(5.0)
    for member in group.living():
        known = [event.vector for event in member.events if isinstance(event, Stable)]
        assert known[-1:] == [{address(letter): 2 for letter in letters}]
