"""Random programs over real channels keep all promises, and a broken promise is noticed."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from sitestack.channel.receiving.inbox import Delivery
from sitestack.channel.receiving.receive_end import ReceiveEnd
from sitestack.channel.sending.message_keys import MessageKeys
from tests.sitestack.channel.swarm import run_seed


@pytest.mark.parametrize("seed", [*range(3), *[pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 200)]])
def test_a_random_program_keeps_all_promises(seed: int) -> None:
    assert run_seed(seed).faults == []


def test_a_seed_runs_the_same_again() -> None:
    assert run_seed(2).covered == run_seed(2).covered


def test_a_repeated_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageKeys, "unseen", lambda self, batch: (batch,))
    assert "was shown 2 times" in "\n".join(run_seed(0).faults)


def test_a_delivery_that_is_lost_on_its_way_to_the_application_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pop, numbers = ReceiveEnd._pop, count()

    def lose_some(self: ReceiveEnd) -> Any:
        if isinstance(item := pop(self), Delivery) and next(numbers) % 50 == 49 and self._inbox:
            return self._pop()
        return item

    monkeypatch.setattr(ReceiveEnd, "_pop", lose_some)
    assert "are missing" in "\n".join(run_seed(0).faults)
