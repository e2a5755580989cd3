"""Random histories of a site that splits and merges."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.harness.ordered_history import OrderedHistory


@pytest.mark.conforms("SEQ-10", "SEQ-11", "SEQ-12", "SEQ-20")
@pytest.mark.parametrize("order", ["total", "fifo"])
@pytest.mark.parametrize("seed", [*range(40), 242, 506])
def test_members_of_a_view_deliver_in_one_order_and_each_message_once(seed: int, order: Literal["total", "fifo"]) -> None:
    history = OrderedHistory(seed, order)
    history.run(150)
    assert [*history.faults()] == []
