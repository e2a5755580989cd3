"""Invariants of applications on channels, maps and locks: a fault that is planted in the product is found by each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from relay.structures.map_state import MapState
from relay_lab.simulation import SeedRun
from relay_lab.simulation.faults import Kill, Split
from relay_lab.simulation.plan import Plan
from sitestack.calls.calls import Calls
from sitestack.calls.flush import GapNotes
from sitestack.channel.receiving.state_handover import StateHandover
from sitestack.channel.sending.message_keys import MessageKeys
from sitestack.structures.lock_table import LockTable
from sitestack.structures.locks import Locks
from tests.simulation.test_grey_faults import plan_with

CALM = replace(plan_with(), messages=60, size_max=100)
KEYS = replace(CALM, keys="shared")
CALLS = replace(CALM, calls=True, faults=(Split(5.0, 12.0, "NYC", 2, False),))
STATE = replace(CALM, state="inside", faults=(Kill(15.0, "NYC", 1, 0, 1.0),))
LOCKS = replace(CALM, when_split="majority", agreement="uniform")


def answer_wrongly(calls: Calls, number: int, member: Any, answer: bytes) -> bool:
    """All but the answers to probes, which have 16 bytes."""
    return answered(calls, number, member, answer[: max(16, len(answer) - 1)])


answered = Calls.answered


def fall(table: LockTable) -> int:
    table.last_token -= 1
    return table.last_token


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "owner", "method", "planted", "invariant"),
    [
        (KEYS, MessageKeys, "unseen", lambda keys, batch: (batch,), "K1"),
        (KEYS, MessageKeys, "unseen", lambda keys, batch: () if batch.keyed() else (batch,), "K1"),
        (replace(STATE, keys="alone"), MessageKeys, "adopt", lambda keys, theirs: None, "K1"),
        (CALLS, GapNotes, "note", lambda notes, gap: None, "K2"),
        (CALLS, Calls, "answered", answer_wrongly, "K2"),
        (STATE, StateHandover, "_set", lambda handover, data: None, "M7"),
        (replace(CALM, uses_map=True), MapState, "merge", lambda state, key, entry: None, "M8"),
        (LOCKS, Locks, "release", lambda locks, request: None, "T5"),
        (LOCKS, Locks, "_claimed", lambda locks, source, clock_us, snapshot: None, "M6"),
        (LOCKS, LockTable, "_next_token", fall, "M6"),
    ],
)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, plan: Plan, owner: type, method: str, planted: Callable[..., Any], invariant: str
) -> None:
    assert SeedRun(plan).result().violations == ()
    monkeypatch.setattr(owner, method, planted)
    assert invariant in {each.split()[0] for each in SeedRun(plan).result().violations}
