"""Out-of-band messages need credit like all others, and go first when there is some."""

from __future__ import annotations

from dataclasses import replace

from sitestack.model.events import Left, Undeliverable
from sitestack.model.frame import Frame
from sitestack.model.message import Scope
from sitestack.stack.layer import Up
from tests.sitestack.layers.flow_control.test_flow_control import B, credits_from, flow_of, frame, sent


def urgent(n: int) -> Frame:
    each = frame(n, B)
    assert each.batch is not None
    return replace(each, batch=replace(each.batch, scope=Scope.OOB))


def test_without_credit_it_waits_in_front_of_the_others_and_in_order_among_its_kind() -> None:
    flow = flow_of()
    for n in range(1, 13):
        flow.down(frame(n, B), 0.0)
    assert sent(flow.down(urgent(101), 0.0)) == []
    assert sent(flow.down(urgent(102), 0.0)) == []
    assert sent(flow.up(credits_from(B, 0, 1_000), 0.0)) == [101]
    assert sent(flow.up(credits_from(B, 0, 3_000), 0.0)) == [102, 11]
    assert sent(flow.down(urgent(103), 0.0)) == []
    assert sent(flow.up(credits_from(B, 0, 9_000), 0.0)) == [103, 12]
    assert flow.levels()["queued_frames"].now == 0
    assert flow.levels()["queued_bytes"].now == 0


def test_what_waits_for_credit_when_its_sender_leaves_is_reported() -> None:
    flow = flow_of()
    frames = [frame(n, B) for n in range(1, 14)]
    for each in frames:
        flow.down(each, 0.0)
    assert flow.up(Left(), 0.0) == [Up(Undeliverable(B, tuple(frames[10:]))), Up(Left())]
    assert flow.levels()["queued_frames"].now == 0
