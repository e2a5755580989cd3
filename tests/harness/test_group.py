"""The harness itself: the test of docs/how-to/layer.md, and a layer whose deadline never moves is reported."""

from __future__ import annotations

import pytest

from sitestack.layers.nakack import NakAck, NakAckConfig
from sitestack.stack.layer import Layer
from tests.harness.addresses import view_of
from tests.harness.group import Group
from tests.harness.messages import frame_of
from tests.harness.wire import Faults


def test_lost_frames_are_sent_again() -> None:
    group = Group("AB", lambda local: [NakAck(local, NakAckConfig())], faults=Faults(loss=0.9))
    group.install(view_of(1, "AB"))
    group.down("A", frame_of("A", 1))
    group.run(seconds=60.0)
    assert group["B"].firsts("A") == [1]


class Restless(Layer):
    """A layer that is always due."""

    name = "restless"

    def deadline(self) -> float | None:
        return 0.0


def test_a_layer_that_is_due_for_ever_is_found_out() -> None:
    with pytest.raises(AssertionError, match="A is due again and again"):
        Group("A", lambda local: [Restless()]).run(1.0)
